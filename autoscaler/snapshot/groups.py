"""Node groups as one pass read them from the provider."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from cloudprovider.interface import GroupSettings, Instance, MachineVersion, NodeTemplate


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A node group, frozen at the start of the pass."""

    id: str
    min_size: int
    max_size: int
    target_size: int
    """Number of requested machines, including those that have not registered, excluding those being deleted."""
    instances: Sequence[Instance] = ()
    template: NodeTemplate | None = None
    """The provider's description of a new node; None if it has none."""
    settings: GroupSettings = GroupSettings()
    node_price: float | None = None
    """Price per hour; None if the provider has no prices."""
    versions: Sequence[MachineVersion] = ()
    """What a new machine may be made from; empty: not known, or nothing that the autoscaler has to care about."""

    @property
    def room(self) -> int:
        """The number of machines that may still be added."""
        return max(0, self.max_size - self.target_size)


class Groups(msgspec.Struct, frozen=True, dict=True):
    """All node groups in the provider's order, and the group of each node."""

    all: tuple[Group, ...] = ()
    of_node: Mapping[str, str] = {}
    """Group id by node name; nodes that are not autoscaled are absent."""
    gone: frozenset[str] = frozenset()
    """Names of nodes whose machine no longer exists, if the provider can tell."""
    can_tell_gone: bool = False
    """Whether the provider can tell that a machine is gone."""
    gpu_label: str = ""
    """The label whose value is the GPU type; empty if the provider has none."""
    gpu_types: frozenset[str] = frozenset()
    """Values of that label that the provider knows."""

    @cached_property
    def by_id(self) -> Mapping[str, Group]:
        """Each group by its id, in the same order; computed on first use."""
        return {group.id: group for group in self.all}

    def get(self, group_id: str) -> Group | None:
        """Return the group with this id."""
        return self.by_id.get(group_id)

    def sized(self, targets: Mapping[str, int]) -> "Groups":
        """Return the groups with these target sizes; groups not in `targets` keep theirs."""
        resized = (
            msgspec.structs.replace(group, target_size=targets.get(group.id, group.target_size)) for group in self.all
        )
        return msgspec.structs.replace(self, all=tuple(resized))
