"""Decides whether long work may continue: only while the program runs and is the leader."""

import threading
from collections.abc import Sequence

from autoscaler.clock import Clock, Instant
from autoscaler.errors import LeadershipLost
from autoscaler.ports import Executor, Leadership, Work

_LEASE_PATIENCE_S = 30.0
_LEASE_PAUSE_S = 1.0
_LONGEST_POLL_S = 0.1
_POLL_STEP_S = 0.01


class Stopping(Exception):
    """The program is stopping: end without another write."""


class WriteGate:
    """The clock, and the permission to continue, of one program. Threads may share it."""

    def __init__(self, executor: Executor, clock: Clock, leadership: Leadership) -> None:
        self._executor = executor
        self._clock = clock
        self._leadership = leadership

    def now(self) -> Instant:
        """Return the present moment."""
        return self._clock.now()

    def pause(self, seconds: float) -> None:
        """Wait; raises `Stopping`, or `LeadershipLost` if the lease ran out in the meantime."""
        if not self._executor.sleep(max(0.0, seconds)):
            raise Stopping
        self.require_leadership()

    def require_leadership(self) -> None:
        """Raise `LeadershipLost` if the lease has run out."""
        if not self.lease_lasts(0.0):
            raise LeadershipLost("the lease has run out: removals are abandoned")

    def lease_lasts(self, takes_s: float) -> bool:
        """Whether the lease stays valid for a call that starts now and takes `takes_s` seconds."""
        return self._leadership.may_write(self._clock.now(), takes_s)

    def wait_for_lease(self, takes_s: float) -> bool:
        """Wait until the lease stays valid for a call of `takes_s` seconds, as after each renewal.

        Returns False if it never does; raises like `pause`.
        """
        self.require_leadership()
        give_up = self.now().mono + _LEASE_PATIENCE_S
        while not self.lease_lasts(takes_s):
            if self.now().mono >= give_up:
                return False
            self.pause(_LEASE_PAUSE_S)
        return True

    def beside(self, works: Sequence[Work], at_most: int) -> tuple[Exception | None, ...]:
        """Run works in parallel, at most `at_most` at once; when all have ended, return the exception of each, or None.

        After the first failure no further work begins; works that did not begin also return None. The caller takes
        part, so all works finish even if the executor is busy. Raises `Stopping`.
        """
        lanes = _Lanes(works)
        for _ in range(min(at_most, len(works)) - 1):
            self._executor.submit(lanes.run)
        lanes.run()
        poll_s = 0.0
        while lanes.busy:
            if not self._executor.sleep(poll_s):
                raise Stopping
            poll_s = min(_LONGEST_POLL_S, poll_s + _POLL_STEP_S)
        return tuple(lanes.errors)


class _Lanes:
    """A queue of works that several threads process."""

    def __init__(self, works: Sequence[Work]) -> None:
        self.errors: list[Exception | None] = [None] * len(works)
        self._works = works
        self._lock = threading.Lock()
        self._begun = 0
        self._ended = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a work has begun and not ended."""
        with self._lock:
            return self._ended < self._begun

    def run(self) -> None:
        """Process works until none is left or one has failed."""
        while (index := self._take()) is not None:
            try:
                self._works[index]()
            except Exception as error:  # noqa: BLE001  # the top of a thread; whoever called `beside` gets it
                self.errors[index] = error
            with self._lock:
                self._ended += 1
                self._closed = self._closed or self.errors[index] is not None

    def _take(self) -> int | None:
        with self._lock:
            if self._closed or self._begun == len(self._works):
                return None
            self._begun += 1
            return self._begun - 1
