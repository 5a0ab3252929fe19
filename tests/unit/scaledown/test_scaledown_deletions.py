from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.clock import Instant
from autoscaler.config.scaleup import ResourceLimits
from autoscaler.config.syntax import GroupLimit, Range
from autoscaler.config.windows import parse_window
from autoscaler.objects.pod import SAFE_TO_EVICT
from autoscaler.reasons import UnremovableReason
from autoscaler.scaledown.deletions import plan_deletions
from autoscaler.scaledown.memory import ScaleDownMemory
from autoscaler.scaledown.memory import StartedRemoval as BegunRemoval
from autoscaler.scaledown.plan import NodesToDelete, Removal, UnneededNodes
from autoscaler.snapshot.groups import Group
from tests.builders import a_budget, a_group, a_node, a_pod, a_template
from tests.unit.scaledown.pieces import NEW, NOW, OLD, Begun, Cluster, a_removal, group_with, names

WEB = {"app": "web"}
LONG = 601.0


def plan(
    removals: list[Removal],
    *,
    groups: list[Group] | None = None,
    cluster: Cluster | None = None,
    waited_s: dict[str, float] | None = None,
    upcoming: int = 0,
    begun: Sequence[BegunRemoval] = (),
    max_drain_parallelism: int = 10,
    **about: Any,
) -> NodesToDelete:
    """Which of these unneeded nodes go now; all have waited long enough unless `waited_s` says otherwise."""
    since = {removal.node.name: NOW.later(-(waited_s or {}).get(removal.node.name, LONG)) for removal in removals}
    if cluster is None:
        nodes = [removal.node for removal in removals]
        of_node = {removal.node.name: removal.group for removal in removals}
        cluster = Cluster(nodes, groups=groups or [a_group("g", target=len(removals))], of_node=of_node)
    trial = cluster.trial()
    if upcoming:
        trial.add(a_template(a_node("template")), upcoming, "upcoming-")
    update = UnneededNodes(memory=ScaleDownMemory(unneeded=since, begun=tuple(begun)), unneeded=tuple(removals))
    return plan_deletions(update, trial, cluster.situation(max_drain_parallelism=max_drain_parallelism, **about))


def why(plan: NodesToDelete) -> dict[str, UnremovableReason]:
    return {name: kept.reason for name, kept in plan.kept.items()}


@pytest.mark.parametrize(
    ("waited_s", "ready", "about", "settings", "reason"),
    [
        pytest.param(601.0, True, {}, {}, None, id="longer than ten minutes"),
        pytest.param(
            600.0, True, {}, {}, UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH, id="exactly ten minutes is too short"
        ),
        pytest.param(1200.0, False, {}, {}, UnremovableReason.NOT_UNREADY_LONG_ENOUGH, id="unready nodes wait twenty"),
        pytest.param(1201.0, False, {}, {}, None, id="longer than twenty"),
        pytest.param(61.0, True, {"scale_down_unneeded_time_s": 60.0}, {}, None, id="as the flag says"),
        pytest.param(61.0, True, {}, {"scale_down_unneeded_time_s": 60.0}, None, id="or the group"),
        pytest.param(
            61.0,
            True,
            {"scale_down_unneeded_time_s": 60.0},
            {"scale_down_unneeded_time_s": 90.0},
            UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH,
            id="which goes before the flag",
        ),
        pytest.param(1.0, True, {}, {"scale_down_unneeded_time_s": 0.0}, None, id="a group may not wait at all"),
        pytest.param(61.0, False, {}, {"scale_down_unready_time_s": 60.0}, None, id="unready nodes have their own"),
    ],
)
def test_waiting(
    waited_s: float, ready: bool, about: dict[str, Any], settings: dict[str, Any], reason: UnremovableReason | None
) -> None:
    found = plan(
        [a_removal("n", ready=ready)], waited_s={"n": waited_s}, groups=[group_with(target=1, **settings)], **about
    )
    assert (names(found.empty), found.kept["n"].reason if found.kept else None) == (["n"] if not reason else [], reason)


def test_a_node_that_waits_is_told_how_long() -> None:
    kept = plan([a_removal("n")], waited_s={"n": 90.0}).kept["n"]
    assert (kept.detail, kept.utilization) == ("unneeded for 90s of 600s", 0.1)


