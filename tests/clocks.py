"""Clocks for tests."""

from autoscaler.clock import Instant, VirtualClock


class TickingClock(VirtualClock):
    """Each look at it takes some time."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def now(self) -> Instant:
        self.advance(self._seconds)
        return super().now()
