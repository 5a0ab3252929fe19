"""One way to help pending pods: a number of nodes of one group."""

import msgspec

from autoscaler.objects.pod import Pod
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.template import Template


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """An expansion option, as the expanders compare them."""

    group: Group
    template: Template
    nodes: int
    """New nodes that would get pods; at least one."""
    pods: tuple[Pod, ...]
    """Pending pods that would fit on them; at least one."""
    similar: tuple[str, ...] = ()
    """Ids of similar groups that may share the nodes."""
    kinds: int = 0
    """Groups of equivalent pods among which the estimate chose."""
    namespaces: int = 0
    """How many namespaces these are from."""
    beside: "tuple[Option, ...]" = ()
    """Nodes of other groups that come with these for the same pods, where several groups help a gang."""

    @property
    def parts(self) -> "tuple[Option, ...]":
        """The nodes of each group."""
        return self, *self.beside

    @property
    def density(self) -> float:
        """Pods for each new node."""
        return len(self.pods) / self.nodes
