import threading
from collections.abc import Callable, Sequence

import pytest

from autoscaler.clock import Instant, ThreadExecutor, VirtualClock
from autoscaler.errors import Conflict, Refused, RetryLater
from autoscaler.kube.writes import EventRecord, Writes
from autoscaler.observe.correlator import Correlator
from autoscaler.observe.events import CollectedEvents, EventRecorder, EventStore
from autoscaler.ports import EventSink, EventType, Subject

POD = Subject("Pod", "web-1", "shop", uid="u1")
STATUS = Subject("ConfigMap", "cluster-autoscaler-status", "kube-system")
NODE = Subject("Node", "n1")


class Server:
    """Remembers what was written; `failures` are raised first, in order."""

    def __init__(self, *failures: Exception) -> None:
        self.created: list[EventRecord] = []
        self.repeated: list[EventRecord] = []
        self.attempts = 0
        self._failures = list(failures)

    def create_event(self, event: EventRecord) -> None:
        self._fail()
        self.created.append(event)

    def repeat_event(self, event: EventRecord) -> None:
        self._fail()
        self.repeated.append(event)

    def _fail(self) -> None:
        self.attempts += 1
        if self._failures:
            raise self._failures.pop(0)


class Later:
    """Runs work when told; sleeping moves the clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.work: list[Callable[[], None]] = []
        self.slept: list[float] = []
        self.stopping = False

    def submit(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def run_all(self, works: Sequence[Callable[[], None]]) -> None:
        self.work.extend(works)

    def sleep(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self._clock.advance(seconds)
        return not self.stopping

    def call_at(self, when: Instant, work: Callable[[], None]) -> None:
        raise AssertionError("events do not use timers")

    def run(self) -> None:
        while self.work:
            self.work.pop(0)()


class Dropped:
    def __init__(self) -> None:
        self.count = 0

    def events_dropped(self, count: int) -> None:
        self.count += count


class Desk:
    """A recorder with everything around it."""

    def __init__(self, *failures: Exception, duplicates: bool = False, queue_size: int = 1000) -> None:
        self.clock = VirtualClock(wall=1_785_578_400.0)
        self.server = Server(*failures)
        self.executor = Later(self.clock)
        self.dropped = Dropped()
        correlator = Correlator(STATUS, duplicates=duplicates)
        self.recorder = EventRecorder(
            self.server, self.executor, self.clock, correlator, self.dropped, queue_size=queue_size
        )

    def report(self, about: Subject, reason: str = "ScaleDown", message: str = "m") -> None:
        self.recorder.event(about, EventType.NORMAL, reason, message)
        self.executor.run()


def _protocols_hold(
    writes: Writes, recorder: EventRecorder, collected: CollectedEvents
) -> tuple[EventStore, EventSink, EventSink]:
    """Checked by mypy only."""
    return writes, recorder, collected


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_an_event_says_what_happened_to_whom(desk: Desk) -> None:
    desk.report(POD, "TriggeredScaleUp", "pod triggered scale-up: [{web 1->3 (max: 5)}]")
    (event,) = desk.server.created
    assert event.name.startswith("web-1.")
    assert (event.about, event.kind, event.reason) == (POD, EventType.NORMAL, "TriggeredScaleUp")
    assert event.message == "pod triggered scale-up: [{web 1->3 (max: 5)}]"
    assert (event.count, event.first_wall, event.last_wall) == (1, 1_785_578_400.0, 1_785_578_400.0)
    assert event.component == "cluster-autoscaler"


def test_the_loop_never_waits_for_the_server(desk: Desk) -> None:
    desk.recorder.event(POD, EventType.NORMAL, "ScaleDown", "m")
    assert desk.server.attempts == 0
    desk.executor.run()
    assert len(desk.server.created) == 1


def test_a_repeat_is_held_back_then_counted(desk: Desk) -> None:
    for _ in range(3):
        desk.report(POD)
    assert (len(desk.server.created), len(desk.server.repeated)) == (1, 0)
    desk.clock.advance(300)
    desk.report(POD)
    assert len(desk.server.created) == 1
    (again,) = desk.server.repeated
    assert again.name == desk.server.created[0].name
    assert again.count == 4, "those held back count"
    assert again.last_wall - again.first_wall == 300


@pytest.mark.parametrize(
    ("about", "reason", "message", "sent"),
    [
        pytest.param(POD, "ScaleDown", "other", 1, id="another message does not open the bucket"),
        pytest.param(POD, "ScaleDownFailed", "m", 2, id="another reason has its own bucket"),
        pytest.param(NODE, "ScaleDown", "m", 2, id="another object has its own bucket"),
        pytest.param(Subject("Pod", "web-1", "shop", uid="u2"), "ScaleDown", "m", 2, id="a pod of the same name too"),
    ],
)
def test_buckets(desk: Desk, about: Subject, reason: str, message: str, sent: int) -> None:
    desk.report(POD, "ScaleDown", "m")
    desk.report(about, reason, message)
    assert len(desk.server.created) == sent


def test_events_on_the_status_object_go_by_message(desk: Desk) -> None:
    for message in ("group a 1->2", "group b 1->2", "group a 1->2"):
        desk.report(STATUS, "ScaledUpGroup", message)
    assert [event.message for event in desk.server.created] == ["group a 1->2", "group b 1->2"]


def test_duplicates_go_out_when_asked_for() -> None:
    desk = Desk(duplicates=True)
    for _ in range(30):
        desk.report(POD)
    assert len(desk.server.created) + len(desk.server.repeated) == 25
    assert desk.server.repeated[-1].count == 25


def test_a_full_queue_drops_the_oldest() -> None:
    desk = Desk(queue_size=2)
    for number in range(5):
        desk.recorder.event(Subject("Node", f"n{number}"), EventType.NORMAL, "ScaleDown", "m")
    desk.executor.run()
    assert [event.about.name for event in desk.server.created] == ["n3", "n4"]
    assert desk.dropped.count == 3


@pytest.mark.parametrize(
    ("failures", "created", "dropped", "slept"),
    [
        pytest.param([RetryLater("busy"), RetryLater("busy", 7)], 1, 0, [1.0, 7], id="busy twice, then fine"),
        pytest.param([RetryLater("busy")] * 3, 0, 1, [1.0, 2.0], id="busy three times"),
        pytest.param([Refused("forbidden", 403)], 0, 1, [], id="refused"),
        pytest.param([RetryLater("time-out"), Conflict("exists")], 0, 0, [1.0], id="had got through after all"),
        pytest.param([ValueError("bug")], 0, 1, [], id="unexpected"),
    ],
)
def test_failures(failures: list[Exception], created: int, dropped: int, slept: list[float]) -> None:
    desk = Desk(*failures)
    desk.report(POD)
    assert len(desk.server.created) == created
    assert desk.dropped.count == dropped
    assert desk.executor.slept == slept
    desk.report(NODE)
    assert desk.server.created[-1].about == NODE, "the next one is written"


def test_a_long_message_is_cut(desk: Desk) -> None:
    desk.report(POD, message="x" * 5000)
    assert len(desk.server.created[0].message) == 1024


def test_names_are_unique_and_fit(desk: Desk) -> None:
    long = Subject("Node", "n" * 253)
    desk.report(long, "A")
    desk.report(long, "B")
    names = [event.name for event in desk.server.created]
    assert len(set(names)) == 2
    assert max(len(name) for name in names) <= 253


def test_the_tail_keeps_what_was_let_through(desk: Desk) -> None:
    desk.report(POD)
    desk.report(POD)
    desk.report(NODE, message="gone")
    assert [(one.about, one.message) for one in desk.recorder.tail()] == [("Pod shop/web-1", "m"), ("Node n1", "gone")]


def test_nothing_is_taken_after_the_stop(desk: Desk) -> None:
    assert desk.recorder.stop(wait_s=0)
    desk.report(POD)
    assert desk.server.attempts == 0


def test_a_stop_that_runs_out_of_time_gives_up_the_rest(desk: Desk) -> None:
    desk.recorder.event(POD, EventType.NORMAL, "ScaleDown", "m")
    assert not desk.recorder.stop(wait_s=0)
    assert desk.dropped.count == 1


def test_a_stop_waits_for_the_writer() -> None:
    class Slow(Server):
        def __init__(self) -> None:
            super().__init__()
            self.release = threading.Event()

        def create_event(self, event: EventRecord) -> None:
            assert self.release.wait(10)
            super().create_event(event)

    server, clock, executor, dropped = Slow(), VirtualClock(), ThreadExecutor(1), Dropped()
    recorder = EventRecorder(server, executor, clock, Correlator(STATUS), dropped)
    recorder.event(POD, EventType.NORMAL, "ScaleDown", "m")
    recorder.event(NODE, EventType.NORMAL, "ScaleDown", "m")
    assert server.created == []
    server.release.set()
    assert recorder.stop(wait_s=10)
    executor.stop()
    assert [event.about for event in server.created] == [POD, NODE]


def test_the_memory_is_bounded() -> None:
    correlator = Correlator(None, size=10)
    desk = Desk()
    recorder = EventRecorder(desk.server, desk.executor, desk.clock, correlator, desk.dropped)
    for number in range(50):
        recorder.event(Subject("Node", f"n{number}"), EventType.NORMAL, "ScaleDown", "m")
    desk.executor.run()
    recorder.event(Subject("Node", "n0"), EventType.NORMAL, "ScaleDown", "m")
    desk.executor.run()
    assert len(desk.server.created) == 51, "the first key was forgotten"


def test_collected_events_only_remember() -> None:
    events = CollectedEvents(VirtualClock(wall=5.0))
    events.event(NODE, EventType.WARNING, "ScaleDownFailed", "no")
    assert [(one.at, one.kind, one.about) for one in events.all] == [(5.0, "Warning", "Node n1")]
