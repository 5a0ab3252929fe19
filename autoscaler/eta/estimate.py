"""Estimates when a pod will be ready, from its planned place and from measured durations.

This module has only the formula. `eta.placements` finds the place of a pod; nothing here simulates a scheduler.
"""

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from autoscaler.eta.samples import NOTHING, Duration, DurationSpread, Knowledge, Remaining, remaining
from autoscaler.reasons import UnknownStart

_LEAST_DEADLINE_S = 90.0
_PATIENCE = 1.5


class WaitLevel(IntEnum):
    """What a pod waits for. Lower levels are sooner and more certain."""

    BOUND = 0
    ROOM = 1
    PREEMPTION = 2
    UPCOMING = 3
    PLANNED = 4
    QUEUE = 5
    UNKNOWN = 6


class PodPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """The planned place of a pod, as of the last pass."""

    level: WaitLevel
    node: str | None = None
    """An existing node, or an upcoming one by its name in the simulation."""
    group: str | None = None
    cold: bool = True
    """Whether the node still has to pull the pod's image."""
    age_s: float = 0.0
    """For `UPCOMING`: seconds since the node was requested."""
    wait_s: float = 0.0
    """For `PLANNED`: seconds until the pass that requests the node."""
    grace_s: float = 0.0
    """For `PREEMPTION`: the longest grace period of a victim."""
    queue: DurationSpread | None = None
    """For `QUEUE`: the time until room is free again."""
    reason: UnknownStart | None = None
    """For `UNKNOWN`: the reason."""


class LoopIntervals(msgspec.Struct, frozen=True):
    """Intervals of the loop, in seconds."""

    scan_s: float = 15.0
    max_provision_s: float = 900.0


class StartEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from now until a pod is ready; if they are unknown, both are None and there is a reason."""

    level: WaitLevel
    expected_s: float | None = None
    worst_s: float | None = None
    reason: UnknownStart | None = None
    node: str | None = None
    group: str | None = None
    overdue: bool = False
    """Whether the node has taken longer than any node before."""
    assumed: bool = False
    """Whether the estimate is a default, because the pod waits for a boot and no boot has been seen yet."""
    terms: Mapping[str, DurationSpread] = {}
    """The parts of the sum."""


def unknown(reason: UnknownStart) -> StartEstimate:
    """Return an estimate without seconds."""
    return StartEstimate(level=WaitLevel.UNKNOWN, reason=reason)


def estimate(place: PodPlacement, workload: str, knowledge: Knowledge, times: LoopIntervals) -> StartEstimate:
    """Return the estimate for a pod of the workload."""
    if place.level is WaitLevel.UNKNOWN:
        return unknown(place.reason or UnknownStart.NO_GROUP_FITS)
    group = place.group
    terms: dict[str, DurationSpread] = {}
    overdue = assumed = False
    match place.level:
        case WaitLevel.PREEMPTION:
            terms["grace"] = DurationSpread(place.grace_s, place.grace_s)
        case WaitLevel.UPCOMING:
            boot = knowledge.boot(group or "")
            left = remaining_boot(boot, place.age_s, times)
            if left is None:
                return unknown(UnknownStart.BACKOFF)
            terms["boot"], overdue, assumed = left.spread, left.overdue, boot.assumed
        case WaitLevel.PLANNED:
            terms["wait"] = DurationSpread(place.wait_s, place.wait_s)
            boot = knowledge.boot(group or "")
            terms["boot"], assumed = boot.spread, boot.assumed
        case WaitLevel.QUEUE:
            terms["queue"] = place.queue or NOTHING
    if place.level not in (WaitLevel.BOUND, WaitLevel.QUEUE):
        terms["bind"] = knowledge.binding().spread
    if place.level is not WaitLevel.QUEUE:
        cold = place.cold or place.level in (WaitLevel.UPCOMING, WaitLevel.PLANNED)
        terms["start"] = knowledge.start(workload, group, cold=cold).spread
    total = NOTHING
    for spread in terms.values():
        total = total.plus(spread)
    return StartEstimate(
        level=place.level,
        expected_s=total.expected,
        worst_s=total.expected + (total.worst - total.expected) * knowledge.excess,
        node=place.node,
        group=group,
        overdue=overdue,
        assumed=assumed,
        terms=terms,
    )


def remaining_boot(boot: Duration, age_s: float, times: LoopIntervals) -> Remaining | None:
    """Return how much longer a node takes that was requested `age_s` ago; None if it is no longer expected."""
    if age_s >= times.max_provision_s:
        return None
    return remaining(boot, age_s, times.scan_s)


def start_deadline(requested_at: float, worst_ready_at: float) -> float:
    """Return when a pod with this worst case counts as overdue. This is information only: nothing is deleted."""
    return requested_at + max(_LEAST_DEADLINE_S, _PATIENCE * (worst_ready_at - requested_at))
