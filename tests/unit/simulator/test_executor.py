import threading
from collections.abc import Iterator

import pytest

from autoscaler.clock import Instant, VirtualClock
from autoscaler.ports import Executor
from autoscaler.simulator.executor import ReplicaExecutor, VirtualExecutor


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(wall=1000.0)


@pytest.fixture
def executor(clock: VirtualClock) -> Iterator[VirtualExecutor]:
    with VirtualExecutor(clock) as executor:
        yield executor


class Diary:
    """What happened, and at which monotonic second."""

    def __init__(self, clock: VirtualClock) -> None:
        self.entries: list[tuple[float, str]] = []
        self._clock = clock

    def note(self, what: str) -> None:
        self.entries.append((self._clock.now().mono, what))


@pytest.fixture
def diary(clock: VirtualClock) -> Diary:
    return Diary(clock)


def the_port_is_met(executor: VirtualExecutor) -> Executor:
    return executor


def test_nothing_runs_before_it_is_driven(executor: VirtualExecutor, diary: Diary) -> None:
    executor.submit(lambda: diary.note("ran"))
    assert diary.entries == []
    executor.run_until(0)
    assert diary.entries == [(0, "ran")]


def test_sleepers_interleave_by_time_then_by_order_of_asking(executor: VirtualExecutor, diary: Diary) -> None:
    def steps(name: str, pause_s: float) -> None:
        for step in range(3):
            diary.note(f"{name}{step}")
            assert executor.sleep(pause_s)

    executor.submit(lambda: steps("a", 2))
    executor.submit(lambda: steps("b", 1))
    executor.run_until(10)
    assert diary.entries == [(0, "a0"), (0, "b0"), (1, "b1"), (2, "a1"), (2, "b2"), (4, "a2")]


def test_the_clock_ends_where_it_was_driven_to(executor: VirtualExecutor, clock: VirtualClock) -> None:
    executor.submit(lambda: None)
    executor.run_until(7)
    assert clock.now() == Instant(1007, 7)


def test_what_is_due_later_waits(executor: VirtualExecutor, diary: Diary) -> None:
    executor.call_at(Instant(1005, 5), lambda: diary.note("due"))
    executor.run_until(4.9)
    assert (diary.entries, executor.next_due) == ([], 5)
    executor.run_until(5)
    assert (diary.entries, executor.next_due) == ([(5, "due")], None)


def test_a_call_in_the_past_runs_now(executor: VirtualExecutor, clock: VirtualClock, diary: Diary) -> None:
    clock.advance(9)
    executor.call_at(Instant(1000, 0), lambda: diary.note("late"))
    executor.run_until(9)
    assert diary.entries == [(9, "late")]


def test_the_driving_thread_lets_time_pass_by_sleeping(executor: VirtualExecutor, diary: Diary) -> None:
    executor.call_at(Instant(1003, 3), lambda: diary.note("three"))
    assert executor.sleep(5)
    diary.note("five")
    assert diary.entries == [(3, "three"), (5, "five")]


def test_works_may_submit_works(executor: VirtualExecutor, diary: Diary) -> None:
    def parent() -> None:
        executor.submit(lambda: diary.note("child"))
        diary.note("parent")

    executor.submit(parent)
    executor.run_until(0)
    assert diary.entries == [(0, "parent"), (0, "child")]


def test_an_escaped_error_reaches_the_driver_and_the_rest_goes_on(executor: VirtualExecutor, diary: Diary) -> None:
    def broken() -> None:
        raise ValueError("bug")

    executor.submit(broken)
    executor.submit(lambda: diary.note("next"))
    with pytest.raises(ValueError, match="bug"):
        executor.run_until(0)
    executor.run_until(0)
    assert diary.entries == [(0, "next")]


def test_stop_wakes_sleepers_with_false_and_drops_the_rest(clock: VirtualClock, diary: Diary) -> None:
    executor = VirtualExecutor(clock)

    def sleeper() -> None:
        diary.note(f"woke {executor.sleep(1000)}")
        diary.note(f"again {executor.sleep(1000)}")

    executor.submit(sleeper)
    executor.run_until(1)
    executor.submit(lambda: diary.note("never"))
    executor.stop()
    executor.submit(lambda: diary.note("never"))
    executor.run_until(2)
    assert diary.entries == [(1, "woke False"), (1, "again False")]
    assert not executor.sleep(1)