@pytest.mark.parametrize(
    ("target", "minimum", "under_way", "going"),
    [
        pytest.param(3, 0, {}, 3, id="all may go"),
        pytest.param(3, 2, {}, 1, id="down to the minimum"),
        pytest.param(3, 3, {}, 0, id="none at the minimum"),
        pytest.param(4, 2, {"x": "g"}, 1, id="removals under way are as good as gone"),
        pytest.param(4, 2, {"x": "other"}, 2, id="those of other groups do not matter"),
    ],
)
def test_minimum_size(target: int, minimum: int, under_way: dict[str, str], going: int) -> None:
    removals = [a_removal(name) for name in "abc"]
    groups = [a_group("g", min_size=minimum, target=target)]
    found = plan(removals, groups=groups, under_way=Begun(empty=under_way))
    assert names(found.empty) == list("abc")[:going]
    assert list(why(found).values()) == [UnremovableReason.MIN_SIZE] * (3 - going)


def test_a_node_that_must_wait_does_not_take_the_place_of_one_that_may_go() -> None:
    removals = [a_removal("a"), a_removal("b")]
    found = plan(removals, waited_s={"a": 10.0}, groups=[a_group("g", min_size=1, target=2)])
    assert names(found.empty) == ["b"]


def test_empty_nodes_go_first_then_drains_without_risk_and_the_longest_unneeded_first() -> None:
    removals = [
        a_removal("risky", drained=True, risky=True),
        a_removal("drain", drained=True),
        a_removal("young"),
        a_removal("old"),
    ]
    waited = {"risky": 9999.0, "drain": 700.0, "young": 650.0, "old": 800.0}
    found = plan(removals, waited_s=waited)
    assert (names(found.empty), names(found.drained)) == (["old", "young"], ["drain", "risky"])
    tight = plan(removals, waited_s=waited, groups=[a_group("g", min_size=1, target=4)])
    assert why(tight) == {"risky": UnremovableReason.MIN_SIZE}


FOUR_CORES = ResourceLimits(cores_total=Range(4, 1000))


@pytest.mark.parametrize(
    ("limits", "upcoming", "going"),
    [
        pytest.param(ResourceLimits(), 0, 3, id="no limits"),
        pytest.param(ResourceLimits(cores_total=Range(4, 1000)), 0, 2, id="one node's cores must remain"),
        pytest.param(ResourceLimits(cores_total=Range(5, 1000)), 0, 1, id="a little more than that"),
        pytest.param(ResourceLimits(memory_total=Range(32, 1000)), 0, 1, id="two nodes' memory must remain"),
        pytest.param(ResourceLimits(cores_total=Range(4, 1000)), 1, 3, id="upcoming nodes count"),
        pytest.param(ResourceLimits(cores_total=Range(1000, 1000)), 0, 0, id="too little to begin with"),
    ],
)
def test_minimum_resources(limits: ResourceLimits, upcoming: int, going: int) -> None:
    found = plan([a_removal(name) for name in "abc"], limits=limits, upcoming=upcoming)
    assert names(found.empty) == list("abc")[:going]
    assert list(why(found).values()) == [UnremovableReason.MINIMAL_RESOURCES] * (3 - going)


@pytest.mark.parametrize(("rules", "going"), [(NEW, ["a", "b"]), (OLD, ["a"])], ids=["newest", "1.31"])
def test_nodes_on_their_way_out_count_towards_resources_since_1_31(rules: Any, going: list[str]) -> None:
    leaving = a_node("leaving", taints=[f"ToBeDeletedByClusterAutoscaler={int(NOW.wall - 10)}"])
    removals = [a_removal("a"), a_removal("b")]
    cluster = Cluster([leaving, *(removal.node for removal in removals)], groups=[a_group("g", target=3)])
    assert names(plan(removals, cluster=cluster, limits=FOUR_CORES, rules=rules).empty) == going


def test_nodes_without_machines_do_not_count_towards_resources() -> None:
    virtual = a_node("virtual", cpu="1000", labels={"type": "virtual-kubelet"})
    removals = [a_removal("a"), a_removal("b")]
    cluster = Cluster([virtual, *(removal.node for removal in removals)], groups=[a_group("g", target=2)])
    assert names(plan(removals, cluster=cluster, limits=FOUR_CORES).empty) == ["a"]


ATOMIC: dict[str, Any] = {"zero_or_max_node_scaling": True}


@pytest.mark.parametrize(
    ("target", "nodes", "rules", "going"),
    [
        pytest.param(2, "ab", NEW, 2, id="all that was asked for"),
        pytest.param(3, "abc", NEW, 0, id="only some"),
        pytest.param(3, "ab", NEW, 2, id="all that came"),
        pytest.param(3, "ab", OLD, 0, id="in 1.31 all that was asked for"),
        pytest.param(2, "ab", OLD, 2, id="and nothing less"),
    ],
)
def test_groups_that_go_as_a_whole(target: int, nodes: str, rules: Any, going: int) -> None:
    removals = [a_removal(name, atomic=True) for name in "ab"]
    cluster = Cluster([a_node(name) for name in nodes], groups=[group_with(target=target, **ATOMIC)])
    found = plan(removals, cluster=cluster, rules=rules)
    assert len(found.empty) == going
    told = {} if going or rules is OLD else {"a": UnremovableReason.ATOMIC, "b": UnremovableReason.ATOMIC}
    assert why(found) == told


