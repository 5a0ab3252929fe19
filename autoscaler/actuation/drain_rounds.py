"""Repeats many small works on few threads, so that many nodes can leave at the same time."""

import heapq
import threading
from collections.abc import Callable

from autoscaler.clock import Clock
from autoscaler.ports import Executor

_THREADS = 4
_LONGEST_SLEEP_S = 2.0

RoundWork = Callable[[], float | None]
"""Returns the seconds until the next round; None: it is over. It handles its own errors."""


class DrainRounds:
    """Works that wait for their next round. Threads may share it.

    When the program stops, each work gets one more round at once, so that it can end in an orderly way.
    """

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self._executor = executor
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, RoundWork]] = []
        self._serial = 0
        self._threads = 0

    def add(self, work: RoundWork) -> None:
        """Begin the first round soon, on another thread."""
        self._push(work, 0.0)
        with self._lock:
            if self._threads == _THREADS:
                return
            self._threads += 1
        self._executor.submit(self._run)

    def _push(self, work: RoundWork, wait_s: float) -> None:
        with self._lock:
            self._serial += 1
            heapq.heappush(self._waiting, (self._clock.now().mono + wait_s, self._serial, work))

    def _pop(self) -> tuple[float, RoundWork] | None:
        """Return the next work and when it is due; None: there is none, and the thread has to end."""
        with self._lock:
            if not self._waiting:
                self._threads -= 1
                return None
            due, _, work = heapq.heappop(self._waiting)
        return due, work

    def _run(self) -> None:
        while (entry := self._pop()) is not None:
            due, work = entry
            left_s = due - self._clock.now().mono
            if left_s > 0 and self._executor.sleep(min(left_s, _LONGEST_SLEEP_S)) and left_s > _LONGEST_SLEEP_S:
                self._push(work, left_s - _LONGEST_SLEEP_S)
                continue
            wait_s = work()
            if wait_s is not None:
                self._push(work, wait_s)
