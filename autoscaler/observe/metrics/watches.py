"""What the watches of the API server have come to, for metrics and health."""

import msgspec


class WatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one watch has come to since the process started."""

    restarts: int = 0
    relists: int = 0
    failures: int = 0
    decode_s: float = 0.0
    undecoded: int = 0
    """Objects that cannot be decoded now."""
    silent_s: float | None = None
    """Since it was last heard of; None: never yet."""
    failing_s: float = 0.0
    """For how long its watch, or list, has failed."""
    error: str = ""
    """Why it fails now."""
