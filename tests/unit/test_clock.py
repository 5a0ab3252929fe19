import threading
import time

import pytest

from autoscaler.clock import Instant, SystemClock, ThreadExecutor, VirtualClock
from autoscaler.stopwatch import stopwatch

PATIENCE_S = 10.0


def test_an_instant_moves_on_both_clocks() -> None:
    assert Instant(wall=100.0, mono=5.0).later(2.5) == Instant(wall=102.5, mono=7.5)


def test_a_virtual_clock_moves_only_when_told() -> None:
    clock = VirtualClock(wall=100.0, mono=5.0)
    assert clock.now() == clock.now() == Instant(100.0, 5.0)
    clock.advance(30)
    clock.advance(0)
    assert clock.now() == Instant(130.0, 35.0)


def test_a_virtual_clock_does_not_run_backwards() -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    assert clock.now() == Instant(0.0, 0.0)


def test_the_systems_clock_tells_the_systems_time() -> None:
    before, now, after = time.time(), SystemClock().now(), time.time()
    assert before <= now.wall <= after
    assert now.mono <= time.monotonic()


def test_a_stopwatch_never_goes_back() -> None:
    first = stopwatch()
    assert stopwatch() >= first


class TestThreadExecutor:
    def test_it_runs_work_beside_the_caller(self) -> None:
        executor, done = ThreadExecutor(1), threading.Event()
        seen: list[int] = []

        def work() -> None:
            seen.append(threading.get_ident())
            done.set()

        executor.submit(work)
        assert done.wait(PATIENCE_S)
        executor.stop()
        assert seen != [threading.get_ident()]

    def test_work_whose_time_has_come_runs(self) -> None:
        executor, done = ThreadExecutor(1), threading.Event()
        executor.call_at(Instant(wall=0.0, mono=0.0), done.set)
        assert done.wait(PATIENCE_S)
        executor.stop()

    def test_stopping_wakes_sleepers_and_drops_work_whose_time_has_not_come(self) -> None:
        executor, asleep = ThreadExecutor(2), threading.Event()
        told: list[bool] = []

        def sleep() -> None:
            asleep.set()
            told.append(executor.sleep(3600))

        executor.submit(sleep)
        executor.call_at(SystemClock().now().later(3600), lambda: told.append(True))
        assert asleep.wait(PATIENCE_S)
        executor.stop()
        assert told == [False]

    def test_a_short_sleep_ends_by_itself(self) -> None:
        executor = ThreadExecutor(1)
        assert executor.sleep(0)
        executor.stop()

    def test_it_takes_no_work_after_stopping(self) -> None:
        executor = ThreadExecutor(1)
        executor.stop()
        with pytest.raises(RuntimeError):
            executor.submit(lambda: None)

    def test_works_run_beside_one_another_and_all_end_before_it_goes_on(self) -> None:
        executor, together = ThreadExecutor(2), threading.Barrier(2)
        seen: list[int] = []

        def work() -> None:
            together.wait(PATIENCE_S)
            seen.append(threading.get_ident())

        executor.run_all([work, work])
        executor.stop()
        assert len(set(seen)) == 2

    def test_while_all_its_threads_are_taken_the_caller_does_the_work(self) -> None:
        executor, busy, free = ThreadExecutor(1), threading.Event(), threading.Event()

        def hold() -> None:
            busy.set()
            free.wait(PATIENCE_S)

        executor.submit(hold)
        assert busy.wait(PATIENCE_S)
        done: list[int] = []
        executor.run_all([lambda number=number: done.append(number) for number in range(3)])  # type: ignore[misc]
        free.set()
        executor.stop()
        assert done == [0, 1, 2]

    def test_an_error_of_a_work_is_raised_once_the_others_have_ended(self) -> None:
        executor = ThreadExecutor(1)
        done: list[str] = []

        def fail() -> None:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            executor.run_all([fail, lambda: done.append("other"), lambda: done.append("another")])
        executor.stop()
