"""Counts nodes and machines by readiness, for each group and for the cluster.

The behaviour is that of Cluster Autoscaler's cluster state registry. Each registered node is in exactly one bucket, the
first that applies of deleted, suspended, ready, not started and unready. Machines without a node are unregistered, or
long unregistered once the group's provision time is over.
"""

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry.readiness import RESOURCE_NOT_READY, Reading, Readings
from autoscaler.snapshot.groups import Group, Groups

_FIXED_STARTUP_TIME_S = 900.0


class Buckets(msgspec.Struct, frozen=True, kw_only=True):
    """Names of nodes, and instance ids in the last two fields, in the order they were read."""

    registered: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    not_started: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    resource_unready: tuple[str, ...] = ()
    """Those unready nodes that lack a promised resource."""
    suspended: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    """Nodes whose machine is gone; if the provider cannot tell, nodes with the taint for deletion."""
    unregistered: tuple[str, ...] = ()
    long_unregistered: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there are no nodes and no machines that should become nodes."""
        return not (self.registered or self.unregistered or self.long_unregistered)

    @property
    def arrived(self) -> int:
        """Number of machines that have either become nodes or failed to."""
        return len(self.ready) + len(self.unready) + len(self.suspended) + len(self.long_unregistered)

    @property
    def existing(self) -> int:
        """Number of machines that are known to exist and to stay."""
        return len(self.registered) - len(self.deleted) + len(self.unregistered) + len(self.long_unregistered)


_Names = dict[str, list[str]]
"""Node names by field of `Buckets`."""


def startup_time_s(group: Group | None, health: HealthOptions, rules: Rules) -> float:
    """Seconds that a registered node of a group (None: of no group) may take to become ready."""
    if not rules.node_startup_time_from_options:
        return _FIXED_STARTUP_TIME_S
    own = None if group is None else group.settings.max_node_startup_time_s
    return health.max_node_startup_time_s if own is None else own


def provision_time_s(group: Group, health: HealthOptions) -> float:
    """Seconds that a requested machine of a group may take to register."""
    own = group.settings.max_node_provision_time_s
    return health.max_node_provision_time_s if own is None else own


def classify_nodes(
    readings: Readings, groups: Groups, now: Instant, health: HealthOptions, rules: Rules
) -> tuple[Buckets, Mapping[str, Buckets]]:
    """Return the buckets of all nodes, and those of each group that has nodes."""
    startup_s: dict[str | None, float] = {group.id: startup_time_s(group, health, rules) for group in groups.all}
    any_startup_s = startup_time_s(None, health, rules)
    total, by_group = _names(), defaultdict[str | None, _Names](_names)
    for reading in readings.items:
        name = reading.node.name
        group_id = groups.of_node.get(name)
        bucket = _bucket_of(reading, groups, rules, now, startup_s.get(group_id, any_startup_s))
        for names in (total, by_group[group_id]):
            names["registered"].append(name)
            names[bucket].append(name)
            if bucket == "resource_unready":
                names["unready"].append(name)
    own = {group_id: _buckets(names) for group_id, names in by_group.items() if group_id is not None}
    return _buckets(total), own


def _bucket_of(reading: Reading, groups: Groups, rules: Rules, now: Instant, startup_s: float) -> str:
    """Return the bucket of a node that may take `startup_s` seconds to become ready."""
    if (reading.node.name in groups.gone) if groups.can_tell_gone else reading.to_be_deleted:
        return "deleted"
    if reading.suspended and rules.suspended_nodes:
        return "suspended"
    if reading.readiness.ready:
        return "ready"
    if reading.node.created + startup_s > now.wall:
        return "not_started"
    return "resource_unready" if reading.readiness.reason == RESOURCE_NOT_READY else "unready"


def _names() -> _Names:
    return defaultdict(list)


def _buckets(names: _Names) -> Buckets:
    return Buckets(**{bucket: tuple(members) for bucket, members in names.items()})
