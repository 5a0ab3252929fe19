"""The time that a pass takes: the durations of its phases, for reports, and the time limits that have run out.

Decisions never see a duration. They only ask whether a limit has run out. The answer log records the answer, so a
replay stops where the recorded pass stopped, regardless of the speed of the machine.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

from autoscaler.actuation.answer_log import AnswerLog, QuestionKind
from autoscaler.ports import Stopwatch


class TimeBox(StrEnum):
    """Work with a time limit, named after the flag that sets the limit if there is one."""

    FAILED_SCALE_UPS = "failed-scale-ups"
    CHECK_CAPACITY_BATCH = "check-capacity-provisioning-request-batch-timebox"
    SCALE_DOWN_SIMULATION = "scale-down-simulation-timeout"


class PassTime:
    """The stopwatches of one pass."""

    def __init__(self, phases: Stopwatch, limits: Stopwatch, answer_log: AnswerLog) -> None:
        """`phases` measures for reports, `limits` measures work that may end early."""
        self._phases = phases
        self._limits = limits
        self._answer_log = answer_log
        self._spent: dict[str, float] = {}
        self._asked: Counter[TimeBox] = Counter()

    @property
    def spent(self) -> Mapping[str, float]:
        """Seconds by phase, for the phases that have ended."""
        return dict(self._spent)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time spent in the block towards a phase, unless the block raises."""
        began = self._phases()
        yield
        self._spent[name] = self._spent.get(name, 0.0) + self._phases() - began

    def box(self, name: TimeBox, limit_s: float) -> Callable[[], bool]:
        """Return a function that tells whether more than `limit_s` seconds have passed since this call."""
        began = self._limits()

        def over() -> bool:
            self._asked[name] += 1
            about = (name.value, f"{self._asked[name]}")
            return self._answer_log.ask(QuestionKind.TIME_OVER, about, lambda: self._limits() - began > limit_s)

        return over
