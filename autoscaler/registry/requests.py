"""Open requests for size changes, and the sizes that are acceptable meanwhile."""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.registry.buckets import Buckets

DELETION_TIME_S = 300.0
"""How long a machine that is being deleted is expected to take."""


class ScaleUpRequest(msgspec.Struct, frozen=True):
    """Nodes that a group was asked for."""

    increase: int
    asked: Instant
    """The last time more were asked for."""
    provision_time_s: float
    failing: bool = False
    """Whether the cloud failed to create some of them: then the others are not relied on either."""

    def overdue(self, now: Instant) -> bool:
        """Whether the nodes should have registered before now."""
        return self.asked.mono + self.provision_time_s < now.mono


class ScaleDownRequest(msgspec.Struct, frozen=True):
    """A node that a group was asked to delete."""

    group: str
    node: str
    asked: Instant

    def pending(self, now: Instant) -> bool:
        """Whether the node may still be there."""
        return self.asked.mono + DELETION_TIME_S > now.mono


class AcceptableRange(msgspec.Struct, frozen=True):
    """How many nodes a group should have, given what is on the way."""

    min_nodes: int
    max_nodes: int
    target: int


class TimedOut(msgspec.Struct, frozen=True):
    """A scale-up whose nodes did not come in time."""

    group: str
    request: ScaleUpRequest
    revert: int
    """By how much to lower the target now; 0 where nothing is missing or targets stay as they are."""


def with_increase(
    requests: Mapping[str, ScaleUpRequest], group_id: str, delta: int, now: Instant, provision_time_s: float
) -> Mapping[str, ScaleUpRequest]:
    """Return the requests after a group was asked for `delta` more, or less where negative.

    More renews the time; less does not, and ends the request where nothing of it is left.
    """
    before = requests.get(group_id)
    increase = delta if before is None else before.increase + delta
    if increase <= 0:
        return {group: request for group, request in requests.items() if group != group_id}
    if before is None or delta > 0:
        return {**requests, group_id: ScaleUpRequest(increase, now, provision_time_s)}
    return {**requests, group_id: msgspec.structs.replace(before, increase=increase)}


def doubted(requests: Mapping[str, ScaleUpRequest], group_id: str) -> Mapping[str, ScaleUpRequest]:
    """Return the requests after machines of a group could not be created; asking for more starts afresh."""
    request = requests.get(group_id)
    return requests if request is None else {**requests, group_id: msgspec.structs.replace(request, failing=True)}


def missing(target: int, buckets: Buckets) -> int:
    """How many nodes of a target have yet to start; negative where there are too many."""
    return target - buckets.arrived


def growing(target: int, buckets: Buckets, rules: Rules) -> bool:
    """Whether nodes of a group are still on the way."""
    if rules.scaling_up_by_upcoming:
        return missing(target, buckets) > 0
    return target > len(buckets.registered) - len(buckets.not_started)


def revert_of(request: ScaleUpRequest, target: int, buckets: Buckets, failed: int, rules: Rules) -> int:
    """By how much to lower the target of a timed-out scale-up: only by the machines that do not exist.

    `failed` machines are deleted in the same pass, which lowers the target by itself.
    """
    if not rules.revert_timed_out_scale_up:
        return 0
    return max(0, min(request.increase, target - buckets.existing - failed))


def acceptable_range(
    target: int, buckets: Buckets, request: ScaleUpRequest | None, scale_downs: int
) -> AcceptableRange:
    """Return the sizes that a group may have while its requests are pending."""
    least = target - len(buckets.long_unregistered) - (0 if request is None else request.increase)
    return AcceptableRange(least, target + scale_downs, target)


def pending_by_group(requests: Sequence[ScaleDownRequest]) -> Mapping[str, int]:
    """Count the requests of each group."""
    counts: dict[str, int] = {}
    for request in requests:
        counts[request.group] = counts.get(request.group, 0) + 1
    return counts
