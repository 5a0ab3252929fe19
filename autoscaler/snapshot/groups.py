"""Node groups as one pass read them from the provider."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from cloudprovider.interface import GroupSettings, Instance, NodeTemplate


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A node group, frozen at the start of the pass."""

    id: str
    min_size: int
    max_size: int
    target_size: int
    """Machines asked for: includes those not yet registered, excludes those being deleted."""
    instances: Sequence[Instance] = ()
    template: NodeTemplate | None = None
    """What the provider says a new node looks like; None where it cannot tell."""
    settings: GroupSettings = GroupSettings()
    node_price: float | None = None
    """Per hour; None where the provider knows no prices."""

    @property
    def room(self) -> int:
        """How many machines may still be asked for."""
        return max(0, self.max_size - self.target_size)


class Groups(msgspec.Struct, frozen=True, dict=True):
    """All node groups in the provider's order, and which node belongs where."""

    all: tuple[Group, ...] = ()
    of_node: Mapping[str, str] = {}
    """Group id by node name; nodes that are not autoscaled are absent."""
    gone: frozenset[str] = frozenset()
    """Names of nodes whose machine the provider no longer has (only where it can tell)."""
    can_tell_gone: bool = False
    """Whether the provider can tell that a machine is gone."""
    gpu_label: str = ""
    """Label whose value is the GPU type; empty where the provider names none."""
    gpu_types: frozenset[str] = frozenset()
    """Values of that label that the provider knows."""

    @cached_property
    def by_id(self) -> Mapping[str, Group]:
        """Each group by its id, in the same order; made at the first question."""
        return {group.id: group for group in self.all}

    def get(self, group_id: str) -> Group | None:
        """Return the group with this id."""
        return self.by_id.get(group_id)

    def sized(self, targets: Mapping[str, int]) -> "Groups":
        """Return the groups with these target sizes; one that is not named keeps its own."""
        resized = (
            msgspec.structs.replace(group, target_size=targets.get(group.id, group.target_size)) for group in self.all
        )
        return msgspec.structs.replace(self, all=tuple(resized))
