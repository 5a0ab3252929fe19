"""When the next pass runs: waits are real and bounded, the time of day is virtual."""

import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from autoscaler.app.loop_trigger import LoopTrigger
from autoscaler.clock import VirtualClock
from autoscaler.config.process import Loop
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.pod import Pod
from autoscaler.observe.report import PassReport, PendingPods
from tests.builders import a_pod

PATIENCE_S = 30.0
A_MOMENT_S = 0.1
NOW = 1_700_000_000.0
HOURLY = Loop(scan_interval_s=3600.0, min_pass_interval_s=0.0)


def a_clock() -> VirtualClock:
    return VirtualClock(wall=NOW, mono=1000.0)


def refused(seconds_ago: float, reason: str = "Unschedulable") -> Pod:
    """Return a pod that the scheduler found no node for, so long ago."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    return a_pod(status={"conditions": [{**condition, "lastTransitionTime": rfc3339(NOW - seconds_ago)}]})


def a_pass(clock: VirtualClock, *, acted: bool = False, too_new_until: float | None = None) -> PassReport:
    """Return a pass that has just begun."""
    pods = PendingPods(too_new_until=too_new_until)
    return PassReport(now=clock.now(), requests_served=int(acted), pods=pods)


class Waiting:
    """A wait on a thread of its own."""

    def __init__(
        self,
        pace: LoopTrigger,
        clock: VirtualClock,
        *,
        acted: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        self._pace = pace
        self._meanwhile = meanwhile
        self._ended = a_pass(clock, acted=acted)
        self.goes_on: bool | None = None
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        self.goes_on = self._pace.wait(self._ended, meanwhile=self._meanwhile)

    def ended(self, within_s: float = PATIENCE_S) -> bool:
        self._thread.join(within_s)
        return not self._thread.is_alive()


@pytest.fixture
def clock() -> VirtualClock:
    return a_clock()


@pytest.fixture
def hourly(clock: VirtualClock) -> Iterator[LoopTrigger]:
    pace = LoopTrigger(HOURLY, clock)
    yield pace
    pace.stop()


def test_a_pass_that_took_longer_than_the_interval_is_followed_at_once(
    clock: VirtualClock, hourly: LoopTrigger
) -> None:
    ended = a_pass(clock)
    clock.advance(3600)
    assert hourly.wait(ended)


@pytest.mark.parametrize("before", [True, False], ids=["while the pass ran", "during the wait"])
def test_a_pod_that_just_became_unschedulable_cuts_the_wait_short(
    clock: VirtualClock, hourly: LoopTrigger, before: bool
) -> None:
    if before:
        hourly.changed(None, refused(seconds_ago=9))
    waiting = Waiting(hourly, clock)
    if not before:
        hourly.changed(a_pod(), refused(seconds_ago=9))
    assert waiting.ended()
    assert waiting.goes_on is True


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(refused(seconds_ago=11), id="an old verdict"),
        pytest.param(refused(seconds_ago=1, reason="SchedulingGated"), id="a gated pod"),
        pytest.param(a_pod(unschedulable=True), id="a verdict without a time"),
        pytest.param(a_pod(node="n1"), id="a pod that found a node"),
        pytest.param(None, id="a pod that went away"),
    ],
)
def test_nothing_else_cuts_it_short(clock: VirtualClock, hourly: LoopTrigger, pod: Pod | None) -> None:
    hourly.changed(a_pod(), pod)
    waiting = Waiting(hourly, clock)
    assert not waiting.ended(A_MOMENT_S)


def test_one_waking_shortens_one_wait(clock: VirtualClock, hourly: LoopTrigger) -> None:
    hourly.changed(None, refused(seconds_ago=0))
    assert hourly.wait(a_pass(clock))
    assert not Waiting(hourly, clock).ended(A_MOMENT_S)


def test_after_a_pass_that_acted_there_is_no_wait(clock: VirtualClock, hourly: LoopTrigger) -> None:
    assert hourly.wait(a_pass(clock, acted=True))


def test_without_frequent_loops_neither_pods_nor_acts_count(clock: VirtualClock) -> None:
    pace = LoopTrigger(Loop(scan_interval_s=3600.0, frequent_loops_enabled=False), clock)
    pace.changed(None, refused(seconds_ago=0))
    waiting = Waiting(pace, clock, acted=True)
    assert not waiting.ended(A_MOMENT_S)
    pace.stop()
    assert waiting.ended()


def test_passes_keep_their_distance_whatever_happens(clock: VirtualClock) -> None:
    pace = LoopTrigger(Loop(scan_interval_s=3600.0, min_pass_interval_s=60.0), clock)
    pace.changed(None, refused(seconds_ago=0))
    waiting = Waiting(pace, clock, acted=True)
    assert not waiting.ended(A_MOMENT_S)
    pace.stop()
    assert waiting.ended()
    assert waiting.goes_on is False


@pytest.mark.parametrize("before", [True, False], ids=["before it began", "while it lasts"])
def test_stopping_ends_the_wait(clock: VirtualClock, hourly: LoopTrigger, before: bool) -> None:
    if before:
        hourly.stop()
    waiting = Waiting(hourly, clock)
    if not before:
        hourly.stop()
    assert waiting.ended()
    assert waiting.goes_on is False


def test_an_interruption_has_something_done_and_does_not_end_the_wait(clock: VirtualClock, hourly: LoopTrigger) -> None:
    done = threading.Semaphore(0)
    waiting = Waiting(hourly, clock, meanwhile=done.release)
    assert done.acquire(timeout=PATIENCE_S), "done at the beginning, for those who asked while the pass ran"
    hourly.interrupt()
    assert done.acquire(timeout=PATIENCE_S)
    assert not waiting.ended(A_MOMENT_S)


def test_passes_that_follow_each_other_at_once_leave_room_for_what_is_done_between_them(
    clock: VirtualClock, hourly: LoopTrigger
) -> None:
    done: list[bool] = []
    hourly.interrupt()
    assert hourly.wait(a_pass(clock, acted=True), meanwhile=lambda: done.append(True))
    assert done == [True]


def test_interruptions_without_end_do_not_hold_the_next_pass_back(clock: VirtualClock, hourly: LoopTrigger) -> None:
    def interrupt_again() -> None:
        clock.advance(600)
        hourly.interrupt()

    assert hourly.wait(a_pass(clock), meanwhile=interrupt_again)
    assert clock.now().mono == 1000 + 3600


def test_when_the_next_pass_is_due_can_be_asked_without_waiting(clock: VirtualClock) -> None:
    pace = LoopTrigger(Loop(scan_interval_s=60.0, min_pass_interval_s=5.0), clock)
    assert (pace.due(a_pass(clock)), pace.due(a_pass(clock, acted=True))) == (1060, 1005)
    pace.changed(None, refused(seconds_ago=0))
    assert pace.due(a_pass(clock)) == 1005
    pace.begins()
    assert pace.due(a_pass(clock)) == 1060


def test_what_a_pass_without_effect_would_have_done_brings_no_pass_forward(clock: VirtualClock) -> None:
    pace = LoopTrigger(Loop(scan_interval_s=60.0, dry_run=True), clock)
    assert pace.due(a_pass(clock, acted=True)) == 1060


@pytest.mark.parametrize(
    ("until_s", "options", "after_s"),
    [
        pytest.param(1.5, {}, 1.51, id="as soon as they are old enough"),
        pytest.param(0.5, {}, 1.0, id="not before passes may follow each other"),
        pytest.param(3600.0, {}, 60.0, id="a clock that is ahead delays no regular pass"),
        pytest.param(1.5, {"frequent_loops_enabled": False}, 60.0, id="not without frequent loops"),
    ],
)
def test_pods_that_were_too_new_get_a_pass_when_they_no_longer_are(
    clock: VirtualClock, until_s: float, options: Mapping[str, bool], after_s: float
) -> None:
    pace = LoopTrigger(Loop(scan_interval_s=60.0, **options), clock)
    assert pace.due(a_pass(clock, too_new_until=NOW + until_s)) == pytest.approx(1000 + after_s)
