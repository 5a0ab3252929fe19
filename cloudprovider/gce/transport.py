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
        """Return the answer, also an unsuccessful one.

        Raises `Transient` if no answer came in time, and `ProviderError` without credentials. Safe from any thread.
        """
        ...

    def close(self) -> None:
        """Let connections go."""
        ...


class Waiting(Protocol):
    """The time, for retries and for waiting on operations."""

    def now(self) -> float:
        """Return seconds that only ever grow."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        ...
