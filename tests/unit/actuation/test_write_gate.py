import threading
from collections.abc import Callable, Sequence

import pytest

from autoscaler.actuation.taint_latency import TaintLatency
from autoscaler.actuation.write_gate import Stopping, WriteGate
from autoscaler.clock import Instant, ThreadExecutor, VirtualClock
from autoscaler.errors import LeadershipLost
from autoscaler.simulator.executor import VirtualExecutor
from tests.unit.actuation.stage import Leader


class Busy:
    """An executor whose threads are all taken."""

    def submit(self, work: Callable[[], None]) -> None:
        pass

    def run_all(self, works: Sequence[Callable[[], None]]) -> None:
        pass

    def sleep(self, seconds: float) -> bool:
        return True

    def call_at(self, when: Instant, work: Callable[[], None]) -> None:
        pass


def virtual(executor: VirtualExecutor, clock: VirtualClock) -> WriteGate:
    return WriteGate(executor, clock, Leader())


class TestBeside:
    @pytest.mark.parametrize(("at_most", "took_s"), [(1, 15), (5, 3), (2, 9)])
    def test_runs_so_many_at_once(self, at_most: int, took_s: float) -> None:
        clock = VirtualClock()
        with VirtualExecutor(clock) as executor:
            gate = virtual(executor, clock)
            most: list[int] = []
            running: list[int] = []
            took: list[float] = []

            def work() -> None:
                running.append(1)
                most.append(len(running))
                executor.sleep(3)
                running.pop()

            def parent() -> None:
                assert gate.beside([work] * 5, at_most) == (None,) * 5
                took.append(clock.now().mono)

            executor.submit(parent)
            executor.run_until(100)
            assert max(most) == at_most
            assert took[0] == pytest.approx(took_s, abs=0.2)

    def test_costs_no_time_where_the_works_take_none(self) -> None:
        clock = VirtualClock()
        with VirtualExecutor(clock) as executor:
            done: list[int] = []
            virtual(executor, clock).beside([lambda: done.append(1)] * 7, 5)
            assert (len(done), clock.now().mono) == (7, 0)

    def test_nothing_begins_after_a_failure(self) -> None:
        clock = VirtualClock()
        done: list[str] = []

        def fail() -> None:
            raise ValueError("no")

        with VirtualExecutor(clock) as executor:
            works = [lambda: done.append("first"), fail, lambda: done.append("third")]
            errors = virtual(executor, clock).beside(works, 1)
            assert [str(error) for error in errors] == ["None", "no", "None"]
            assert done == ["first"]

    def test_gets_done_where_the_executor_is_too_busy_to_help(self) -> None:
        done: list[int] = []
        errors = WriteGate(Busy(), VirtualClock(), Leader()).beside([lambda: done.append(1)] * 7, 5)
        assert (len(done), errors) == (7, (None,) * 7)

    def test_on_threads(self) -> None:
        executor = ThreadExecutor(threads=4)
        meeting = threading.Barrier(4)

        def meet() -> None:
            meeting.wait(20)

        try:
            gate = WriteGate(executor, VirtualClock(), Leader())
            assert gate.beside([meet] * 4, 4) == (None,) * 4
        finally:
            executor.stop()

    def test_of_nothing_is_nothing(self) -> None:
        assert WriteGate(Busy(), VirtualClock(), Leader()).beside([], 5) == ()


class TestPause:
    def test_ends_with_the_program(self) -> None:
        clock = VirtualClock()
        executor = VirtualExecutor(clock)
        executor.stop()
        with pytest.raises(Stopping):
            virtual(executor, clock).pause(5)

    def test_ends_with_leadership(self) -> None:
        clock, leader = VirtualClock(), Leader()
        leader.until = 4
        with VirtualExecutor(clock) as executor, pytest.raises(LeadershipLost):
            WriteGate(executor, clock, leader).pause(5)


class TestLatency:
    def test_is_twice_the_longest_of_the_last_hour(self) -> None:
        latency = TaintLatency()
        assert latency.wait_s(Instant(0, 0)) is None
        latency.took(4.0, Instant(0, 0))
        latency.took(1.5, Instant(0, 600))
        assert latency.wait_s(Instant(0, 3600)) == 8.0
        assert latency.wait_s(Instant(0, 3601)) == 3.0
        assert latency.wait_s(Instant(0, 9999)) is None
