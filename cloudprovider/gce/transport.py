"""Sends requests to the Compute Engine API. The HTTP client is behind a Protocol."""

from collections.abc import Mapping
from typing import Protocol

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """An HTTP answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}
    """Names in lower case."""


class Transport(Protocol):
    """Sends requests, with credentials where they belong."""

    def send(self, method: str, url: str, body: bytes | None, timeout_s: float) -> Answer:
        """Return the answer, whatever its status.

        Raises `Transient` where none came in time, and `ProviderError` where there are no credentials. Safe from any
        thread.
        """
        ...

    def close(self) -> None:
        """Let connections go."""
        ...


class Waiting(Protocol):
    """Time, for retries and for operations that take a moment."""

    def now(self) -> float:
        """Return seconds that only ever grow."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        ...
