"""Durations as Go's `time.ParseDuration` reads them: the form of Cluster Autoscaler's flags, files and annotations."""

import re

_SPAN = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "μs": 10**3,  # Greek letter mu
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LONGEST_TEXT = 64
_LIMIT = 1 << 63
"""Maximum of nanoseconds, because Go's durations have 64 bits."""
_MOST_DIGITS = 19
"""Of a fraction, and one less where that is beyond 64 bits; Go passes over the others too."""


def parse_duration_s(text: str) -> float:
    """Return the seconds of a Go duration such as `1h30m`, `-.5h` or `0`, to the nanosecond.

    Raises `ValueError` with what is wrong and how to write it; the message follows the text. Unlike Go, no more than 64
    characters are read.
    """
    negative, body = text[:1] == "-", text[1:] if text[:1] in {"-", "+"} else text
    if body == "0":
        return 0.0
    total = _nanoseconds(body) if len(body) <= _LONGEST_TEXT else None
    if total is None:
        raise ValueError("is not a duration; write a number with a unit, such as 90s, 10m or 1h30m")
    if total > _LIMIT - (not negative):
        raise ValueError("is too long: the longest duration is about 292 years")
    return (-total if negative else total) / 10**9


def show_duration(seconds: float) -> str:
    """Write seconds as the shortest Go duration of hours, minutes and seconds."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [f"{hours:.0f}h" if hours else "", f"{minutes:.0f}m" if minutes else ""]
    if rest:
        parts.append(f"{rest:.9f}".rstrip("0").rstrip(".") + "s")
    return sign + ("".join(parts) or "0s")


def _nanoseconds(text: str) -> int | None:
    """Return the sum of all spans; None if there is none or if other text is between them."""
    total, position = 0, 0
    while (span := _SPAN.match(text, position)) is not None and (span[1] or span[2]):
        unit, fraction = _NANOSECONDS[span[3]], (span[2] or "0")[:_MOST_DIGITS]
        if int(fraction) > _LIMIT:
            fraction = fraction[:-1]
        total += int(span[1] or 0) * unit
        # In floating point, because Go does so: 0.3333333333333333333h are 20 minutes to the nanosecond.
        total += int(int(fraction) * (unit / 10 ** len(fraction)))
        position = span.end()
    return total if position == len(text) > 0 else None
