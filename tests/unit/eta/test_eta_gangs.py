"""When gangs can start: with the slowest pod that they need."""

import pytest

from autoscaler.eta.estimate import StartEstimate, WaitLevel, unknown
from autoscaler.eta.gangs import gang_start, together
from autoscaler.reasons import UnknownStart
from autoscaler.scaleup.gangs import WaitingGang


def starts(expected_s: float, worst_s: float, level: WaitLevel = WaitLevel.PLANNED) -> StartEstimate:
    return StartEstimate(level=level, expected_s=expected_s, worst_s=worst_s)


ROOM, NEW, SLOW = starts(5, 9, WaitLevel.ROOM), starts(60, 90), starts(180, 300)
LEFT = starts(10, 10, WaitLevel.QUEUE)


@pytest.mark.parametrize(
    ("wanted", "running", "pods", "expected"),
    [
        pytest.param(2, 0, [ROOM, NEW], (60, 90), id="the slowest decides"),
        pytest.param(2, 0, [SLOW, ROOM, NEW], (60, 90), id="one that it does not need does not count"),
        pytest.param(3, 1, [ROOM, NEW], (60, 90), id="pods that run count"),
        pytest.param(3, 0, [ROOM, NEW], (None, None), id="too few are known"),
        pytest.param(2, 0, [NEW, unknown(UnknownStart.MAX_SIZE)], (None, None), id="one is not known"),
        pytest.param(2, 0, [NEW, LEFT], (None, None), id="room that others may leave is not certain"),
    ],
)
def test_when_a_gang_can_start(
    wanted: int, running: int, pods: list[StartEstimate], expected: tuple[float | None, float | None]
) -> None:
    start = gang_start(WaitingGang("ns/job", wanted, running, len(pods)), pods)
    assert (start.expected_s, start.worst_s) == expected
    assert (start.reason is None) is (start.expected_s is not None)


def test_a_pod_waits_for_its_gang() -> None:
    gang = gang_start(WaitingGang("ns/job", 2, 0, 2), [ROOM, NEW])
    waiting = together(ROOM, gang)
    assert (waiting.expected_s, waiting.worst_s) == (60, 90)
    assert (waiting.terms["gang"].expected, waiting.terms["gang"].worst) == (55, 81)
    assert together(NEW, gang) is NEW
    assert together(SLOW, gang) is SLOW


def test_no_pod_of_a_gang_that_cannot_start_has_an_estimate() -> None:
    gang = gang_start(WaitingGang("ns/job", 2, 0, 2), [ROOM, unknown(UnknownStart.MAX_SIZE)])
    assert together(ROOM, gang) == unknown(UnknownStart.MAX_SIZE)
