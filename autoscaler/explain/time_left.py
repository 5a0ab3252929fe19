"""Calculates how long a node has been unneeded, and when the autoscaler may remove it."""

from autoscaler.clock import Instant
from autoscaler.config.scaledown import ScaleDown
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.reasons import ScaleDownResult, UnremovableNode, UnremovableReason
from autoscaler.registry.memory import LastActions
from autoscaler.scaledown.cooldown import group_in_cooldown, in_cooldown
from autoscaler.scaledown.deletions import wait_s
from autoscaler.scaledown.plan import Removal
from autoscaler.snapshot.groups import Group


def unneeded_since(ended: EndedPass, name: str) -> Instant | None:
    """Return the time since which no pod needs the node; None if the node is needed or was not judged."""
    memory = ended.memory.scale_down
    return None if memory is None else memory.unneeded.get(name)


def time_left_s(
    ended: EndedPass,
    removal: Removal | None,
    unremovable: UnremovableNode | None,
    group: Group | None,
    name: str,
) -> float | None:
    """Return the time until the node may be removed or is looked at again: the longest of its waits."""
    now, memory, options = ended.report.now, ended.memory, ended.config.scale_down
    looked_at = {} if memory.scale_down is None else memory.scale_down.unremovable
    ends = []
    if unremovable is not None and unremovable.time_left_s is not None:
        ends.append(now.mono + unremovable.time_left_s)
    if removal is not None and group is not None:
        since = unneeded_since(ended, name) or now
        ends.append(since.mono + wait_s(removal, group, options))
        if ended.report.scale_down.result is ScaleDownResult.IN_COOLDOWN:
            ends.append(_cooled_down(memory.registry.last, options, now))
    elif unremovable is not None and name in looked_at:
        ends.append(looked_at[name].until.mono)
    elif unremovable is not None and unremovable.reason is UnremovableReason.GROUP_COOLING_DOWN and group is not None:
        last = memory.registry.last_by_group.get(group.id)
        ends.append(now.mono if last is None else _cooled_down(last, options, now))
    left_s = max(ends, default=now.mono) - now.mono
    return round(left_s, 3) if left_s > 0 else None


def _cooled_down(last: LastActions, options: ScaleDown, now: Instant) -> float:
    """Return when (monotonic seconds) the last delay after an event ends."""
    times = [time.mono for time in (last.scale_up, last.scale_down, last.scale_down_failure) if time is not None]
    delays = (
        options.scale_down_delay_after_add_s,
        options.scale_down_delay_after_delete_s,
        options.scale_down_delay_after_failure_s,
    )
    for end in sorted(time + delay_s for time in times for delay_s in delays):
        then = Instant(now.wall, end)
        if end >= now.mono and not (in_cooldown(last, options, then) or group_in_cooldown(last, options, then)):
            return end
    return now.mono
