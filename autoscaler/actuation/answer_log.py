"""Records the answers of the cloud and the cluster during a pass: all inputs of a pass besides its observations.

After a pass has observed the cloud and the cluster, it sends every further question to them, and to a stopwatch,
through an `AnswerLog`. The daemon's log asks and records the answers. A replay's log returns the recorded answers, so
the pass takes the same course again.
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
"""Type of the answer, by kind of question."""


class LoggedError(msgspec.Struct, frozen=True):
    """An error instead of an answer."""

    kind: str
    message: str


_ERRORS: dict[str, type[AutoscalerError]] = {"RetryLater": RetryLater, "LeadershipLost": LeadershipLost}


class LoggedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer."""

    asked: QuestionKind
    about: tuple[str, ...] = ()
    """Distinguishes the question from others of the same kind."""
    answer: Any = None
    raised: LoggedError | None = None

    @property
    def failed(self) -> bool:
        """Whether the requested action failed or was incomplete; repeating the action would not reproduce that."""
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
    """Asks the cloud and the cluster, and records their answers.

    Serves one pass at a time; within a pass, any thread may use it.
    """

    def __init__(self) -> None:
        self._noted: list[LoggedAnswer] = []

    def begin(self) -> None:
        """Forget the answers of the previous pass."""
        self._noted = []

    def noted(self) -> tuple[LoggedAnswer, ...]:
        """Return the answers of this pass so far; the order of simultaneous answers has no meaning."""
        return tuple(self._noted)

    def ask(self, question: QuestionKind, subject: Sequence[str], do: Callable[[], T]) -> T:
        """Call `do` and record its result; return what it returns, or raise what it raises."""
        try:
            answer = do()
        except AutoscalerError as error:
            kind = "LeadershipLost" if isinstance(error, LeadershipLost) else "RetryLater"
            self._noted.append(LoggedAnswer(asked=question, about=tuple(subject), raised=LoggedError(kind, str(error))))
            raise
        self._noted.append(LoggedAnswer(asked=question, about=tuple(subject), answer=answer))
        return answer


class ReplayedAnswers(AnswerLog):
    """Returns each recorded answer of an earlier pass once; asks questions again that have no recorded answer.

    An action that succeeded in the recording is repeated on the current cloud or cluster. An action that failed is not
    repeated.
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
            with contextlib.suppress(AutoscalerError):  # it succeeded when recorded, so a failure now does not count
                do()
        answer: T = recorded.answer
        return answer
