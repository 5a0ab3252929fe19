import msgspec
import pytest

from autoscaler.clock import Instant, VirtualClock
from autoscaler.config.process import Loop
from autoscaler.observe.http.health import (
    ApiServerHealth,
    HealthCheck,
    LoopActivity,
    StuckLimits,
    limits_of,
    liveness,
    readiness,
)
from autoscaler.observe.metrics.watches import WatchFigures

LIMITS = StuckLimits(max_inactivity_s=600, max_failing_time_s=900, max_startup_time_s=1200)
ZERO = Instant(1e9, 0.0)


def after(seconds: float) -> Instant:
    return ZERO.later(seconds)


def activity(
    last_activity: float, last_success: float, *, monitored: bool = True, succeeded: bool = True
) -> LoopActivity:
    return LoopActivity(after(last_activity), after(last_success), monitored, succeeded)


@pytest.mark.parametrize(
    ("state", "now_s", "alive", "ready"),
    [
        pytest.param(activity(0, 0, monitored=False, succeeded=False), 9e9, True, True, id="standby is always fine"),
        pytest.param(activity(0, 0), 600, True, True, id="idle exactly as long as allowed"),
        pytest.param(activity(0, 0), 600.1, False, False, id="idle too long"),
        pytest.param(activity(900, 0), 900, True, True, id="failing exactly as long as allowed"),
        pytest.param(activity(900, 0), 901, False, False, id="active but failing too long"),
        pytest.param(activity(0, 0, succeeded=False), 1200, True, False, id="the first pass may take longer"),
        pytest.param(activity(1200, 0, succeeded=False), 1201, False, False, id="but not for ever"),
    ],
)
def test_health(state: LoopActivity, now_s: float, alive: bool, ready: bool) -> None:
    assert liveness(state, LIMITS, after(now_s)).ok is alive
    assert readiness(state, LIMITS, after(now_s)).ok is ready


def test_without_start_up_limit_the_first_pass_has_the_usual_ones() -> None:
    limits = StuckLimits(600, 900)
    assert not liveness(activity(0, 0, succeeded=False), limits, after(601)).ok


def test_the_answer_tells_both_ages() -> None:
    verdict = liveness(activity(100, 0), LIMITS, after(1000))
    assert verdict.text == "Error: last activity more than 900.0s ago, last success more than 1000.0s ago"


def test_the_start_up_limit_is_the_longest_of_the_three() -> None:
    loop = Loop(max_inactivity_s=600, max_failing_time_s=3000, max_startup_time_s=1200)
    assert limits_of(loop, startup_limit=True) == StuckLimits(600, 3000, 3000)
    assert limits_of(loop, startup_limit=False).max_startup_time_s is None


def test_a_life_in_virtual_time() -> None:
    clock = VirtualClock(wall=1e9)
    check = HealthCheck(LIMITS, clock.now())
    clock.advance(5000)
    assert check.alive(clock.now()).ok, "waiting for the lease"
    check.start_monitoring(clock.now())
    assert check.alive(clock.now()).ok, "limits count from the start of monitoring"
    assert not check.ready(clock.now()).ok
    clock.advance(1100)
    check.pass_started(clock.now())
    check.pass_succeeded(clock.now())
    assert check.ready(clock.now()).ok
    clock.advance(599)
    check.pass_started(clock.now())
    clock.advance(302)
    assert not check.alive(clock.now()).ok, "passes run but none has succeeded for 901 s"
    check.pass_succeeded(clock.now())
    assert check.alive(clock.now()).ok


def test_a_clock_jump_makes_nothing_unhealthy() -> None:
    jumped = msgspec.structs.replace(after(10), wall=5e9)
    assert liveness(activity(0, 0), LIMITS, jumped).ok


@pytest.mark.parametrize(
    ("heard", "says"),
    [
        pytest.param(WatchFigures(silent_s=170.0), "", id="a quiet kind"),
        pytest.param(
            WatchFigures(silent_s=181.0), "nothing about /api/v1/nodes for 181s", id="silent beyond the limit"
        ),
        pytest.param(WatchFigures(silent_s=60.0, failing_s=1.0, error="refused"), "", id="fails for a moment"),
        pytest.param(
            WatchFigures(silent_s=45.0, failing_s=44.0, error="refused"), "for 45s: refused", id="fails on and on"
        ),
        pytest.param(WatchFigures(failing_s=600.0, error="refused"), "", id="never heard of: it is not synced yet"),
    ],
)
def test_readiness_and_page_tell_of_an_api_server_that_is_away(heard: WatchFigures, says: str) -> None:
    limits = msgspec.structs.replace(LIMITS, max_watch_silence_s=180.0)
    check = HealthCheck(
        limits, after(0), lambda _: ApiServerHealth({"/api/v1/nodes": heard, "/api/v1/pods": WatchFigures()})
    )
    assert check.alive(after(1)).ok
    verdict = check.ready(after(1))
    assert verdict.ok is (not says)
    assert says in verdict.text
    assert len(check.complaints(after(1))) == bool(says)


@pytest.mark.parametrize(
    ("ahead_s", "says"),
    [(None, []), (60.0, []), (-60.0, []), (61.0, ["61s ahead of"]), (-3600.0, ["3600s behind"])],
)
def test_the_page_tells_of_a_clock_that_is_wrong(ahead_s: float | None, says: list[str]) -> None:
    check = HealthCheck(LIMITS, after(0), lambda _: ApiServerHealth(clock_ahead_s=ahead_s))
    told = check.complaints(after(1))
    assert len(told) == len(says)
    assert all(text in line for text, line in zip(says, told, strict=True))
    assert check.ready(after(1)).ok, "it can work nonetheless"
