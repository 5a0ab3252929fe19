"""What the world outside answered in a pass, question by question: what a pass depends on beside what it observed.

Whatever a pass asks of cloud and cluster after it has looked at them, and of a stopwatch, goes through a `Tape`. That
of the daemon asks and takes notes; that of a replay gives the answers that were noted, so that the pass goes the same
way again.
"""

import contextlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from autoscaler.actuation.deletion import Started
from autoscaler.actuation.outcome import Finished
from autoscaler.actuation.statuses import Outcome, Written
from autoscaler.actuation.tracker import UnderWay
from autoscaler.errors import AutoscalerError, LeadershipLost, RetryLater
from autoscaler.scaleup.plan import Resized
from cloudprovider.interface import InstanceError

T = TypeVar("T")


class Asked(StrEnum):
    """Kinds of question."""

    INCREASE = "increase"
    DECREASE_TARGET = "decreaseTarget"
    DELETE_INSTANCES = "deleteInstances"
    TARGETS = "targets"
    TELLS_GONE = "tellsGone"
    GROUP_PRICE = "groupPrice"
    NODE_PRICE = "nodePrice"
    REQUESTS_PRICE = "requestsPrice"
    UNDER_WAY = "underWay"
    ENDED = "ended"
    START = "start"
    MARK = "mark"
    ANNOTATE = "annotate"
    CLEAN_UP = "cleanUp"
    STATUS = "status"
    TIME_OVER = "timeOver"


TYPES: dict[Asked, Any] = {
    Asked.INCREASE: Resized,
    Asked.DECREASE_TARGET: Resized,
    Asked.DELETE_INSTANCES: InstanceError | None,
    Asked.TARGETS: dict[str, int],
    Asked.TELLS_GONE: bool,
    Asked.GROUP_PRICE: float | None,
    Asked.NODE_PRICE: float | None,
    Asked.REQUESTS_PRICE: float | None,
    Asked.UNDER_WAY: UnderWay,
    Asked.ENDED: tuple[Finished, ...],
    Asked.START: Started,
    Asked.MARK: None,
    Asked.ANNOTATE: bool,
    Asked.CLEAN_UP: None,
    Asked.STATUS: Written,
    Asked.TIME_OVER: bool,
}
"""What answers are, by kind of question."""


class Raised(msgspec.Struct, frozen=True):
    """An error instead of an answer."""

    kind: str
    message: str


_ERRORS: dict[str, type[AutoscalerError]] = {"RetryLater": RetryLater, "LeadershipLost": LeadershipLost}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One question and what came back."""

    asked: Asked
    about: tuple[str, ...] = ()
    """What tells it from others of its kind."""
    answer: Any = None
    raised: Raised | None = None

    @property
    def failed(self) -> bool:
        """Whether what was asked for was not done, or not in full: doing it again would not bring that back."""
        answer = self.answer
        match answer:
            case Resized() | Started():
                return bool(answer.error)
            case InstanceError():
                return True
            case Written():
                return answer.outcome is not Outcome.DONE
        return self.raised is not None or (self.asked is Asked.ANNOTATE and not answer)


class Tape:
    """Asks the world, and notes what it says. One pass at a time; within a pass, any thread."""

    def __init__(self) -> None:
        self._noted: list[Answer] = []

    def begin(self) -> None:
        """Forget the pass before."""
        self._noted = []

    def noted(self) -> tuple[Answer, ...]:
        """Return the answers of this pass so far; the order among those that came at the same time means nothing."""
        return tuple(self._noted)

    def ask(self, asked: Asked, about: Sequence[str], do: Callable[[], T]) -> T:
        """Return what `do` returns, or raise what it raises."""
        try:
            answer = do()
        except AutoscalerError as error:
            kind = "LeadershipLost" if isinstance(error, LeadershipLost) else "RetryLater"
            self._noted.append(Answer(asked=asked, about=tuple(about), raised=Raised(kind, str(error))))
            raise
        self._noted.append(Answer(asked=asked, about=tuple(about), answer=answer))
        return answer


class Replayed(Tape):
    """Gives the answers of an earlier pass, each once; what is not among them is asked anew.

    What worked then is done again, on whatever stands for the world now; what failed then is not tried.
    """

    def __init__(self, answers: Sequence[Answer]) -> None:
        super().__init__()
        self._left = list(answers)

    def ask(self, asked: Asked, about: Sequence[str], do: Callable[[], T]) -> T:
        """Return the recorded answer to this question."""
        found = next((one for one in self._left if one.asked is asked and one.about == tuple(about)), None)
        if found is None:
            return super().ask(asked, about, do)
        self._left.remove(found)
        self._noted.append(found)
        if found.raised is not None:
            raise _ERRORS[found.raised.kind](found.raised.message)
        if not found.failed:
            with contextlib.suppress(AutoscalerError):  # it worked then, whatever the world of today says
                do()
        answer: T = found.answer
        return answer
