"""Measures the time until a watch reports a taint, to estimate when schedulers know about it."""

import threading
from collections import deque

from autoscaler.clock import Instant

_REMEMBERED_S = 3600.0
_MARGIN = 2.0


class TaintLatency:
    """Round-trip times of the last hour. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: deque[tuple[float, float]] = deque()

    def took(self, seconds: float, now: Instant) -> None:
        """Record one round trip."""
        with self._lock:
            self._seen.append((now.mono, seconds))

    def wait_s(self, now: Instant) -> float | None:
        """Return twice the longest round trip of the last hour, in seconds; None without measurements."""
        with self._lock:
            while self._seen and self._seen[0][0] < now.mono - _REMEMBERED_S:
                self._seen.popleft()
            return _MARGIN * max((took for _, took in self._seen), default=0.0) if self._seen else None
