import pytest

from autoscaler.clock import Instant
from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry.backoff import Backoffs, backed_off, expire, failed
from cloudprovider.interface import ErrorClass, InstanceError
from tests.unit.registry.pieces import NOW, STOCK_OUT

HEALTH = HealthOptions(
    initial_node_group_backoff_duration_s=300.0,
    max_node_group_backoff_duration_s=1000.0,
    node_group_backoff_reset_timeout_s=7200.0,
)


def after_failures_at(*seconds: float) -> Backoffs:
    backoffs: Backoffs = {}
    for second in seconds:
        backoffs = failed(backoffs, "web", STOCK_OUT, NOW.later(second), HEALTH)
    return backoffs


@pytest.mark.parametrize(
    ("failures", "until_s", "duration_s"),
    [
        pytest.param([0], 300, 300, id="the first failure lasts the initial duration"),
        pytest.param([0, 100], 400, 300, id="a failure within the window restarts it at the same length"),
        pytest.param([0, 300], 600, 300, id="the window's last moment belongs to it"),
        pytest.param([0, 301], 901, 600, id="a failure after the window doubles the length"),
        pytest.param([0, 301, 902], 1902, 1000, id="the length is capped"),
        pytest.param([0, 301, 500], 1100, 600, id="a doubled window restarts doubled"),
    ],
)
def test_windows(failures: list[float], until_s: float, duration_s: float) -> None:
    backoff = after_failures_at(*failures)["web"]
    assert (backoff.until, backoff.duration_s) == (NOW.later(until_s), duration_s)


@pytest.mark.parametrize(
    ("at_s", "held"),
    [
        pytest.param(0, True, id="at once"),
        pytest.param(300, True, id="at its last moment"),
        pytest.param(300.001, False, id="just after"),
    ],
)
def test_a_group_is_backed_off_until_the_window_ends(at_s: float, held: bool) -> None:
    backoffs = after_failures_at(0)
    assert (backed_off(backoffs, "web", NOW.later(at_s)) is not None) is held
    assert backed_off(backoffs, "other", NOW.later(at_s)) is None


def test_a_jump_of_the_wall_clock_ends_no_window() -> None:
    jumped = Instant(NOW.wall + 10**6, NOW.mono + 1)
    assert backed_off(after_failures_at(0), "web", jumped) is not None


@pytest.mark.parametrize(
    ("at_s", "kept"),
    [
        pytest.param(7200, True, id="kept up to the reset time-out"),
        pytest.param(7201, False, id="forgotten after it"),
    ],
)
def test_old_failures_are_forgotten(at_s: float, kept: bool) -> None:
    assert ("web" in expire(after_failures_at(0), NOW.later(at_s), HEALTH)) is kept


def test_a_forgotten_group_starts_from_the_initial_duration() -> None:
    backoffs = expire(after_failures_at(0, 301), NOW.later(301 + 7201), HEALTH)
    assert failed(backoffs, "web", STOCK_OUT, NOW.later(8000), HEALTH)["web"].duration_s == 300


@pytest.mark.parametrize(
    ("length", "message"),
    [
        pytest.param(500, "x" * 500, id="short enough"),
        pytest.param(501, "x" * 500 + "<truncated>", id="cut"),
    ],
)
def test_long_messages_are_cut(length: int, message: str) -> None:
    error = InstanceError(ErrorClass.OTHER, "code", "x" * length)
    kept = failed({}, "web", error, NOW, HEALTH)["web"].error
    assert (kept.error_class, kept.code, kept.message) == (ErrorClass.OTHER, "code", message)


def test_the_given_backoffs_stay_as_they_are() -> None:
    before = after_failures_at(0)
    failed(before, "web", STOCK_OUT, NOW.later(50), HEALTH)
    assert before["web"].last_failure == NOW
