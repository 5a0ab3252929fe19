"""The state that is kept from one pass to the next, and how results of actions change it.

A `Memory` is plain data: it can be written as JSON and read back. The functions take a memory and return the
next one. Timers compare monotonic seconds; wall seconds are for display.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry import backoff
from autoscaler.registry.backoff import Backoffs
from autoscaler.registry.requests import ScaleDownRequest, ScaleUpRequest, with_increase
from autoscaler.registry.sizes import IncorrectSize
from cloudprovider.interface import InstanceError

_QUIET_AT_START_S = 3600.0
_FORGOTTEN_S = 86400.0


class LastActions(msgspec.Struct, frozen=True):
    """Times of the last actions; None if there was none."""

    scale_up: Instant | None = None
    scale_down: Instant | None = None
    scale_down_failure: Instant | None = None


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about node groups that is kept between passes."""

    started: Instant
    """Start time of the process."""
    last: LastActions
    """For the whole cluster. Initially one hour before the start, so that no cool-down delays the first pass."""
    last_by_group: Mapping[str, LastActions] = {}
    targets: Mapping[str, int] = {}
    """Expected target size of each group: as last read, plus later changes by this process."""
    scale_ups: Mapping[str, ScaleUpRequest] = {}
    """Open requests, by group id."""
    scale_downs: tuple[ScaleDownRequest, ...] = ()
    unregistered: Mapping[str, Instant] = {}
    """First time each machine without a node was seen, by instance id."""
    incorrect_sizes: Mapping[str, IncorrectSize] = {}
    failed_creations: Mapping[str, tuple[str, ...]] = {}
    """Ids of instances that had failed in the last pass, by group id."""
    backoffs: Backoffs = {}


def born(now: Instant) -> Memory:
    """Return the memory of a process that starts now."""
    before = now.later(-_QUIET_AT_START_S)
    return Memory(started=now, last=LastActions(before, before, before))


def scaled_up(memory: Memory, group_id: str, delta: int, now: Instant, provision_time_s: float) -> Memory:
    """Record that a group's target was raised by `delta`, or lowered if `delta` is negative."""
    scale_ups = with_increase(memory.scale_ups, group_id, delta, now, provision_time_s)
    targets = {**memory.targets, group_id: memory.targets.get(group_id, 0) + delta}
    memory = msgspec.structs.replace(memory, scale_ups=scale_ups, targets=targets)
    return _group_active(memory, group_id, scale_up=now) if delta > 0 else memory


def scale_up_failed(memory: Memory, group_id: str, error: InstanceError, now: Instant, health: HealthOptions) -> Memory:
    """Record that a group could not be scaled up, and back it off."""
    return msgspec.structs.replace(memory, backoffs=backoff.failed(memory.backoffs, group_id, error, now, health))


def scale_up_succeeded(memory: Memory, now: Instant) -> Memory:
    """Record that a pass added nodes."""
    return msgspec.structs.replace(memory, last=msgspec.structs.replace(memory.last, scale_up=now))


def deletion_started(memory: Memory, group_id: str, node: str, now: Instant) -> Memory:
    """Record that the deletion of a node was requested from the cloud."""
    request = ScaleDownRequest(group_id, node, now)
    memory = msgspec.structs.replace(memory, scale_downs=(*memory.scale_downs, request))
    return _group_active(memory, group_id, scale_down=now)


def deletion_failed(memory: Memory, group_id: str, now: Instant) -> Memory:
    """Record that a node of a group could not be deleted."""
    return _group_active(memory, group_id, scale_down_failure=now)


def without_vanished(memory: Memory, group_ids: Collection[str], now: Instant) -> Memory:
    """Remove the actions of groups that no longer exist and have had no action for a day."""
    kept = {
        group: activity
        for group, activity in memory.last_by_group.items()
        if group in group_ids or any(now.mono - time.mono < _FORGOTTEN_S for time in _times(activity))
    }
    return memory if len(kept) == len(memory.last_by_group) else msgspec.structs.replace(memory, last_by_group=kept)


def _times(activity: LastActions) -> Iterator[Instant]:
    times = (activity.scale_up, activity.scale_down, activity.scale_down_failure)
    return (time for time in times if time is not None)


def scale_down_started(memory: Memory, now: Instant) -> Memory:
    """Record that a pass began to remove nodes."""
    return msgspec.structs.replace(memory, last=msgspec.structs.replace(memory.last, scale_down=now))


def scale_down_failed(memory: Memory, now: Instant) -> Memory:
    """Record that a pass failed to remove nodes."""
    return msgspec.structs.replace(memory, last=msgspec.structs.replace(memory.last, scale_down_failure=now))


def _group_active(
    memory: Memory,
    group_id: str,
    *,
    scale_up: Instant | None = None,
    scale_down: Instant | None = None,
    scale_down_failure: Instant | None = None,
) -> Memory:
    before = memory.last_by_group.get(group_id, LastActions())
    after = LastActions(
        scale_up or before.scale_up,
        scale_down or before.scale_down,
        scale_down_failure or before.scale_down_failure,
    )
    return msgspec.structs.replace(memory, last_by_group={**memory.last_by_group, group_id: after})
