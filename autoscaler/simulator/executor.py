"""A `ports.Executor` in virtual time: its tasks run in a fixed order.

Every work has a thread of its own, because it may sleep at any depth of its calls. But only one thread runs at a time:
it passes the turn on when it sleeps or ends. The next thread is the one with the earliest time to wake; of equal ones,
the one that asked first. So the same program gives the same run, to the byte, and a day passes as fast as its work can
be done.
"""

import heapq
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple

from autoscaler.clock import Instant, VirtualClock
from autoscaler.ports import Work

_MAX_TURN_S = 120.0
"""Real seconds after which a work with the turn counts as stuck on something outside the executor."""


class _Thread:
    """A thread that runs works one after the other, whenever it has the turn."""

    def __init__(self, number: int, ended: Callable[["_Thread", BaseException | None], None]) -> None:
        self.turn = threading.Semaphore(0)
        self.work: Work | None = None
        self._turn_ended = ended
        self.thread = threading.Thread(target=self._run, name=f"virtual-{number}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            self.turn.acquire()
            if self.work is None:
                return
            error: BaseException | None = None
            try:
                self.work()
            except BaseException as raised:  # noqa: BLE001  # raised again in the thread that drives
                error = raised
            self._turn_ended(self, error)


class _Due(NamedTuple):
    mono: float
    serial: int
    work: Work | None
    """The work to begin; with None, `sleeper` continues."""
    sleeper: _Thread | None
    program: "ReplicaExecutor | None" = None
    on_driver: bool = False
    """Whether it runs on the driving thread itself."""


class ReplicaExecutor:
    """A `ports.Executor` for one of several programs that share a `VirtualExecutor`. It can be stopped alone."""

    def __init__(self, executor: "VirtualExecutor") -> None:
        self._executor = executor
        self.stopping = False

    def submit(self, work: Work) -> None:
        """Run `work` at the present moment, after everything that is due by now; after `stop`, drop it."""
        self._executor.submit(work, self)

    def call_at(self, when: Instant, work: Work) -> None:
        """Run `work` once the monotonic clock has reached `when`."""
        self._executor.call_at(when, work, self)

    def run_all(self, works: Sequence[Work]) -> None:
        """Run works in order on the caller's thread."""
        self._executor.run_all(works)

    def sleep(self, seconds: float) -> bool:
        """Let other works run until this many seconds have passed; return False if the program is stopping."""
        return self._executor.sleep(seconds, self)

    def stop(self) -> None:
        """Drop works that have not begun, wake every sleeper, and run the rest to its end; no work may call this."""
        self.stopping = True
        self._executor.stop_program(self)


class VirtualExecutor:
    """An executor on a `VirtualClock`. One thread, the driving thread, calls `run_until`; works call the other methods.

    When the driving thread itself sleeps, time passes and everything due by then runs. An exception that escapes a work
    is raised in the driving thread.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._queue: list[_Due] = []
        self._serial = 0
        self._threads: list[_Thread] = []
        self._idle: list[_Thread] = []
        self._running: _Thread | None = None
        self._driver_turn = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._stopping = False
        self.after_turn: Callable[[], None] = lambda: None
        """Called on the driving thread at the end of each turn."""

    def __enter__(self) -> "VirtualExecutor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def submit(self, work: Work, program: ReplicaExecutor | None = None) -> None:
        """Run `work` at the present moment, after everything that is due by now; after `stop`, drop it."""
        self._push(_Due(self._clock.now().mono, self._next_serial(), work, None, program))

    def call_at(self, when: Instant, work: Work, program: ReplicaExecutor | None = None) -> None:
        """Run `work` once the monotonic clock has reached `when`."""
        self._push(_Due(max(when.mono, self._clock.now().mono), self._next_serial(), work, None, program))

    def call_on_driver(self, mono: float, work: Work) -> None:
        """Run `work` at that monotonic second on the driving thread itself; it must be cheap and must not sleep."""
        self._push(_Due(max(mono, self._clock.now().mono), self._next_serial(), work, None, on_driver=True))

    def run_all(self, works: Sequence[Work]) -> None:
        """Run works in order on the caller's thread; they need no turns, because they take no virtual time."""
        for work in works:
            work()

    def sleep(self, seconds: float, program: ReplicaExecutor | None = None) -> bool:
        """Let other works run until this many seconds have passed; return False if the executor is stopping."""
        if program is not None and program.stopping:
            return False
        wake = self._clock.now().mono + max(0.0, seconds)
        sleeper = self._running
        if sleeper is None:
            self.run_until(wake)
        elif sleeper.thread is not threading.current_thread():
            raise RuntimeError("only the driving thread and the works of an executor may sleep on it")
        elif not self._stopping:
            self._push(_Due(wake, self._next_serial(), None, sleeper, program))
            self._driver_turn.release()
            sleeper.turn.acquire()
        return not (self._stopping or (program is not None and program.stopping))

    @property
    def next_due(self) -> float | None:
        """Monotonic second at which the next work begins or continues; None if no work waits."""
        return self._queue[0].mono if self._queue else None

    def run_until(self, mono: float) -> None:
        """Run everything that is due up to that monotonic second, then set the clock to it.

        If the clock is past it, run everything that is due by now.
        """
        if self._running is not None:
            raise RuntimeError("a work cannot drive the executor that runs it")
        end = max(mono, self._clock.now().mono)
        while self._queue and self._queue[0].mono <= end:
            due = heapq.heappop(self._queue)
            self._advance_to(due.mono)
            if due.on_driver and due.work is not None:
                due.work()
            else:
                self._run_turn(due)
            self.after_turn()
        self._advance_to(end)

    def stop_program(self, program: ReplicaExecutor) -> None:
        """Drop a program's works that have not begun, and let its sleepers run to their end; for
        `ReplicaExecutor.stop`.
        """
        if self._running is not None:
            raise RuntimeError("a work cannot end its own program")
        own_calls = sorted(due for due in self._queue if due.program is program)
        self._queue = [due for due in self._queue if due.program is not program]
        heapq.heapify(self._queue)
        for due in own_calls:
            if due.sleeper is not None:
                self._run_turn(due)

    def stop(self) -> None:
        """Drop works that have not begun, wake every sleeper, and run the rest to its end."""
        self._stopping = True
        while self._queue:
            due = heapq.heappop(self._queue)
            if due.sleeper is not None:
                self._run_turn(due)
        for thread in self._idle:
            thread.work = None
            thread.turn.release()
        for thread in self._idle:
            thread.thread.join(_MAX_TURN_S)
        self._idle.clear()

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def _push(self, due: _Due) -> None:
        if not (self._stopping or (due.program is not None and due.program.stopping)):
            heapq.heappush(self._queue, due)

    def _advance_to(self, mono: float) -> None:
        self._clock.advance(max(0.0, mono - self._clock.now().mono))

    def _run_turn(self, due: _Due) -> None:
        thread = due.sleeper
        if thread is None:
            thread = self._idle.pop() if self._idle else self._new_thread()
            thread.work = due.work
        self._running = thread
        thread.turn.release()
        if not self._driver_turn.acquire(timeout=_MAX_TURN_S):
            raise RuntimeError(f"{thread.thread.name} waits for something that is not the executor")
        self._running = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _new_thread(self) -> _Thread:
        thread = _Thread(len(self._threads), self._turn_ended)
        self._threads.append(thread)
        return thread

    def _turn_ended(self, thread: _Thread, error: BaseException | None) -> None:
        self._error = error
        self._idle.append(thread)
        self._driver_turn.release()
