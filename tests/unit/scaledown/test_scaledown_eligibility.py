from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.objects.meta import LAST_KNOWN, NEVER_KNOWN, UNDECODED
from autoscaler.objects.node import Node
from autoscaler.objects.pod import MIRROR, SAFE_TO_EVICT
from autoscaler.reasons import BlockingReason, UnremovableReason
from autoscaler.registry.memory import LastActions
from autoscaler.scaledown.displaced_pods import leaving_nodes
from autoscaler.scaledown.eligibility import SCALE_DOWN_DISABLED, Eligible, eligible
from autoscaler.scaledown.memory import RecentlyUnremovable, ScaleDownMemory
from autoscaler.scaledown.plan import ScaleDownContext
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.overlay import Trial
from tests.builders import a_group, a_node, a_pod
from tests.unit.scaledown.pieces import FRESH, NEW, NOW, OLD, Begun, Cluster, full, group_with

HALF = [a_pod("half", cpu="2", node="n")]

UNMEASURED_IS_UNUSED = Rules(unmeasured_node_is_unused=True)
THRESHOLD_IS_NEEDED = Rules(node_at_threshold_is_needed=True)


def sort(cluster: Cluster, memory: ScaleDownMemory = FRESH, **about: Any) -> Eligible:
    return sort_on(cluster.trial(), cluster.situation(**about), memory)


def sort_on(trial: Trial, situation: ScaleDownContext, memory: ScaleDownMemory = FRESH) -> Eligible:
    return eligible(trial, situation, memory, leaving_nodes(trial, situation))


def fate(
    cluster: Cluster, name: str = "n", memory: ScaleDownMemory = FRESH, **about: Any
) -> UnremovableReason | str | None:
    """Why a node stays, or `simulate`; None where nothing is said of it."""
    found = sort(cluster, memory, **about)
    if cluster.view.positions[name] in found.order:
        return "simulate"
    return found.kept[name].reason if name in found.kept else None


def marked(seconds_ago: float) -> Node:
    return a_node("n", taints=[f"ToBeDeletedByClusterAutoscaler={int(NOW.wall - seconds_ago)}"])


def recently(until_in_s: float) -> ScaleDownMemory:
    one = RecentlyUnremovable(
        NOW.later(until_in_s), UnremovableReason.BLOCKED_BY_POD, "bare", "default/bare", BlockingReason.NOT_REPLICATED
    )
    return ScaleDownMemory(unremovable={"n": one})


@pytest.mark.parametrize(
    ("node", "about", "expected"),
    [
        pytest.param(a_node("n"), {}, "simulate", id="an unused node is worth a simulation"),
        pytest.param(
            a_node("n", annotations={SCALE_DOWN_DISABLED: "true"}),
            {},
            UnremovableReason.DISABLED,
            id="unless annotated",
        ),
        pytest.param(a_node("n", annotations={SCALE_DOWN_DISABLED: "false"}), {}, "simulate", id="otherwise than true"),
        pytest.param(
            a_node("n", annotations={UNDECODED: LAST_KNOWN}),
            {},
            UnremovableReason.UNDECODED,
            id="one that cannot be decoded stays",
        ),
        pytest.param(
            marked(299.0), {}, UnremovableReason.BEING_DELETED, id="a node that was marked lately is on its way out"
        ),
        pytest.param(marked(300.0), {}, "simulate", id="after five minutes it is stuck"),
        pytest.param(
            a_node("n", taints=["ToBeDeletedByClusterAutoscaler=soon"]), {}, "simulate", id="a mark without a time"
        ),
        pytest.param(a_node("n", ready=False), {}, "simulate", id="an unready node may go"),
        pytest.param(
            a_node("n", ready=False),
            {"scale_down_unready_enabled": False},
            UnremovableReason.UNREADY_DISABLED,
            id="where allowed",
        ),
        pytest.param(a_node("n"), {"scale_down_unready_enabled": False}, "simulate", id="ready ones always"),
        pytest.param(a_node("n", cpu="0"), {}, UnremovableReason.UNEXPECTED, id="a node without CPUs is a riddle"),
        pytest.param(
            a_node("n", cpu="0"),
            {"rules": UNMEASURED_IS_UNUSED},
            "simulate",
            id="which 1.31 did not see",
        ),
        pytest.param(
            a_node("n"),
            {"under_way": Begun(empty={"n": "g"})},
            UnremovableReason.BEING_DELETED,
            id="being removed by us",
        ),
        pytest.param(
            a_node("n"),
            {"under_way": Begun(empty={"n": "g"}), "rules": OLD},
            UnremovableReason.BEING_DELETED,
            id="which 1.31 said as well",
        ),
    ],
)
def test_single_nodes(node: Node, about: dict[str, Any], expected: UnremovableReason | str) -> None:
    assert fate(Cluster([node]), **about) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param(NEW, UnremovableReason.BEING_DELETED, id="has its reason"),
        pytest.param(OLD, None, id="is no candidate in 1.31, and has none"),
    ],
)
def test_a_node_being_removed_in_a_group_at_its_minimum(rules: Rules, expected: UnremovableReason | None) -> None:
    cluster = Cluster([a_node("n")], groups=[group_with(target=1, min_size=1)])
    assert fate(cluster, under_way=Begun(empty={"n": "g"}), rules=rules) is expected


