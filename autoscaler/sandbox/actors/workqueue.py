"""A work queue of keys that are due now or at a later moment."""

import heapq
import math
from collections.abc import Callable
from typing import Generic, TypeVar

from autoscaler.clock import Instant
from autoscaler.sandbox.apiserver.errors import ApiError

K = TypeVar("K", bound=tuple[str, ...])

_RETRY_S = 2.0
_STALE_CODES = (404, 409)


class WorkQueue(Generic[K]):
    """Holds each key at most once, first come, first served. An empty queue costs a comparison per step.

    A key with failed work is tried again after two seconds. `on_error` receives failures that a retry is unlikely to
    solve. A conflict with another client's change or deletion is not such a failure.
    """

    def __init__(self, on_error: Callable[[K, ApiError], None] | None = None) -> None:
        self._ready: dict[K, None] = {}
        self._delayed: list[tuple[float, int, K]] = []
        self._serial = 0
        self._on_error = on_error

    def add(self, key: K) -> None:
        """Work on the key in the next step."""
        self._ready[key] = None

    def add_at(self, key: K, mono: float) -> None:
        """Work on the key once the monotonic clock has reached `mono`."""
        self._serial += 1
        heapq.heappush(self._delayed, (mono, self._serial, key))

    @property
    def due(self) -> float:
        """Monotonic second of the next work; infinite if no work is known."""
        if self._ready:
            return -math.inf
        return self._delayed[0][0] if self._delayed else math.inf

    def process(self, now: Instant, sync: Callable[[K, Instant], None]) -> None:
        """Call `sync` for every key that is due, including keys that it adds."""
        while self._delayed and self._delayed[0][0] <= now.mono:
            self._ready[heapq.heappop(self._delayed)[2]] = None
        while self._ready:
            key = next(iter(self._ready))
            del self._ready[key]
            try:
                sync(key, now)
            except ApiError as error:
                self.add_at(key, now.mono + _RETRY_S)
                if self._on_error is not None and error.code not in _STALE_CODES:
                    self._on_error(key, error)


class QueueActor(Generic[K]):
    """An actor with a queue of keys, which its constructor creates; `_sync` does the work for one key."""

    _queue: WorkQueue[K]

    def due(self) -> float:
        """Return the monotonic second of the next step that has work."""
        return self._queue.due

    def step(self, now: Instant) -> None:
        """Do the work for the keys that are due."""
        self._queue.process(now, self._sync)

    def _sync(self, key: K, now: Instant) -> None:
        raise NotImplementedError
