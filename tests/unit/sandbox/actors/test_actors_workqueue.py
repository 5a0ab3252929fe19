from autoscaler.clock import Instant
from autoscaler.sandbox.actors.workqueue import WorkQueue
from autoscaler.sandbox.apiserver.errors import ApiError

Key = tuple[str]


class Worker:
    """Writes down what it is asked to do; fails with `error` while there is one."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.queue: WorkQueue[Key] = WorkQueue(lambda key, _error: self.refusals.append(key[0]))
        self.error: ApiError | None = None
        self.done: list[str] = []

    def work(self, mono: float) -> list[str]:
        self.done = []
        self.queue.process(Instant(0.0, mono), self._sync)
        return self.done

    def _sync(self, key: Key, _now: Instant) -> None:
        self.done.append(key[0])
        if self.error is not None:
            raise self.error


def test_a_key_added_twice_is_worked_on_once_and_first_come_first_served() -> None:
    worker = Worker()
    for name in ("b", "a", "b"):
        worker.queue.add((name,))
    assert worker.work(0.0) == ["b", "a"]
    assert worker.work(0.0) == []


def test_a_key_for_later_waits_for_its_moment() -> None:
    worker = Worker()
    worker.queue.add_at(("late",), 10.0)
    worker.queue.add_at(("early",), 5.0)
    assert worker.work(4.9) == []
    assert worker.work(10.0) == ["early", "late"]


def test_work_that_the_server_refuses_is_tried_again_and_told() -> None:
    worker = Worker()
    worker.error = ApiError(403, "Forbidden", "no")
    worker.queue.add(("a",))
    assert (worker.work(0.0), worker.work(1.0)) == (["a"], [])
    worker.error = None
    assert worker.work(2.0) == ["a"]
    assert worker.refusals == ["a"]


def test_coming_too_late_is_no_news_but_is_tried_again() -> None:
    worker = Worker()
    worker.error = ApiError(409, "Conflict", "changed")
    worker.queue.add(("a",))
    assert (worker.work(0.0), worker.work(2.0)) == (["a"], ["a"])
    assert worker.refusals == []
