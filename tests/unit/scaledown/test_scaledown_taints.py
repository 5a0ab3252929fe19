import pytest

from autoscaler.clock import Instant
from autoscaler.scaledown.memory import seeded
from autoscaler.scaledown.taints import SoftTaint, being_deleted, plan_soft_taints, taint_time
from autoscaler.snapshot.groups import Groups
from tests.builders import a_node
from tests.unit.scaledown.pieces import NOW

SOFT, HARD = "DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler"


@pytest.mark.parametrize(
    ("taint", "time"),
    [
        pytest.param(f"{HARD}=1700000000", 1_700_000_000.0, id="seconds"),
        pytest.param(f"{HARD}=", None, id="nothing"),
        pytest.param(f"{HARD}=soon", None, id="words"),
        pytest.param(f"{HARD}=-5", None, id="a sign"),
        pytest.param(f"{HARD}=٣", None, id="digits of other scripts"),
        pytest.param(f"{SOFT}=1700000000", None, id="another taint"),
    ],
)
def test_taint_time(taint: str, time: float | None) -> None:
    assert taint_time(a_node(taints=[taint]), HARD) == time


@pytest.mark.parametrize(
    ("seconds_ago", "deleted"), [(0.0, True), (299.0, True), (300.0, False), (-60.0, True)], ids=str
)
def test_being_deleted(seconds_ago: float, deleted: bool) -> None:
    node = a_node(taints=[f"{HARD}={int(NOW.wall - seconds_ago)}"])
    assert being_deleted(node, NOW.wall) is deleted


NODES = [
    a_node("unneeded"),
    a_node("known", taints=[f"{SOFT}=5:PreferNoSchedule"]),
    a_node("needed", taints=[f"{SOFT}=5:PreferNoSchedule"]),
    a_node("needed-too", taints=[f"{SOFT}=5:PreferNoSchedule"]),
    a_node("leaving", taints=[f"{SOFT}=5:PreferNoSchedule", f"{HARD}=5"]),
    a_node("leaving-bare", taints=[f"{HARD}=5"]),
    a_node("foreign", taints=[f"{SOFT}=5:PreferNoSchedule"]),
    a_node("plain"),
]
GROUPS = Groups(of_node={node.name: "g" for node in NODES if node.name != "foreign"})
UNNEEDED = {name: NOW.later(-90.5) for name in ("unneeded", "known", "leaving-bare", "foreign", "gone")}


@pytest.mark.parametrize(
    ("most", "untaint", "taint"),
    [
        pytest.param(None, ["needed", "needed-too"], ["unneeded"], id="everything"),
        pytest.param(3, ["needed", "needed-too"], ["unneeded"], id="just enough"),
        pytest.param(2, ["needed", "needed-too"], [], id="taints that are wrong go first"),
        pytest.param(1, ["needed"], [], id="one at a time"),
        pytest.param(0, [], [], id="nothing"),
    ],
)
def test_soft_taints(most: int | None, untaint: list[str], taint: list[str]) -> None:
    plan = plan_soft_taints(NODES, GROUPS, UNNEEDED, most)
    assert list(plan.untaint) == untaint
    assert list(plan.taint) == [SoftTaint(name, int(NOW.wall - 90.5)) for name in taint]


@pytest.mark.parametrize(
    ("age_s", "ttl_s", "since"),
    [
        pytest.param(100.0, 1800.0, NOW.later(-100), id="a recent taint gives its node its time back"),
        pytest.param(1800.0, 1800.0, NOW.later(-1800), id="as old as it may be"),
        pytest.param(1801.0, 1800.0, None, id="too old"),
        pytest.param(100.0, 0.0, None, id="switched off"),
        pytest.param(-100.0, 1800.0, NOW, id="a time to come counts as now"),
    ],
)
def test_unneeded_times_survive_a_restart(age_s: float, ttl_s: float, since: Instant | None) -> None:
    node = a_node("n", taints=[f"{SOFT}={int(NOW.wall - age_s)}:PreferNoSchedule"])
    assert seeded([node, a_node("plain")], ttl_s, NOW).unneeded == ({} if since is None else {"n": since})


def test_a_restart_changes_nothing() -> None:
    """What one process marks, the next one reads back: the time counts on."""
    plan = plan_soft_taints([a_node("n")], Groups(of_node={"n": "g"}), {"n": NOW.later(-90)}, None)
    marked = a_node("n", taints=[f"{SOFT}={plan.taint[0].since}:PreferNoSchedule"])
    restarted = Instant(wall=NOW.wall + 20, mono=7.0)
    assert seeded([marked], 1800.0, restarted).unneeded["n"] == restarted.later(-110)
