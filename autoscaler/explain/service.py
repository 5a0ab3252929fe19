"""Explains the last pass of a daemon over HTTP.

Threads must not share the data of a pass. So the deciding thread itself answers, between passes, one question at a
time. A question never slows down a pass, and it delays the next pass by about a second at most.
"""

import queue
import threading
from collections.abc import Callable

import msgspec

from autoscaler.clock import Clock
from autoscaler.errors import ConfigError
from autoscaler.explain.explain import Explained, ExplainTarget, explain_target
from autoscaler.explain.explained_pass import explained_pass
from autoscaler.logs import Log
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.observe.status_board import StatusBoard, StatusView

log = Log(__name__)

BUSY = "the autoscaler is busy with a pass or with other explanations; ask again in a few seconds"
NO_PASS = "this replica has no finished pass to explain; does it lead?"
FAILED = "the explanation failed; the log says why"
TOO_LONG = "the explanation takes too long beside the passes; ask autoscaler plan --explain with a recording or a dump"
_PATIENCE_S = 10.0
_LOOK_UP_S = 0.5
"""Seconds between two checks whether the client is still connected; a lost client must not keep others waiting."""
_MOST_S = 1.0
"""Maximum seconds for an explanation, because the next pass waits for it."""
_REST = 9
"""After an explanation, the service rests for this many times its duration: explanations take a tenth of the time."""


class _TooLong(Exception):
    """An explanation takes longer than the limit."""


class Reply(msgspec.Struct, frozen=True):
    """The outcome of a question."""

    view: StatusView
    """The published status of the explained pass."""
    explanation: Explained | None = None
    missing: str = ""
    """Why there is no explanation."""


class _Question:
    def __init__(self, target: ExplainTarget) -> None:
        self.target = target
        self.reply: Reply | None = None
        self.abandoned = False
        self.answered = threading.Event()


class ExplainService:
    """Takes questions on any thread. Only the deciding thread may call `passed` and `answer`."""

    def __init__(
        self,
        board: StatusBoard,
        clock: Clock,
        interrupt: Callable[[], object],
        sleep: Callable[[float], object],
        most_waiting: int = 4,
    ) -> None:
        """`interrupt` makes the deciding thread call `answer` as soon as no pass runs; `sleep` waits for the given
        seconds.

        At most `most_waiting` requests wait at a time, because each holds a thread of the HTTP server.
        """
        self._board = board
        self._clock = clock
        self._interrupt = interrupt
        self._sleep = sleep
        self._places = threading.BoundedSemaphore(most_waiting)
        self._turn = threading.Lock()
        self._questions: queue.SimpleQueue[_Question] = queue.SimpleQueue()
        self._pass: EndedPass | None = None
        self._rested_at = 0.0

    def passed(self, ended: EndedPass | None) -> None:
        """Explain this pass from now on. None means that there is none, and waiting clients are told so."""
        self._pass = ended

    @property
    def is_asked(self) -> bool:
        """Whether a question waits for `answer`."""
        return not self._questions.empty()

    def answer(self) -> None:
        """Answer the waiting question, if there is one."""
        try:
            question = self._questions.get_nowait()
        except queue.Empty:
            return
        if question.abandoned:
            return
        began = self._clock.now().mono
        question.reply = self._explained(question.target)
        now = self._clock.now().mono
        self._rested_at = now + _REST * (now - began)
        question.answered.set()

    def ask(self, target: ExplainTarget, gone: Callable[[], bool] = lambda: False) -> Reply:
        """Return the explanation, or why there is none, within half a minute; return at once if the client is gone."""
        if self._pass is None:
            return Reply(self._board.view, missing=NO_PASS)
        if not self._places.acquire(blocking=False):
            return Reply(self._board.view, missing=BUSY)
        try:
            return self._in_turn(target, gone) or Reply(self._board.view, missing=BUSY)
        finally:
            self._places.release()

    def _in_turn(self, target: ExplainTarget, gone: Callable[[], bool]) -> Reply | None:
        if not self._turn.acquire(timeout=_PATIENCE_S):
            return None
        question = _Question(target)
        try:
            if (rest_s := self._rested_at - self._clock.now().mono) > 0:
                self._sleep(min(_PATIENCE_S, rest_s))
            self._questions.put(question)
            self._interrupt()
            for _ in range(int(_PATIENCE_S / _LOOK_UP_S)):
                if gone() or self._pass is None or question.answered.wait(_LOOK_UP_S):
                    break
            return question.reply
        finally:
            question.abandoned = True
            self._turn.release()

    def _explained(self, target: ExplainTarget) -> Reply:
        view, ended = self._board.view, self._pass
        if ended is None:
            return Reply(view, missing=NO_PASS)
        deadline = self._clock.now().mono + _MOST_S

        def check() -> None:
            if self._clock.now().mono > deadline:
                raise _TooLong

        try:
            return Reply(view, explain_target(target, explained_pass(ended, check), {}))
        except _TooLong:
            return Reply(view, missing=TOO_LONG)
        except ConfigError as error:
            return Reply(view, missing="; ".join(error.problems))
        except Exception:  # noqa: BLE001  # a bug in an explanation must not end the passes
            log.crashed("explain.failed", target=str(target))
            return Reply(view, missing=FAILED)
