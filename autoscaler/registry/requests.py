"""Open requests for size changes, and the group sizes that are acceptable meanwhile."""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.registry.buckets import Buckets

DELETION_TIME_S = 300.0
"""Seconds that the deletion of a machine is expected to take."""


class ScaleUpRequest(msgspec.Struct, frozen=True):
    """Nodes that were requested from a group."""

    increase: int
    asked: Instant
    """The last time nodes were requested."""
    provision_time_s: float
    failing: bool = False
    """Whether the cloud failed to create some of the nodes; if so, the others do not count as upcoming either."""

    def overdue(self, now: Instant) -> bool:
        """Whether the nodes should have registered by now."""
        return self.asked.mono + self.provision_time_s < now.mono


class ScaleDownRequest(msgspec.Struct, frozen=True):
    """A requested deletion of a node of a group."""

    group: str
    node: str
    asked: Instant

    def pending(self, now: Instant) -> bool:
        """Whether the node may still exist."""
        return self.asked.mono + DELETION_TIME_S > now.mono


class AcceptableRange(msgspec.Struct, frozen=True):
    """The expected size of a group, considering its open requests."""

    min_nodes: int
    max_nodes: int
    target: int


class TimedOut(msgspec.Struct, frozen=True):
    """A scale-up whose nodes did not arrive in time."""

    group: str
    request: ScaleUpRequest
    revert: int
    """Number by which to lower the target now; 0 if no node is missing or targets must stay."""


def with_increase(
    requests: Mapping[str, ScaleUpRequest], group_id: str, delta: int, now: Instant, provision_time_s: float
) -> Mapping[str, ScaleUpRequest]:
    """Return the requests after `delta` more nodes were requested from a group (fewer if negative).

    A larger request renews its time. A smaller one does not, and ends the request if no nodes remain.
    """
    before = requests.get(group_id)
    increase = delta if before is None else before.increase + delta
    if increase <= 0:
        return {group: request for group, request in requests.items() if group != group_id}
    if before is None or delta > 0:
        return {**requests, group_id: ScaleUpRequest(increase, now, provision_time_s)}
    return {**requests, group_id: msgspec.structs.replace(before, increase=increase)}


def doubted(requests: Mapping[str, ScaleUpRequest], group_id: str) -> Mapping[str, ScaleUpRequest]:
    """Return the requests after machines of a group could not be created. A new request clears the mark."""
    request = requests.get(group_id)
    return requests if request is None else {**requests, group_id: msgspec.structs.replace(request, failing=True)}


def missing(target: int, buckets: Buckets) -> int:
    """Number of nodes of the target that have not started; negative if there are too many."""
    return target - buckets.arrived


def growing(target: int, buckets: Buckets, rules: Rules) -> bool:
    """Whether nodes of a group are still on their way."""
    if rules.scaling_up_by_upcoming:
        return missing(target, buckets) > 0
    return target > len(buckets.registered) - len(buckets.not_started)


def revert_of(request: ScaleUpRequest, target: int, buckets: Buckets, failed: int, rules: Rules) -> int:
    """Return by how much to lower the target of a timed-out scale-up; only nonexistent machines count.

    `failed` machines are deleted in the same pass, which lowers the target anyway.
    """
    if not rules.revert_timed_out_scale_up:
        return 0
    return max(0, min(request.increase, target - buckets.existing - failed))


def acceptable_range(
    target: int, buckets: Buckets, request: ScaleUpRequest | None, scale_downs: int
) -> AcceptableRange:
    """Return the acceptable sizes of a group while its requests are open."""
    least = target - len(buckets.long_unregistered) - (0 if request is None else request.increase)
    return AcceptableRange(least, target + scale_downs, target)


def pending_by_group(requests: Sequence[ScaleDownRequest]) -> Mapping[str, int]:
    """Return the number of requests by group."""
    counts: dict[str, int] = {}
    for request in requests:
        counts[request.group] = counts.get(request.group, 0) + 1
    return counts
