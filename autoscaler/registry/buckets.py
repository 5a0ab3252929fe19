"""Nodes and machines by how far they have come, for each group and for the cluster.

Behaviour as Cluster Autoscaler's cluster state registry: every registered node is in exactly one of deleted,
suspended, ready, not started and unready, whichever comes first; machines without a node are unregistered, and long
unregistered once the group's provision time is over.
"""

from collections.abc import Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry.readiness import RESOURCE_NOT_READY, Readings
from autoscaler.snapshot.groups import Group, Groups

_FIXED_STARTUP_TIME_S = 900.0


class Buckets(msgspec.Struct, frozen=True, kw_only=True):
    """Names of nodes, and for the last two ids of instances, in the order they were read."""

    registered: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    not_started: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    resource_unready: tuple[str, ...] = ()
    """The unready ones that lack a promised resource."""
    suspended: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    """Nodes whose machine is gone, or on its way out where the provider cannot tell."""
    unregistered: tuple[str, ...] = ()
    long_unregistered: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is no node and no machine that should become one."""
        return not (self.registered or self.unregistered or self.long_unregistered)

    @property
    def arrived(self) -> int:
        """How many machines need no more waiting for, for better or worse."""
        return len(self.ready) + len(self.unready) + len(self.suspended) + len(self.long_unregistered)

    @property
    def existing(self) -> int:
        """How many machines are known to exist and to stay."""
        return len(self.registered) - len(self.deleted) + len(self.unregistered) + len(self.long_unregistered)


class _Slots:
    """Buckets being filled."""

    def __init__(self) -> None:
        self.registered: list[str] = []
        self.ready: list[str] = []
        self.not_started: list[str] = []
        self.unready: list[str] = []
        self.resource_unready: list[str] = []
        self.suspended: list[str] = []
        self.deleted: list[str] = []

    def sealed(self) -> Buckets:
        return Buckets(
            registered=tuple(self.registered),
            ready=tuple(self.ready),
            not_started=tuple(self.not_started),
            unready=tuple(self.unready),
            resource_unready=tuple(self.resource_unready),
            suspended=tuple(self.suspended),
            deleted=tuple(self.deleted),
        )


def startup_time_s(group: Group | None, health: HealthOptions, rules: Rules) -> float:
    """How long a registered node of a group (None: of no group) may take to become ready."""
    if not rules.node_startup_time_from_options:
        return _FIXED_STARTUP_TIME_S
    own = None if group is None else group.settings.max_node_startup_time_s
    return health.max_node_startup_time_s if own is None else own


def provision_time_s(group: Group, health: HealthOptions) -> float:
    """How long a requested machine of a group may take to register."""
    own = group.settings.max_node_provision_time_s
    return health.max_node_provision_time_s if own is None else own


def sort_nodes(
    readings: Readings, groups: Groups, now: Instant, health: HealthOptions, rules: Rules
) -> tuple[Buckets, Mapping[str, Buckets]]:
    """Return the buckets of all nodes, and those of each group that has any."""
    startup_s: dict[str | None, float] = {group.id: startup_time_s(group, health, rules) for group in groups.all}
    any_startup_s = startup_time_s(None, health, rules)
    total, nobody = _Slots(), _Slots()
    by_group: dict[str, _Slots] = {}
    for reading in readings.items:
        name = reading.node.name
        owner = groups.of_node.get(name)
        own = nobody if owner is None else by_group.get(owner)
        if own is None:
            own = by_group[owner] = _Slots()  # type: ignore[index]  # only an owner can be missing
        own.registered.append(name)
        total.registered.append(name)
        if (name in groups.gone) if groups.can_tell_gone else reading.to_be_deleted:
            own.deleted.append(name)
            total.deleted.append(name)
        elif reading.suspended and rules.suspended_nodes:
            own.suspended.append(name)
            total.suspended.append(name)
        elif reading.readiness.ready:
            own.ready.append(name)
            total.ready.append(name)
        elif reading.node.created + startup_s.get(owner, any_startup_s) > now.wall:
            own.not_started.append(name)
            total.not_started.append(name)
        else:
            own.unready.append(name)
            total.unready.append(name)
            if reading.readiness.reason == RESOURCE_NOT_READY:
                own.resource_unready.append(name)
                total.resource_unready.append(name)
    return total.sealed(), {group: slots.sealed() for group, slots in by_group.items()}
