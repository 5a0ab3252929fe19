"""Companions: what they are shown, when they act, and that their faults stay theirs."""

import pytest

from autoscaler.app.companion_ticker import start_ticking
from autoscaler.clock import Instant, VirtualClock
from autoscaler.errors import RetryLater
from autoscaler.kube.election import Unopposed
from autoscaler.loop.companion import Companion, Companions
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.stages import Observed
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import ScaleUpResult
from autoscaler.simulator.executor import VirtualExecutor
from tests.unit.loop.loop_world import LoopWorld, a_spec, waiting


class Diary(Companion):
    """A companion that notes what it is shown."""

    def __init__(
        self, name: str = "diary", interval_s: float | None = 10.0, *, raises: Exception | None = None
    ) -> None:
        self.name = name
        self._interval_s = interval_s
        self.entries: list[str] = []
        self.ticks: list[float] = []
        self._raises = raises

    @property
    def interval_s(self) -> float | None:
        return self._interval_s

    def _note(self, entry: str) -> None:
        self.entries.append(entry)
        if self._raises is not None:
            raise self._raises

    def before_pass(self, observed: Observed) -> Observed:
        self._note(f"before: {len(observed.view.pending)} pending")
        return observed

    def after_pass(self, ended: EndedPass) -> None:
        self._note(f"after: {ended.report.scale_up.result}")

    def tick(self, now: Instant) -> None:
        self.ticks.append(now.mono)
        self._note("tick")

    def leave(self) -> None:
        self._note("leave")


class Partly:
    """Leads until some moment."""

    def __init__(self, until: float) -> None:
        self._until = until

    def may_write(self, now: Instant, takes_s: float) -> bool:
        return now.mono + takes_s < self._until


def test_companions_see_the_observed_cluster_and_the_end_of_a_pass() -> None:
    diary = Diary()
    world = LoopWorld(a_spec("web"), companions=Companions([diary]))
    world.submit(waiting("a"))
    world.run()
    assert diary.entries == ["before: 1 pending", f"after: {ScaleUpResult.SUCCESSFUL}"]


def test_a_pass_that_cannot_observe_is_shown_only_at_its_end() -> None:
    diary = Diary()
    world = LoopWorld(a_spec("web"), companions=Companions([diary]))
    world.unreachable = "away"
    assert world.run().end is PassEnd.FAILED
    assert diary.entries == ["after: None"]


@pytest.mark.parametrize("error", [RetryLater("later"), ValueError("a bug")], ids=["expected", "a bug"])
def test_a_companion_that_fails_stops_neither_the_pass_nor_the_next_companion(error: Exception) -> None:
    failed: list[str] = []
    bad, good = Diary("bad", raises=error), Diary("good")
    world = LoopWorld(a_spec("web"), companions=Companions([bad, good], failed.append))
    world.submit(waiting("a"))
    assert world.run().scale_up.result is ScaleUpResult.SUCCESSFUL
    assert len(good.entries) == 2
    assert failed == ["bad", "bad"]
    world.autoscaler.close()


class TestRounds:
    def test_each_companion_ticks_at_its_own_interval(self) -> None:
        clock = VirtualClock()
        quick, slow, none = Diary("quick", 10.0), Diary("slow", 25.0), Diary("none", None)
        with VirtualExecutor(clock) as executor:
            start_ticking(Companions([quick, slow, none]), executor, clock, Unopposed())
            executor.run_until(30.0)
        assert (quick.ticks, slow.ticks, none.ticks) == ([0, 10, 20, 30], [0, 25], [])

    def test_a_tick_that_fails_is_tried_again_and_counted(self) -> None:
        clock, failed = VirtualClock(), list[str]()
        bad = Diary("bad", 10.0, raises=RetryLater("later"))
        with VirtualExecutor(clock) as executor:
            start_ticking(Companions([bad], failed.append), executor, clock, Unopposed())
            executor.run_until(20.0)
        assert bad.ticks == [0, 10, 20]
        assert failed == ["bad"] * 3

    def test_nothing_ticks_once_the_lease_has_run_out(self) -> None:
        clock, diary = VirtualClock(), Diary()
        with VirtualExecutor(clock) as executor:
            start_ticking(Companions([diary]), executor, clock, Partly(until=15.0))
            executor.run_until(60.0)
        assert diary.ticks == [0, 10]


def test_leaving_reaches_every_companion() -> None:
    bad, good = Diary("bad", raises=RetryLater("away")), Diary("good")
    Companions([bad, good]).leave()
    assert (bad.entries, good.entries) == (["leave"], ["leave"])
