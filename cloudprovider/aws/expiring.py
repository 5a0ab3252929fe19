"""Caches of answers, pauses of services, and notices that are logged once."""

import logging
import zlib
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cloudprovider.interface import ProviderError, Throttled, Transient

T = TypeVar("T")
_REST_S = 60.0
_SPREAD = 0.4
"""Share of its lifetime by which an answer may expire earlier, so that not all answers expire at once."""


class Expiring(Generic[T]):
    """Values by key. Each lasts `lasts_s` seconds; None means without limit."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[T, float, float | None]] = {}

    def get(self, key: Hashable, now: float) -> T | None:
        """Return a value that has not expired. A clock that was set back counts as expired."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        value, kept_at, lasts_s = kept
        return value if lasts_s is None or 0 <= now - kept_at < lasts_s else None

    def put(self, key: Hashable, value: T, now: float, lasts_s: float | None) -> None:
        """Remember a value."""
        if lasts_s is not None:
            lasts_s *= 1 - _SPREAD * (zlib.crc32(repr(key).encode()) % 1000) / 1000
        self._kept[key] = value, now, lasts_s


class ServicePause:
    """Pauses calls to a service for a minute after it was unreachable or overloaded."""

    def __init__(self) -> None:
        self._until = 0.0
        self._why = ProviderError("")

    def attempt(self, ask: Callable[[], T], now: float) -> T | ProviderError:
        """Return what `ask` returns, or the error that it raises. During a pause, return the error that caused it."""
        if now < self._until <= now + _REST_S:
            return self._why
        try:
            return ask()
        except ProviderError as error:
            if isinstance(error, Transient | Throttled):
                self._until, self._why = now + _REST_S, error
            return error


class Notices:
    """Logs a lasting state once when it begins, and again when it changes."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._given: dict[tuple[str, str], str] = {}

    def give(self, event: str, about: str, text: str) -> None:
        """Warn, unless the last warning about it said the same."""
        if self._given.get((event, about)) != text:
            self._given[event, about] = text
            self._logger.warning(event, extra={"fields": {"group": about, "why": text}})

    def over(self, event: str, about: str) -> None:
        """Note that the state has ended."""
        self._given.pop((event, about), None)
