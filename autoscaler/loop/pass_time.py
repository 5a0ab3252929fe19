"""The time that a pass takes: how long its phases took, for reports, and which limits on time have run out.

Decisions never see a duration. They ask whether a limit has run out, and the answer log has that one has, so that a
replay stops where the recorded pass stopped, however fast or slow the machine is that replays it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

from autoscaler.actuation.answer_log import AnswerLog, QuestionKind
from autoscaler.ports import Stopwatch


class TimeBox(StrEnum):
    """Work whose time is limited; by the flag that limits it, where there is one."""

    FAILED_SCALE_UPS = "failed-scale-ups"
    CHECK_CAPACITY_BATCH = "check-capacity-provisioning-request-batch-timebox"
    SCALE_DOWN_SIMULATION = "scale-down-simulation-timeout"


class PassTime:
    """Belongs to one pass."""

    def __init__(self, phases: Stopwatch, limits: Stopwatch, answer_log: AnswerLog) -> None:
        """`phases` measures for reports, `limits` measures work that may end early."""
        self._phases = phases
        self._limits = limits
        self._answer_log = answer_log
        self._spent: dict[str, float] = {}
        self._asked: Counter[TimeBox] = Counter()

    @property
    def spent(self) -> Mapping[str, float]:
        """Seconds by phase, of the phases that have ended."""
        return dict(self._spent)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is done meanwhile towards a phase, unless it raises."""
        began = self._phases()
        yield
        self._spent[name] = self._spent.get(name, 0.0) + self._phases() - began

    def box(self, name: TimeBox, limit_s: float) -> Callable[[], bool]:
        """Return a function: whether more than `limit_s` seconds have passed since now."""
        began = self._limits()

        def over() -> bool:
            self._asked[name] += 1
            about = (name.value, f"{self._asked[name]}")
            return self._answer_log.ask(QuestionKind.TIME_OVER, about, lambda: self._limits() - began > limit_s)

        return over
