"""The state that scale-down keeps between passes: unneeded times, unremovable nodes, and hints.

A `ScaleDownMemory` is plain data: it can be written as JSON and read back.
"""

from collections.abc import Iterable, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.node import DELETION_CANDIDATE, Node
from autoscaler.reasons import BlockingReason, UnremovableNode, UnremovableReason
from autoscaler.scaledown.taints import taint_time
from autoscaler.snapshot.hints import Hints

RATE_SPAN_S = 60.0
"""How long a removal counts for limits on the rate of removals."""


class RecentlyUnremovable(msgspec.Struct, frozen=True, gc=False):
    """A node that a simulation could not remove, and why; it is not tried again before `until`."""

    until: Instant
    reason: UnremovableReason
    detail: str = ""
    pod: str | None = None
    pod_reason: BlockingReason | None = None


class StartedRemoval(msgspec.Struct, frozen=True, gc=False):
    """A removal that began; its result does not matter."""

    group: str
    at: Instant


class ScaleDownMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that outlives a pass, as far as scale-down is concerned."""

    unneeded: Mapping[str, Instant] = {}
    """Since when each node is unneeded, without a break; in the order in which removals were simulated."""
    unremovable: Mapping[str, RecentlyUnremovable] = {}
    hints: Hints = Hints()
    """Where pods of removed nodes found room."""
    begun: tuple[StartedRemoval, ...] = ()
    """Removals of the last minute, oldest first: what limits on their rate count."""
    since: Instant | None = None
    """When the process that remembers began; None: nothing happened before."""
    last_update: Instant | None = None
    """When nodes were last examined."""
    shortest_interval_s: float | None = None
    """Shortest time between two looks so far; None before the second."""


def forgotten(memory: ScaleDownMemory) -> ScaleDownMemory:
    """Forget since when nodes are unneeded: what an unhealthy or empty cluster asks for."""
    return msgspec.structs.replace(memory, unneeded={})


def seeded(nodes: Iterable[Node], ttl_s: float, now: Instant) -> ScaleDownMemory:
    """Return the memory of a process that starts now: unneeded times are read from the soft taints on nodes.

    Taints older than `ttl_s` count for nothing; a `ttl_s` of 0 leaves them all out. A time in the future counts as now.
    """
    unneeded: dict[str, Instant] = {}
    for node in nodes if ttl_s > 0 else ():
        since = taint_time(node, DELETION_CANDIDATE)
        if since is not None and now.wall - since <= ttl_s:
            unneeded[node.name] = now.later(min(0.0, since - now.wall))
    return ScaleDownMemory(unneeded=unneeded, since=now)


def removals_begun(memory: ScaleDownMemory, groups: Iterable[str], now: Instant) -> ScaleDownMemory:
    """Remember that removals begin now, each given by its group."""
    recent = (removal for removal in memory.begun if removal.at.mono + RATE_SPAN_S > now.mono)
    return msgspec.structs.replace(memory, begun=(*recent, *(StartedRemoval(group, now) for group in groups)))


def remembered(kept: UnremovableNode, until: Instant) -> RecentlyUnremovable:
    """Return what to remember of a node that could not be removed."""
    return RecentlyUnremovable(until, kept.reason, kept.detail, kept.pod, kept.pod_reason)


def left_alone(memory: ScaleDownMemory, nodes: Iterable[str], why: RecentlyUnremovable) -> ScaleDownMemory:
    """Remember that nodes are not tried again for a while."""
    return msgspec.structs.replace(memory, unremovable={**memory.unremovable, **dict.fromkeys(nodes, why)})
