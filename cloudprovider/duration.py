"""Durations as Go writes them, the form that Cluster Autoscaler's flags and files use."""

import re

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 64


def parse_duration_s(text: str) -> float:
    """Return the seconds of a Go duration such as `1h30m`, `10s` or `0`; `ValueError` for anything else."""
    body = text.removeprefix("-").removeprefix("+") if text[:2] not in {"-+", "+-"} else ""
    if body == "0":
        return 0.0
    parts = _PART.findall(body) if len(body) <= _LONGEST else []
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise ValueError(f"{text[:_LONGEST]!r} is not a duration such as 10s, 5m or 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return -seconds if text.startswith("-") else seconds
