"""Records the answers of cloud and cluster during a pass: everything a pass depends on besides its observations.

Whatever a pass asks of cloud and cluster after it has looked at them, and of a stopwatch, goes through an `AnswerLog`.
That of the daemon asks and takes notes; that of a replay gives the answers that were noted, so that the pass goes the
same way again.
"""

import contextlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from autoscaler.actuation.deletion import StartedRemovals
from autoscaler.actuation.deletion_tracker import TrackedDeletions
from autoscaler.actuation.removal_outcome import Finished
from autoscaler.actuation.status_writes import StatusWrite, WriteOutcome
from autoscaler.errors import AutoscalerError, LeadershipLost, RetryLater
from autoscaler.scaleup.plan import Resized
from cloudprovider.interface import InstanceError

T = TypeVar("T")


class QuestionKind(StrEnum):
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


TYPES: dict[QuestionKind, Any] = {
    QuestionKind.INCREASE: Resized,
    QuestionKind.DECREASE_TARGET: Resized,
    QuestionKind.DELETE_INSTANCES: InstanceError | None,
    QuestionKind.TARGETS: dict[str, int],
    QuestionKind.TELLS_GONE: bool,
    QuestionKind.GROUP_PRICE: float | None,
    QuestionKind.NODE_PRICE: float | None,
    QuestionKind.REQUESTS_PRICE: float | None,
    QuestionKind.UNDER_WAY: TrackedDeletions,
    QuestionKind.ENDED: tuple[Finished, ...],
    QuestionKind.START: StartedRemovals,
    QuestionKind.MARK: None,
    QuestionKind.ANNOTATE: bool,
    QuestionKind.CLEAN_UP: None,
    QuestionKind.STATUS: StatusWrite,
    QuestionKind.TIME_OVER: bool,
}
"""What answers are, by kind of question."""


class LoggedError(msgspec.Struct, frozen=True):
    """An error instead of an answer."""

    kind: str
    message: str


_ERRORS: dict[str, type[AutoscalerError]] = {"RetryLater": RetryLater, "LeadershipLost": LeadershipLost}


class LoggedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One question and what came back."""

    asked: QuestionKind
    about: tuple[str, ...] = ()
    """What tells it from others of its kind."""
    answer: Any = None
    raised: LoggedError | None = None

    @property
    def failed(self) -> bool:
        """Whether what was asked for was not done, or not in full: doing it again would not bring that back."""
        answer = self.answer
        match answer:
            case Resized() | StartedRemovals():
                return bool(answer.error)
            case InstanceError():
                return True
            case StatusWrite():
                return answer.outcome is not WriteOutcome.DONE
        return self.raised is not None or (self.asked is QuestionKind.ANNOTATE and not answer)


class AnswerLog:
    """Asks the world, and notes what it says. One pass at a time; within a pass, any thread."""

    def __init__(self) -> None:
        self._noted: list[LoggedAnswer] = []

    def begin(self) -> None:
        """Forget the pass before."""
        self._noted = []

    def noted(self) -> tuple[LoggedAnswer, ...]:
        """Return the answers of this pass so far; the order among those that came at the same time means nothing."""
        return tuple(self._noted)

    def ask(self, question: QuestionKind, subject: Sequence[str], do: Callable[[], T]) -> T:
        """Return what `do` returns, or raise what it raises."""
        try:
            answer = do()
        except AutoscalerError as error:
            kind = "LeadershipLost" if isinstance(error, LeadershipLost) else "RetryLater"
            self._noted.append(LoggedAnswer(asked=question, about=tuple(subject), raised=LoggedError(kind, str(error))))
            raise
        self._noted.append(LoggedAnswer(asked=question, about=tuple(subject), answer=answer))
        return answer


class ReplayedAnswers(AnswerLog):
    """Gives the answers of an earlier pass, each once; what is not among them is asked anew.

    What worked then is done again, on whatever stands for the world now; what failed then is not tried.
    """

    def __init__(self, answers: Sequence[LoggedAnswer]) -> None:
        super().__init__()
        self._left = list(answers)

    def ask(self, question: QuestionKind, subject: Sequence[str], do: Callable[[], T]) -> T:
        """Return the recorded answer to this question."""
        recorded = next(
            (answer for answer in self._left if answer.asked is question and answer.about == tuple(subject)), None
        )
        if recorded is None:
            return super().ask(question, subject, do)
        self._left.remove(recorded)
        self._noted.append(recorded)
        if recorded.raised is not None:
            raise _ERRORS[recorded.raised.kind](recorded.raised.message)
        if not recorded.failed:
            with contextlib.suppress(AutoscalerError):  # it worked then, whatever the world of today says
                do()
        answer: T = recorded.answer
        return answer
