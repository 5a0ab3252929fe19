"""The clock: the only module that tells the time or waits; `stopwatch` measures durations.

`wall` is Unix seconds and serves API timestamps and schedules; `mono` is seconds of a clock that never
jumps and serves timers. Decisions take an `Instant`; effects hold a `Clock`.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Protocol

import msgspec


class Instant(msgspec.Struct, frozen=True, order=True):
    """One moment on both clocks, in seconds."""

    wall: float
    mono: float

    def later(self, seconds: float) -> "Instant":
        """Return the moment `seconds` after this one."""
        return Instant(self.wall + seconds, self.mono + seconds)


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> Instant:
        """Return the present moment."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> Instant:
        """Return the present moment."""
        return Instant(time.time(), time.monotonic())


class VirtualClock:
    """A clock that moves only when told: for tests, simulations and offline plans."""

    def __init__(self, wall: float = 0.0, mono: float = 0.0) -> None:
        self._now = Instant(wall, mono)

    def now(self) -> Instant:
        """Return the present moment."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move both clocks forward; negative steps are refused because no timer survives them."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds}")
        self._now = self._now.later(seconds)


class ThreadExecutor:
    """The daemon's `ports.Executor`: a bounded pool of threads and the system's timers."""

    def __init__(self, threads: int = 16) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="act")
        self._stopping = threading.Event()

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` soon, on another thread; it must handle its own errors."""
        self._pool.submit(work)

    def run_all(self, works: Sequence[Callable[[], None]]) -> None:
        """Run works beside one another, on this thread too, so that a busy pool only makes it slower."""
        waiting = deque(works)

        def work_off() -> None:
            while True:
                try:
                    work = waiting.popleft()
                except IndexError:
                    return
                work()

        helpers = [self._pool.submit(work_off) for _ in works[1:]]
        try:
            work_off()
        finally:
            begun = [helper for helper in helpers if not helper.cancel()]
            wait(begun)
        for helper in begun:
            helper.result()

    def sleep(self, seconds: float) -> bool:
        """Wait; `False` means that the executor is stopping and the caller should wind down."""
        return not self._stopping.wait(seconds)

    def call_at(self, when: Instant, work: Callable[[], None]) -> None:
        """Run `work` once the monotonic clock has reached `when`."""
        delay = max(0.0, when.mono - time.monotonic())

        def wait_then_work() -> None:
            if self.sleep(delay):
                work()

        self._pool.submit(wait_then_work)

    def stop(self) -> None:
        """Wake every sleeper, take no new work and wait for what is running."""
        self._stopping.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
