"""Runs each companion at its own interval while this replica leads, independently of the passes."""

from functools import partial

from autoscaler.clock import Clock
from autoscaler.loop.companion import Companion, Companions
from autoscaler.ports import Executor, Leadership


def start_ticking(
    companions: Companions, executor: Executor, clock: Clock, leadership: Leadership, *, at_least_s: float = 0.0
) -> None:
    """Call companions at their intervals, each on a thread of the executor, from now on until the executor stops.

    The first tick of each companion happens at once. A companion waits at least `at_least_s` between two ticks.
    """

    def go_round(companion: Companion) -> None:
        while True:
            began = clock.now()
            if leadership.may_write(began, 0.0):
                companions.tick(companion, began)
            interval_s = companion.interval_s
            if interval_s is None:
                return
            left_s = began.mono + max(interval_s, at_least_s) - clock.now().mono
            if not executor.sleep(max(0.0, left_s)):
                return

    for companion in companions.members:
        if companion.interval_s is not None:
            executor.submit(partial(go_round, companion))