def test_a_pod_to_wait_for_holds_its_node() -> None:
    waits = a_pod("waits", annotations={SAFE_TO_EVICT: "on-completion"})
    found = plan([a_removal("a", wait_for=(waits,)), a_removal("b")])
    assert names(found.empty) == ["b"]
    assert (found.kept["a"].reason, found.kept["a"].pod) == (UnremovableReason.ON_COMPLETION, "default/waits")


def test_a_pod_to_wait_for_holds_a_group_that_goes_as_a_whole() -> None:
    waits = a_pod("waits", annotations={SAFE_TO_EVICT: "on-completion"})
    removals = [a_removal("a", atomic=True, wait_for=(waits,)), a_removal("b", atomic=True)]
    found = plan(removals, groups=[group_with(target=2, **ATOMIC)])
    assert found.empty == ()
    assert why(found)["a"] is UnremovableReason.ON_COMPLETION


def test_nodes_beyond_the_budgets_are_told() -> None:
    removals = [a_removal(name) for name in "abc"]
    found = plan(removals, max_scale_down_parallelism=1)
    assert (names(found.empty), why(found)) == (
        ["a"],
        {"b": UnremovableReason.MAX_DELETIONS, "c": UnremovableReason.MAX_DELETIONS},
    )
    assert plan(removals, max_scale_down_parallelism=1, rules=OLD).kept == {}


def test_reasons_of_the_update_are_kept() -> None:
    cluster = Cluster([a_node("a"), a_node("b")], [a_pod("full", cpu="4", node="b")])
    update = cluster.look()
    found = plan_deletions(update, cluster.trial(), cluster.situation())
    assert why(found) == {"a": UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH, "b": UnremovableReason.NOT_UNDERUTILIZED}


NOON = NOW.wall - NOW.wall % 86400 + 43200
"""NOW is at 22:13:20 UTC."""


def test_outside_the_windows_of_its_group_a_node_stays_and_is_told_for_how_long() -> None:
    removals = [a_removal("a", group="web"), a_removal("b", group="db"), a_removal("c", group="web", drained=True)]
    groups = [a_group("web", target=2), a_group("db", target=1)]
    open_now, closed = parse_window("0 22 * * *;1h"), parse_window("web=0 23 * * *;1h")
    assert NOW.wall == NOON + 10 * 3600 + 800
    found = plan(removals, groups=groups, scale_down_window=(*open_now, *closed))
    assert (names(found.empty), names(found.drained)) == (["b"], [])
    assert why(found) == {"a": UnremovableReason.OUTSIDE_WINDOW, "c": UnremovableReason.OUTSIDE_WINDOW}
    kept = found.kept["a"]
    assert (kept.detail, kept.time_left_s, kept.utilization) == ("the next window opens in 46m40s", 2800.0, 0.1)


def test_a_node_that_has_to_wait_anyway_is_told_that_and_not_of_the_window() -> None:
    found = plan([a_removal("n")], waited_s={"n": 90.0}, scale_down_window=parse_window("0 3 * * *;1h"))
    assert (why(found), found.kept["n"].time_left_s) == ({"n": UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH}, 510.0)


def test_a_jump_of_the_wall_clock_into_a_window_does_not_cut_the_unneeded_time_short() -> None:
    jumped = Instant(NOW.wall + 3600, NOW.mono)
    window = parse_window("0 23 * * *;1h")
    young = plan([a_removal("n")], waited_s={"n": 90.0}, now=jumped, scale_down_window=window)
    assert (names(young.empty), why(young)) == ([], {"n": UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH})


def test_limits_a_minute_hold_nodes_back_after_all_other_rules() -> None:
    removals = [a_removal(name, group=group) for name, group in (("a", "web"), ("b", "web"), ("c", "db"), ("d", "db"))]
    groups = [a_group("web", target=2), a_group("db", min_size=1, target=2)]
    limits = (GroupLimit(None, 3), GroupLimit("web", 1))
    found = plan(removals, groups=groups, max_node_deletions_per_minute=limits)
    assert names(found.empty) == ["a", "c"]
    assert why(found) == {"b": UnremovableReason.TOO_MANY_A_MINUTE, "d": UnremovableReason.MIN_SIZE}
    assert (found.kept["b"].detail, found.kept["b"].time_left_s) == (
        "too many removals began within a minute; the next may in 60s",
        60.0,
    )


