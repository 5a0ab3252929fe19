"""Verifies HMAC-SHA256 signatures over the exact bytes, in constant time, with every configured secret."""

import hashlib
import hmac
import re
from collections.abc import Iterable

SHORTEST_SECRET = 16
STALE_S = 300.0
"""Maximum difference between the time stamp of a request and our clock, in seconds."""

_SIGNATURE = re.compile(r"sha256=([0-9a-fA-F]{64})")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def sign(secret: bytes, message: bytes) -> str:
    """Return the signature header's value."""
    return "sha256=" + hmac.new(secret, message, hashlib.sha256).hexdigest()


class SignatureCheck:
    """Checks while a message arrives whether its signature belongs to one of the secrets; it tries every secret."""

    def __init__(self, signature: str, secrets: Iterable[bytes], begins: bytes = b"") -> None:
        """`begins` is the signed text before the message. Raises `ValueError` for a malformed signature."""
        match = _SIGNATURE.fullmatch(signature)
        if match is None:
            raise ValueError("is not sha256= and 64 hexadecimal digits")
        self._given = match[1].lower()
        self._hashes = [hmac.new(secret, begins, hashlib.sha256) for secret in secrets]

    def update(self, piece: bytes) -> None:
        """Take the next piece of the message."""
        for running in self._hashes:
            running.update(piece)

    @property
    def holds(self) -> bool:
        """Whether the signature matches the received message."""
        fits = False
        for running in self._hashes:
            fits |= hmac.compare_digest(running.hexdigest(), self._given)
        return fits


def timely(timestamp: str | None, wall: float) -> bool:
    """Whether a time stamp (Unix seconds, as text) is close enough to our clock."""
    return _TIMESTAMP.fullmatch(timestamp or "") is not None and abs(wall - int(timestamp or "")) <= STALE_S