def test_stop_ends_every_thread(clock: VirtualClock) -> None:
    before = threading.active_count()
    executor = VirtualExecutor(clock)

    def sleeper() -> None:
        executor.sleep(10)

    for _ in range(5):
        executor.submit(sleeper)
    executor.run_until(1)
    assert threading.active_count() == before + 5
    executor.stop()
    assert threading.active_count() == before


def test_threads_are_used_again(clock: VirtualClock, executor: VirtualExecutor) -> None:
    seen: set[str] = set()
    for second in range(20):
        executor.call_at(Instant(0, second), lambda: seen.add(threading.current_thread().name))
    executor.run_until(30)
    assert len(seen) == 1


def test_a_foreign_thread_may_not_sleep_on_it(executor: VirtualExecutor) -> None:
    errors: list[str] = []

    def foreign() -> None:
        try:
            executor.sleep(1)
        except RuntimeError as error:
            errors.append(str(error))

    def work() -> None:
        thread = threading.Thread(target=foreign)
        thread.start()
        thread.join(10)

    executor.submit(work)
    executor.run_until(0)
    assert errors == ["only the driving thread and the works of an executor may sleep on it"]


def test_a_work_cannot_drive(executor: VirtualExecutor) -> None:
    executor.submit(lambda: executor.run_until(5))
    with pytest.raises(RuntimeError, match="cannot drive"):
        executor.run_until(0)


def test_one_program_is_stopped_and_the_others_go_on(executor: VirtualExecutor, diary: Diary) -> None:
    ends, stays = ReplicaExecutor(executor), ReplicaExecutor(executor)

    def sleeper(name: str, program: ReplicaExecutor) -> None:
        diary.note(f"{name} {program.sleep(10)}")

    ends.submit(lambda: sleeper("ends", ends))
    stays.submit(lambda: sleeper("stays", stays))
    ends.call_at(Instant(0, 5), lambda: diary.note("never"))
    executor.run_until(3)
    ends.stop()
    ends.submit(lambda: diary.note("never"))
    executor.run_until(20)
    assert diary.entries == [(3, "ends False"), (10, "stays True")]
    assert ends.sleep(1) is False


def test_a_program_cannot_be_stopped_by_a_work(executor: VirtualExecutor) -> None:
    executor.submit(ReplicaExecutor(executor).stop)
    with pytest.raises(RuntimeError, match="cannot end its own program"):
        executor.run_until(1)


def test_driven_works_run_on_the_driving_thread_in_their_turn(executor: VirtualExecutor, diary: Diary) -> None:
    threads: list[threading.Thread] = []
    executor.call_at(Instant(0, 2), lambda: diary.note("work"))
    executor.call_on_driver(2, lambda: diary.note("driven"))
    executor.call_on_driver(1, lambda: threads.append(threading.current_thread()))
    executor.run_until(3)
    assert (threads, diary.entries) == ([threading.current_thread()], [(2, "work"), (2, "driven")])


def test_somebody_may_look_around_after_each_turn(executor: VirtualExecutor, diary: Diary) -> None:
    executor.after_turn = lambda: diary.note("looked")
    executor.submit(lambda: diary.note("ran"))
    executor.call_on_driver(4, lambda: diary.note("driven"))
    executor.run_until(9)
    assert diary.entries == [(0, "ran"), (0, "looked"), (4, "driven"), (4, "looked")]


def test_works_that_are_waited_for_run_in_their_order(executor: VirtualExecutor, diary: Diary) -> None:
    def wait_for_two() -> None:
        executor.run_all([lambda: diary.note("a"), lambda: diary.note("b")])
        diary.note("both")

    wait_for_two()
    executor.submit(wait_for_two)
    ReplicaExecutor(executor).run_all([lambda: diary.note("c")])
    executor.run_until(0)
    assert [what for _, what in diary.entries] == ["a", "b", "both", "c", "a", "b", "both"]
