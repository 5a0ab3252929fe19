"""Figures of the watches of the API server, for metrics and health."""

import msgspec


class WatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one watch since the process started."""

    restarts: int = 0
    relists: int = 0
    failures: int = 0
    decode_s: float = 0.0
    undecoded: int = 0
    """Number of objects that cannot be decoded at present."""
    silent_s: float | None = None
    """Seconds since the last response; None if there was none."""
    failing_s: float = 0.0
    """Seconds for which its watch or list has been failing."""
    error: str = ""
    """Current error; empty if there is none."""