@pytest.mark.parametrize("rules", [NEW, OLD], ids=["new", "old"])
def test_a_group_that_goes_as_a_whole_is_never_cut_by_a_limit(rules: Any) -> None:
    removals = [a_removal(name, group="whole", atomic=True) for name in "abc"] + [a_removal("single", group="g")]
    groups = [group_with("whole", target=3, zero_or_max_node_scaling=True), a_group("g", target=1)]
    found = plan(removals, groups=groups, rules=rules, max_node_deletions_per_minute=(GroupLimit(None, 2),))
    assert (names(found.empty), why(found)) == (["a", "b", "c"], {"single": UnremovableReason.TOO_MANY_A_MINUTE})
    busy = [BegunRemoval("g", NOW.later(-10))]
    later = plan(removals, groups=groups, rules=rules, begun=busy, max_node_deletions_per_minute=(GroupLimit(None, 2),))
    assert names(later.empty) == ["single"]
    assert [why(later)[name] for name in "abc"] == [UnremovableReason.TOO_MANY_A_MINUTE] * 3


def web_on(node: str, replicas: int = 1) -> Removal:
    """A node with pods of one owner that a budget may protect."""
    pods = tuple(a_pod(f"web-{node}-{number}", node=node, labels=WEB) for number in range(replicas))
    return msgspec.structs.replace(a_removal(node, drained=True), pods=pods)


@pytest.mark.parametrize(
    ("allowed", "under_way", "going"),
    [
        pytest.param(2, {}, "ab", id="the budget allows both"),
        pytest.param(1, {}, "a", id="it allows one, the other waits"),
        pytest.param(0, {}, "a", id="one may always begin: the drain itself waits for the budget"),
        pytest.param(2, {"b": "g"}, "a", id="the pod of a node under way is still to be evicted"),
        pytest.param(1, {"b": "g"}, "", id="it needs what is left"),
    ],
)
def test_drains_side_by_side_need_a_budget_for_both(allowed: int, under_way: dict[str, str], going: str) -> None:
    removals = [web_on(name) for name in "ab"]
    cluster = Cluster(
        [removal.node for removal in removals],
        [pod for removal in removals for pod in removal.pods],
        budgets=[a_budget(allowed, labels=WEB)],
    )
    waiting = [removal for removal in removals if removal.node.name not in under_way]
    found = plan(waiting, cluster=cluster, under_way=Begun(drained=under_way))
    assert names(found.drained) == list(going)
    assert set(why(found).values()) <= {UnremovableReason.SHARED_BUDGET}
    regardless = plan(waiting, cluster=cluster, under_way=Begun(drained=under_way), rules=OLD)
    assert names(regardless.drained) == names(waiting)


def test_a_node_whose_pods_must_go_one_after_the_other_is_drained_alone() -> None:
    removals = [web_on("a"), web_on("b", replicas=2)]
    cluster = Cluster([removal.node for removal in removals], budgets=[a_budget(2, labels=WEB)])
    found = plan(removals, cluster=cluster)
    assert (names(found.drained), why(found)) == (["a"], {"b": UnremovableReason.SHARED_BUDGET})


def test_costly_nodes_go_first() -> None:
    sick = a_removal("sick", group="cheap", ready=False)
    older = msgspec.structs.replace(a_removal("older", group="cheap"), node=a_node("older", created=NOW.wall - 200_000))
    newer = msgspec.structs.replace(a_removal("newer", group="cheap"), node=a_node("newer", created=NOW.wall - 50_000))
    dear = a_removal("dear", group="dear")
    groups = [
        msgspec.structs.replace(a_group("cheap", target=3), node_price=1.0),
        msgspec.structs.replace(a_group("dear", target=1), node_price=2.0),
    ]
    waited_s = {"sick": 1201.0, "older": 700.0, "newer": 800.0, "dear": 650.0}
    going = plan([newer, older, dear, sick], groups=groups, waited_s=waited_s)
    assert names(going.empty) == ["sick", "dear", "older", "newer"]
    two = plan([newer, older, dear, sick], groups=groups, waited_s=waited_s, max_scale_down_parallelism=2)
    assert names(two.empty) == ["sick", "dear"]
    as_before = plan([newer, older, dear, sick], groups=groups, waited_s=waited_s, rules=OLD)
    assert names(as_before.empty) == ["sick", "newer", "older", "dear"]
