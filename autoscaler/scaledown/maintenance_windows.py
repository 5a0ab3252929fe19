"""Decides whether a maintenance window is open, and when the next one opens.

A window's end is real time after its start. A start in the hour that a change of the clocks skips comes right after
the gap; one in the hour that comes twice counts once, the first time. (Starts with `*` for minute or hour follow real
time.) Only the start of removals asks: what has begun within a window may end after it.
"""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from autoscaler.config.windows import MaintenanceWindow


def windows_of(windows: Sequence[MaintenanceWindow], group: str) -> tuple[MaintenanceWindow, ...]:
    """Return the windows that a group keeps to: its own or, without any, those of all groups."""
    own = tuple(window for window in windows if window.group == group)
    return own or tuple(window for window in windows if window.group is None)


def closed_for_s(windows: Sequence[MaintenanceWindow], wall: float) -> float:
    """Return how many seconds from `wall` (Unix seconds) the first of these windows opens; 0: one is, or there is none.

    Windows that overlap are open as one.
    """
    return max(0.0, min((_latest_start(window, wall) - wall for window in windows), default=0.0))


def _latest_start(window: MaintenanceWindow, wall: float) -> float:
    """Return the first start whose window has not ended by `wall`: it is open, or the next to open."""
    ended = wall - window.duration_s
    starts = CronSim(window.start, datetime.fromtimestamp(ended, ZoneInfo(window.time_zone)))
    # In an hour that comes twice the schedule may begin with starts of the first time round.
    return next(moment for start in starts if (moment := start.timestamp()) > ended)
