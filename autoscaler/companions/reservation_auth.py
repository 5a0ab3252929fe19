"""Who sent a request: HMAC-SHA256 over the exact bytes, compared in constant time with every secret there is."""

import hashlib
import hmac
import re
from collections.abc import Iterable

SHORTEST_SECRET = 16
STALE_S = 300.0
"""How far the time stamp of a request may be off, in seconds."""

_SIGNATURE = re.compile(r"sha256=([0-9a-fA-F]{64})")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def sign(secret: bytes, message: bytes) -> str:
    """Return the signature header's value."""
    return "sha256=" + hmac.new(secret, message, hashlib.sha256).hexdigest()


def verified(signature: str | None, message: bytes, secrets: Iterable[bytes]) -> bool:
    """Whether some secret makes this signature; every secret is tried, whichever fits."""
    match = _SIGNATURE.fullmatch(signature or "")
    given = match[1].lower() if match else "0" * 64
    fits = False
    for secret in secrets:
        fits |= hmac.compare_digest(sign(secret, message), "sha256=" + given)
    return fits and match is not None


def timely(timestamp: str | None, wall: float) -> bool:
    """Whether a time stamp (Unix seconds, as text) is near enough."""
    return _TIMESTAMP.fullmatch(timestamp or "") is not None and abs(wall - int(timestamp or "")) <= STALE_S
