import msgspec
import pytest

from autoscaler.clock import Instant
from autoscaler.config.syntax import GroupLimit
from autoscaler.scaledown.memory import ScaleDownMemory, StartedRemoval, removals_begun, seeded
from autoscaler.scaledown.removal_rates import Rates
from tests.unit.scaledown.pieces import NOW

THREE = (GroupLimit(None, 3),)
TWO_OF_WEB = (GroupLimit("web", 2),)


def began(*ago: tuple[str, float]) -> ScaleDownMemory:
    """Removals of a group, so many seconds ago, oldest first."""
    return ScaleDownMemory(begun=tuple(StartedRemoval(group, NOW.later(-seconds)) for group, seconds in ago))


@pytest.mark.parametrize(
    ("limits", "memory", "count", "wait_s"),
    [
        pytest.param((), began(("web", 0), ("web", 0)), 9, 0.0, id="no limit"),
        pytest.param(THREE, began(), 3, 0.0, id="nothing has begun"),
        pytest.param(THREE, began(("web", 50), ("db", 5)), 1, 0.0, id="one is left, whatever the groups"),
        pytest.param(THREE, began(("web", 50), ("db", 5)), 2, 10.0, id="until the oldest counts no more"),
        pytest.param(THREE, began(("web", 50), ("db", 5)), 3, 55.0, id="until none counts"),
        pytest.param(THREE, began(("web", 60), ("web", 60), ("web", 59)), 2, 0.0, id="a minute ago counts no more"),
        pytest.param(THREE, began(), 4, 0.0, id="a whole group above the limit goes when nothing else did"),
        pytest.param(THREE, began(("db", 20)), 4, 40.0, id="and waits otherwise"),
        pytest.param(TWO_OF_WEB, began(("db", 1), ("db", 1), ("web", 1)), 1, 0.0, id="other groups do not count"),
        pytest.param(TWO_OF_WEB, began(("web", 30), ("web", 1)), 1, 30.0, id="those of the group do"),
        pytest.param((*THREE, *TWO_OF_WEB), began(("web", 30), ("web", 1)), 1, 30.0, id="the narrower of two limits"),
        pytest.param((*THREE, *TWO_OF_WEB), began(*[("db", 5)] * 3), 1, 55.0, id="or the wider where it is spent"),
    ],
)
def test_how_long_removals_of_web_have_to_wait(
    limits: tuple[GroupLimit, ...], memory: ScaleDownMemory, count: int, wait_s: float
) -> None:
    assert Rates(limits, memory, NOW).wait_s("web", count) == wait_s


def test_what_begins_now_counts_at_once() -> None:
    rates = Rates(THREE, began(("web", 20)), NOW)
    rates.take("db", 2)
    assert (rates.wait_s("db", 1), rates.wait_s("db", 2)) == (40.0, 60.0)


def test_a_process_that_has_just_started_counts_as_having_spent_its_limits() -> None:
    memory = seeded((), 0.0, NOW)
    assert Rates(THREE, memory, NOW.later(20)).wait_s("web", 1) == 40.0
    assert Rates(THREE, memory, NOW.later(60)).wait_s("web", 3) == 0.0


def test_only_the_last_minute_is_remembered() -> None:
    memory = removals_begun(began(("web", 60), ("web", 59)), ["db", "web"], NOW)
    assert memory.begun == (
        StartedRemoval("web", NOW.later(-59)),
        StartedRemoval("db", NOW),
        StartedRemoval("web", NOW),
    )


def test_a_wall_clock_that_jumps_frees_no_limit() -> None:
    memory = msgspec.structs.replace(began(("web", 10)), since=NOW.later(-30))
    jumped = Instant(wall=NOW.wall + 86400, mono=NOW.mono)
    assert Rates((GroupLimit(None, 1),), memory, jumped).wait_s("web", 1) == 50.0