@pytest.mark.parametrize(
    ("about", "settings", "expected"),
    [
        pytest.param({}, {}, "simulate", id="at the threshold a node may be unneeded"),
        pytest.param(
            {"rules": THRESHOLD_IS_NEEDED},
            {},
            UnremovableReason.NOT_UNDERUTILIZED,
            id="in 1.31 it had to be below",
        ),
        pytest.param(
            {"scale_down_utilization_threshold": 0.49}, {}, UnremovableReason.NOT_UNDERUTILIZED, id="above it, it stays"
        ),
        pytest.param(
            {}, {"scale_down_utilization_threshold": 0.4}, UnremovableReason.NOT_UNDERUTILIZED, id="its group's counts"
        ),
        pytest.param(
            {"scale_down_utilization_threshold": 0.1},
            {"scale_down_utilization_threshold": 0.0},
            UnremovableReason.NOT_UNDERUTILIZED,
            id="even an own one of zero",
        ),
        pytest.param(
            {"scale_down_utilization_threshold": 0.1},
            {"scale_down_utilization_threshold": 0.6},
            "simulate",
            id="and frees what the flag would keep",
        ),
        pytest.param({"scale_down_gpu_utilization_threshold": 0.0}, {}, "simulate", id="the one for GPUs is for GPUs"),
    ],
)
def test_thresholds(about: dict[str, Any], settings: dict[str, Any], expected: UnremovableReason | str) -> None:
    cluster = Cluster([a_node("n")], HALF, groups=[group_with(target=1, **settings)])
    assert fate(cluster, **about) == expected


@pytest.mark.parametrize(
    ("about", "settings", "expected"),
    [
        pytest.param(
            {"scale_down_gpu_utilization_threshold": 0.2}, {}, UnremovableReason.NOT_UNDERUTILIZED, id="above the flag"
        ),
        pytest.param({"scale_down_utilization_threshold": 0.1}, {}, "simulate", id="below, whatever the other flag"),
        pytest.param(
            {}, {"scale_down_gpu_utilization_threshold": 0.2}, UnremovableReason.NOT_UNDERUTILIZED, id="or its group's"
        ),
    ],
)
def test_gpu_thresholds(about: dict[str, Any], settings: dict[str, Any], expected: UnremovableReason | str) -> None:
    node = a_node("n", extra={"nvidia.com/gpu": "4"})
    pods = [a_pod("training", cpu="4", requests={"nvidia.com/gpu": "1"}, node="n")]
    assert fate(Cluster([node], pods, groups=[group_with(target=1, **settings)]), **about) == expected


def test_daemons_are_left_out_where_the_group_says_so() -> None:
    pods = [a_pod("daemon", cpu="3", owner="DaemonSet", node="n")]
    assert fate(Cluster([a_node("n")], pods)) is UnremovableReason.NOT_UNDERUTILIZED
    assert fate(Cluster([a_node("n")], pods), ignore_daemonsets_utilization=True) == "simulate"
    own = group_with(target=1, ignore_daemonsets_utilization=True)
    assert fate(Cluster([a_node("n")], pods, groups=[own])) == "simulate"
    own = group_with(target=1, ignore_daemonsets_utilization=False)
    cluster = Cluster([a_node("n")], pods, groups=[own])
    assert fate(cluster, ignore_daemonsets_utilization=True) is UnremovableReason.NOT_UNDERUTILIZED


@pytest.mark.parametrize(
    ("groups", "of_node", "expected"),
    [
        pytest.param(
            [a_group("g", min_size=1, target=1)], {"n": "g"}, UnremovableReason.MIN_SIZE, id="a group at its minimum"
        ),
        pytest.param([a_group("g", min_size=1, target=2)], {"n": "g"}, "simulate", id="a group above it"),
        pytest.param(
            [group_with(target=1, scale_down_enabled=False)],
            {"n": "g"},
            UnremovableReason.GROUP_HELD,
            id="a held group",
        ),
        pytest.param([group_with(target=1, scale_down_enabled=True)], {"n": "g"}, "simulate", id="one that is not"),
        pytest.param([a_group("g", target=1)], {}, UnremovableReason.NOT_AUTOSCALED, id="a node of no group"),
        pytest.param(
            [a_group("g", target=1)], {"n": "h"}, UnremovableReason.NOT_AUTOSCALED, id="a node of an unknown group"
        ),
    ],
)
def test_candidates(groups: Sequence[Group], of_node: dict[str, str], expected: UnremovableReason | str) -> None:
    cluster = Cluster([a_node("n")], groups=groups, of_node=of_node)
    assert fate(cluster) == expected
    assert fate(cluster, rules=OLD) == (expected if expected == "simulate" else None)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param(LastActions(scale_up=NOW.later(-599)), UnremovableReason.GROUP_COOLING_DOWN, id="just scaled up"),
        pytest.param(LastActions(scale_up=NOW.later(-600)), "simulate", id="scaled up ten minutes ago"),
        pytest.param(
            LastActions(scale_down_failure=NOW.later(-179)), UnremovableReason.GROUP_COOLING_DOWN, id="just failed"
        ),
        pytest.param(LastActions(scale_down=NOW), "simulate", id="a removal does not delay by default"),
    ],
)
def test_local_delays(last: LastActions, expected: UnremovableReason | str) -> None:
    cluster = Cluster([a_node("n")])
    assert fate(cluster, last_by_group={"g": last}, scale_down_delay_type_local=True) == expected
    assert fate(cluster, last_by_group={"g": last}) == "simulate"


