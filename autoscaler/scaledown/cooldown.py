"""Decides when scale-down waits after a recent change."""

from autoscaler.clock import Instant
from autoscaler.config.scaledown import ScaleDown
from autoscaler.registry.memory import LastActions


def in_cooldown(last: LastActions, options: ScaleDown, now: Instant) -> bool:
    """Whether nothing may be removed for now; never where the delays hold for single groups."""
    return not options.scale_down_delay_type_local and _waits(last, options, now)


def group_in_cooldown(last: LastActions | None, options: ScaleDown, now: Instant) -> bool:
    """Whether nodes of one group must wait; only where the delays hold for single groups."""
    return options.scale_down_delay_type_local and last is not None and _waits(last, options, now)


def _waits(last: LastActions, options: ScaleDown, now: Instant) -> bool:
    delays = (
        (last.scale_up, options.scale_down_delay_after_add_s),
        (last.scale_down, options.scale_down_delay_after_delete_s),
        (last.scale_down_failure, options.scale_down_delay_after_failure_s),
    )
    return any(then is not None and then.mono + delay_s > now.mono for then, delay_s in delays)
