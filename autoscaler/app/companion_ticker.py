"""Runs each companion at its own interval while this replica leads, independently of the passes."""

from functools import partial

from autoscaler.clock import Clock
from autoscaler.loop.companion import Companion, Companions
from autoscaler.ports import Executor, Leadership


class CompanionTicker:
    """Calls companions at their intervals, each on a thread of the executor, from `start` until the executor stops."""

    def __init__(
        self,
        companions: Companions,
        executor: Executor,
        clock: Clock,
        leadership: Leadership,
        *,
        at_least_s: float = 0.0,
    ) -> None:
        """A companion waits at least `at_least_s` between two ticks."""
        self._companions = companions
        self._executor = executor
        self._clock = clock
        self._leadership = leadership
        self._at_least_s = at_least_s

    def start(self) -> None:
        """Begin: the first tick of each companion happens at once."""
        for companion in self._companions.members:
            if companion.interval_s is not None:
                self._executor.submit(partial(self._go_round, companion))

    def _go_round(self, companion: Companion) -> None:
        while True:
            began = self._clock.now()
            if self._leadership.may_write(began, 0.0):
                self._companions.tick(companion, began)
            interval_s = companion.interval_s
            left_s = (
                0.0 if interval_s is None else began.mono + max(interval_s, self._at_least_s) - self._clock.now().mono
            )
            if interval_s is None or not self._executor.sleep(max(0.0, left_s)):
                return
