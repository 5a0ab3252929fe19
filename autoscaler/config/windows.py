"""Maintenance windows: when nodes may be removed, as `[group=]start;duration[;time zone]`.

`start` is a cron expression of five fields in local time of the zone; the duration is real time, so a window that
spans a change of the clocks is neither cut nor stretched.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from cronsim import CronSim

from autoscaler.config.cron import check_cron
from autoscaler.config.syntax import parse_span_s, parse_zone
from cloudprovider.duration import show_duration
from cloudprovider.structure import Syntax

_FORM = "[group=]start;duration[;time zone]"
_EXAMPLE = "0 22 * * 1-5;8h;Europe/Berlin"
_KEYS = ("group", "start", "duration", "timeZone")


class MaintenanceWindow(msgspec.Struct, frozen=True):
    """Nodes may go for `duration_s` seconds from every moment that `start` names."""

    group: str | None
    """None: of every group that has no window of its own."""
    start: str
    duration_s: float
    time_zone: str = "UTC"


def parse_window(text: str) -> tuple[MaintenanceWindow, ...]:
    """Read one window; `ValueError` names the part that is wrong."""
    parts = [part.strip() for part in text.split(";")]
    if not 2 <= len(parts) <= 3:
        raise ValueError(f"is not {_FORM}; write for example {_EXAMPLE}")
    group, _, start = parts[0].rpartition("=")
    zone = parts[2] if len(parts) == 3 else "UTC"
    return (
        MaintenanceWindow(group.strip() or None, _cron(start), parse_span_s(parts[1], "duration", "8h"), _zone(zone)),
    )


def _cron(text: str) -> str:
    start = " ".join(text.split())
    try:
        check_cron(start)
    except ValueError as error:
        raise ValueError(f'has a start "{start}" that is no cron expression: {error}') from None
    if next(CronSim(start, datetime(2000, 1, 1)), None) is None:
        raise ValueError(f'has a start "{start}" that never comes')
    return start


def _zone(text: str) -> str:
    try:
        return parse_zone(text).key
    except ValueError as error:
        raise ValueError(f'has a time zone "{text}" that {error}') from None


def window_from_map(entry: Mapping[str, Any]) -> str:
    """Return the text of a window that a file has as a map."""
    if not {"start", "duration"} <= set(entry) <= set(_KEYS) or not all(
        isinstance(text, str) for text in entry.values()
    ):
        raise ValueError("is not a map of the texts start, duration and, where wanted, timeZone and group")
    head = f"{entry['group']}={entry['start']}" if "group" in entry else entry["start"]
    return ";".join((head, entry["duration"], *([entry["timeZone"]] if "timeZone" in entry else [])))


def show_windows(windows: tuple[MaintenanceWindow, ...]) -> str:
    """Write a window as its text; a flag shows one at a time."""
    return " ".join(map(_show_window, windows))


def _show_window(window: MaintenanceWindow) -> str:
    group = "" if window.group is None else f"{window.group}="
    return f"{group}{window.start};{show_duration(window.duration_s)};{window.time_zone}"


MaintenanceWindows = Annotated[
    tuple[MaintenanceWindow, ...],
    Syntax(f"{_FORM}, repeatable", parse_window, show_windows, repeated=True, from_map=window_from_map),
]
