"""The option for lead times: learned, or a given duration."""

from typing import Annotated

from cloudprovider.duration import parse_duration_s, show_duration
from cloudprovider.structure import Syntax

AUTO = "auto"
_LONGEST_S = 3600.0


def _parse(text: str) -> float | None:
    if text == AUTO:
        return None
    try:
        seconds = parse_duration_s(text)
    except ValueError:
        raise ValueError("is neither auto nor a duration such as 5m; write 0s to wait for the window") from None
    if not 0 <= seconds <= _LONGEST_S:
        raise ValueError("is not within 0s..1h; let the window itself begin earlier")
    return seconds


def _show(seconds: float | None) -> str:
    return AUTO if seconds is None else show_duration(seconds)


LeadTime = Annotated[float | None, Syntax("duration", _parse, _show)]
"""Seconds; None: what is learned decides."""
