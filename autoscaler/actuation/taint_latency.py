"""Measures how long a taint takes until a watch reports it, and so until schedulers know of it."""

import threading
from collections import deque

from autoscaler.clock import Instant

_REMEMBERED_S = 3600.0
_MARGIN = 2.0


class TaintLatency:
    """Round-trip times of the last hour. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: deque[tuple[float, float]] = deque()

    def took(self, seconds: float, now: Instant) -> None:
        """Note one round trip."""
        with self._lock:
            self._seen.append((now.mono, seconds))

    def wait_s(self, now: Instant) -> float | None:
        """Return twice the longest round trip of the last hour; None where none was measured."""
        with self._lock:
            while self._seen and self._seen[0][0] < now.mono - _REMEMBERED_S:
                self._seen.popleft()
            return _MARGIN * max((took for _, took in self._seen), default=0.0) if self._seen else None
