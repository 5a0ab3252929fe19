"""Whether work that takes minutes may still go on: the program runs and leads."""

from collections.abc import Callable, Sequence

from autoscaler.clock import Clock, Instant
from autoscaler.errors import LeadershipLost
from autoscaler.ports import Executor, Leadership

_LEASE_PATIENCE_S = 30.0
_LEASE_PAUSE_S = 1.0
_LONGEST_POLL_S = 0.1

Work = Callable[[], None]


class Stopping(Exception):
    """The program is stopping: end without another write."""


class Permit:
    """The clock, and leave to go on, for one program. Safe to share between threads."""

    def __init__(self, executor: Executor, clock: Clock, leadership: Leadership) -> None:
        self._executor = executor
        self._clock = clock
        self._leadership = leadership

    def now(self) -> Instant:
        """Return the present moment."""
        return self._clock.now()

    def pause(self, seconds: float) -> None:
        """Wait; raises `Stopping`, and `LeadershipLost` where the lease ran out meanwhile."""
        if not self._executor.sleep(max(0.0, seconds)):
            raise Stopping
        self.require()

    def require(self) -> None:
        """Raise `LeadershipLost` where the lease has run out."""
        if not self.leads(0.0):
            raise LeadershipLost("the lease has run out: removals are abandoned")

    def leads(self, takes_s: float) -> bool:
        """Whether the lease outlasts a call of so many seconds that starts now."""
        return self._leadership.may_write(self._clock.now(), takes_s)

    def await_lease(self, takes_s: float) -> bool:
        """Wait until the lease outlasts a call of so many seconds, as it does after each renewal.

        False where it never does; raises as `pause` does.
        """
        self.require()
        give_up = self.now().mono + _LEASE_PATIENCE_S
        while not self.leads(takes_s):
            if self.now().mono >= give_up:
                return False
            self.pause(_LEASE_PAUSE_S)
        return True

    def beside(self, works: Sequence[Work], at_most: int) -> tuple[Exception | None, ...]:
        """Run works beside each other, so many at once, and return what each raised when all have ended.

        After the first that fails no further one begins: those left return None as well, and did nothing. Raises
        `Stopping`.
        """
        errors: list[Exception | None] = [None] * len(works)
        waiting = iter(range(len(works)))
        ended: list[None] = []

        def take_turns() -> None:
            try:
                for index in waiting:
                    if any(error is not None for error in errors):
                        break
                    try:
                        works[index]()
                    except Exception as error:  # noqa: BLE001  # the top of a thread; the caller gets it
                        errors[index] = error
            finally:
                ended.append(None)

        lanes = min(at_most, len(works))
        for _ in range(lanes - 1):
            self._executor.submit(take_turns)
        if lanes:
            take_turns()
        poll_s = 0.0
        while len(ended) < lanes:
            if not self._executor.sleep(poll_s):
                raise Stopping
            poll_s = min(_LONGEST_POLL_S, poll_s + 0.01)
        return tuple(errors)
