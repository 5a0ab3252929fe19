"""Limits the rate of requests to the API server."""

import threading


class TokenBucket:
    """Allows `qps` calls per second, and `burst` calls at once. Threads may share it.

    Callers reserve a place in the queue, so they are served in the order of their calls. A `qps` of zero or less lifts
    the limit, as in client-go.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = max(1, burst)
        self._tokens = float(self._burst)
        self._refilled_at: float | None = None
        self._lock = threading.Lock()

    def reserve(self, now: float) -> float:
        """Take one token at monotonic second `now`; return the seconds to wait before using it."""
        if self._qps <= 0:
            return 0.0
        with self._lock:
            if self._refilled_at is not None:
                elapsed = max(0.0, now - self._refilled_at)
                self._tokens = min(float(self._burst), self._tokens + elapsed * self._qps)
            self._refilled_at = now if self._refilled_at is None else max(now, self._refilled_at)
            self._tokens -= 1.0
            return max(0.0, -self._tokens / self._qps)
