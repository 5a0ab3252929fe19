"""Formats numbers and durations for people, as plain text."""

from collections.abc import Collection
from datetime import UTC, datetime
from itertools import islice

_GIB = 1024**3


def duration(seconds: float) -> str:
    """Return a duration in at most two units: `850 ms`, `12 s`, `4 min`, `3 h 5 min`, `2 d 4 h`."""
    if seconds < 0.0005:
        return "0 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def time_of_day(wall: float) -> str:
    """Return hours and minutes in UTC."""
    return f"{datetime.fromtimestamp(wall, UTC):%H:%M}"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return `1 node`, `1,000 nodes`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def first_names(names: Collection[str], count: int | None = None, most: int = 3) -> str:
    """Write the first names, at most `most`, and how many more there are; `count` where `names` are not all."""
    shown = list(islice(names, most))
    more = (len(names) if count is None else count) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def with_detail(message: str, detail: str) -> str:
    """Write a message and, where it says more, its detail."""
    return f"{message} ({detail})" if detail and detail != message else message


def cpus(milli: int) -> str:
    """Return CPUs without trailing zeros."""
    return f"{milli / 1000:,.1f}".removesuffix(".0")


def gib(size_bytes: int) -> str:
    """Return GiB without trailing zeros."""
    return f"{size_bytes / _GIB:,.1f}".removesuffix(".0")


def percent(share: float) -> str:
    """Return a share of 0..1 in percent."""
    return f"{share * 100:.0f}%"