def test_a_node_found_unremovable_lately_is_left_alone_and_its_reason_told() -> None:
    found = sort(Cluster([a_node("n", annotations={SCALE_DOWN_DISABLED: "true"})]), recently(1.0))
    kept = found.kept["n"]
    assert (kept.reason, kept.pod, kept.pod_reason) == (
        UnremovableReason.RECENTLY_UNREMOVABLE,
        "default/bare",
        BlockingReason.NOT_REPLICATED,
    )
    assert "BlockedByPod" in kept.detail


def test_a_used_node_is_told_with_its_figures() -> None:
    kept = sort(Cluster([a_node("n")], full("n"))).kept["n"]
    assert kept.utilization == 1.0
    assert kept.detail == "100% of its cpu is requested, the threshold is 50%"


def test_nodes_that_count_as_upcoming_are_no_candidates() -> None:
    cluster = Cluster([a_node("n"), a_node("starting")])
    trial = cluster.trial()
    trial.remove(1)
    found = sort_on(trial, cluster.situation())
    assert (found.order, found.kept["starting"].reason, found.candidates) == ((0,), UnremovableReason.NOT_STARTED, 1)


def test_empty_nodes_come_first_then_those_unneeded_before_then_as_listed() -> None:
    web = a_pod("web", cpu="100m")
    placed = [msgspec.structs.replace(web, name=f"on-{name}", uid=name, node=name) for name in ("a", "b", "c")]
    light = [
        a_pod("daemon", owner="DaemonSet", node="d"),
        a_pod("mirror", owner=None, annotations={MIRROR: "x"}, node="d"),
        a_pod("late", node="d", deleted=1.0),
    ]
    cluster = Cluster([a_node(name) for name in "abcdef"], [*placed, *light])
    memory = ScaleDownMemory(unneeded={"c": NOW, "f": NOW, "gone": NOW})
    ordered = [cluster.view.nodes[at].name for at in sort(cluster, memory).order]
    assert ordered == ["f", "d", "e", "c", "a", "b"]


def test_empty_nodes_with_pods_to_wait_for_come_last_among_them() -> None:
    waits = a_pod("waits", annotations={SAFE_TO_EVICT: "on-completion"}, node="a")
    cluster = Cluster([a_node("a"), a_node("b")], [waits])
    assert sort(cluster, rules=NEW).order == (1, 0)
    assert sort(cluster, rules=OLD).order == (1, 0)
    blocked = a_pod("bare", owner=None, node="b")
    cluster = Cluster([a_node("a"), a_node("b")], [waits, blocked])
    assert sort(cluster, rules=NEW).order == (0, 1)


def test_a_node_with_a_pending_pod_placed_on_it_is_not_empty() -> None:
    pending = a_pod("pending", cpu="100m")
    cluster = Cluster([a_node("a"), a_node("b")], [pending])
    trial = cluster.trial()
    trial.place(pending.cls, 0)
    assert sort_on(trial, cluster.situation()).order == (1, 0)


def test_candidates_are_counted_before_they_are_judged() -> None:
    nodes = [a_node("n"), a_node("busy"), a_node("foreign")]
    cluster = Cluster(nodes, full("busy"), of_node={"n": "g", "busy": "g"})
    assert sort(cluster).candidates == 2


def test_instants_in_the_past_do_not_count_as_recent() -> None:
    memory = recently(-1.0)
    assert memory.unremovable["n"].until < NOW
    update = Cluster([a_node("n")]).look(memory)
    assert [one.node.name for one in update.unneeded] == ["n"]
    assert isinstance(update.memory.unneeded["n"], Instant)


@pytest.mark.parametrize("mark", [LAST_KNOWN, NEVER_KNOWN])
def test_a_pod_that_cannot_be_decoded_keeps_its_node(mark: str) -> None:
    odd = a_pod("odd", node="n", annotations={UNDECODED: mark})
    found = sort(Cluster([a_node("n")], pods=[odd])).kept["n"]
    assert (found.reason, found.pod, found.pod_reason) == (
        UnremovableReason.BLOCKED_BY_POD,
        "default/odd",
        BlockingReason.UNDECODED,
    )
