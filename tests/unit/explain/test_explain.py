"""Why pods, nodes and node groups fared as they did: small scenarios, one verdict each."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from autoscaler.errors import ConfigError
from autoscaler.explain.answer import GroupExplanation, NodeExplanation, PlanExplanation, PodExplanation
from autoscaler.explain.explain import parse_targets
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play, play_and_explain
from tests.manifests import a_group, a_node, a_pod, a_template

TAINTS = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
GROUPS = [
    a_group("small", a_template("4")),
    a_group("big", a_template("16")),
    a_group("full", a_template("64"), maxSize=0),
]
OWNERS = [{"metadata": {"name": name}} for name in ("web", "huge", "db")]


def explained(*targets: str, run: int | None = None, **fields: Any) -> PlanExplanation:
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": {"expander": "least-waste"},
        "nodeGroups": GROUPS,
        "replicaSets": OWNERS,
        **fields,
    }
    return play_and_explain(decode(json.dumps(document).encode(), "case.json"), parse_targets(targets), run)


def the_pod(target: str, **fields: Any) -> PodExplanation:
    (one,) = explained(target, **fields).explained
    assert isinstance(one, PodExplanation)
    return one


def the_node(target: str, **fields: Any) -> NodeExplanation:
    (one,) = explained(target, **fields).explained
    assert isinstance(one, NodeExplanation)
    return one


def the_group(target: str, **fields: Any) -> GroupExplanation:
    (one,) = explained(target, **fields).explained
    assert isinstance(one, GroupExplanation)
    return one


def fates(pod: PodExplanation) -> list[tuple[str, list[str]]]:
    return [(group.fate.value, group.groups) for group in pod.groups]


NODES = [a_node("full", "2"), a_node("near", "30"), a_node("gpu", "64", taints=TAINTS)]
HUGE = a_pod("huge-0", "32")


def test_a_pod_that_nothing_takes_is_told_how_near_everything_is() -> None:
    pod = the_pod("pod/default/huge-0", nodes=NODES, pods=[HUGE])
    assert pod.verdict == "NoGroupFits"
    assert [(node.examples, [rejection.detail for rejection in node.rejections]) for node in pod.nodes] == [
        (["near", "full"], ["needs 32 cpu, 30 free"]),
        (["gpu"], ["taint gpu=true:NoSchedule not tolerated"]),
    ]
    assert fates(pod) == [("LeftOut", ["full"]), ("Rejects", ["big", "small"])][::-1]
    assert pod.groups[0].rejections[0].detail == "needs 32 cpu, 16 free"
    left_out = pod.groups[1].skipped
    assert left_out is not None
    assert left_out.reason == "MaxNodeGroupSizeReached"
    assert pod.groups[1].rejections == []


def test_what_groups_have_against_a_pod_is_what_the_plan_says() -> None:
    document = {"now": "2026-01-05T12:00:00Z", "nodeGroups": GROUPS, "replicaSets": OWNERS, "pods": [HUGE]}
    scenario = decode(json.dumps(document).encode(), "case.json")
    (stuck,) = play(scenario).runs[0].reasons.unschedulable
    pod = the_pod("pod/default/huge-0", pods=[HUGE])
    found = {group.groups[0]: group.rejections for group in pod.groups if group.skipped is None}
    assert found["big"] == stuck.rejected["big"]


def test_a_pod_that_is_helped_is_told_by_which_group() -> None:
    pod = the_pod("pod/default/web-0", pods=[a_pod("web-0", "3")])
    assert (pod.verdict, pod.group, pod.requests) == ("Helped", "small", {"cpu": "3"})
    assert fates(pod) == [("Grows", ["small"]), ("Offered", ["big"]), ("LeftOut", ["full"])]


def test_a_pod_that_fits_is_told_where_and_does_not_stand_in_its_own_way() -> None:
    pod = the_pod("pod/default/web-0", nodes=[a_node("n1", "4")], pods=[a_pod("web-0", "3")])
    assert (pod.verdict, pod.node) == ("FitsOnExistingOrUpcomingNode", "n1")
    assert [(node.examples, node.rejections) for node in pod.nodes] == [(["n1"], [])]
    assert fates(pod) == [("Fits", ["small", "big", "full"])]


def test_room_that_other_pending_pods_take_is_taken() -> None:
    pods = [a_pod("web-0", "3"), a_pod("db-0", "2", priority=-1)]
    pod = the_pod("pod/default/db-0", nodes=[a_node("n1", "4")], pods=pods)
    assert pod.nodes[0].rejections[0].detail == "needs 2 cpu, 1 free"


def test_a_pod_may_fit_on_a_node_that_is_on_its_way() -> None:
    pod = the_pod("pod/default/web-0", pods=[a_pod("web-0", "3")], runs=2)
    assert pod.verdict == "FitsOnExistingOrUpcomingNode"
    (nodes,) = pod.nodes
    assert (nodes.count, nodes.upcoming, nodes.examples, nodes.rejections) == (1, 1, [pod.node], [])


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        pytest.param(a_pod("web-0", "3", priority=-100), "Expendable", id="an expendable pod waits"),
        pytest.param(a_pod("web-0", "3"), "TooYoung", id="a young pod waits"),
    ],
)
def test_a_pod_that_waits_is_told_why(pod: dict[str, Any], verdict: str) -> None:
    options = {"new-pod-scale-up-delay": "1h"} if verdict == "TooYoung" else {}
    found = the_pod("pod/default/web-0", pods=[pod], options=options)
    assert found.verdict == verdict
    assert found.message
    assert [group.fate for group in found.groups] == ["Fits"]


def test_a_pod_that_runs_is_told_where() -> None:
    pods = [a_pod("web-0", "1", nodeName="n1"), a_pod("web-1", "1", nodeName="n1", priority=-100)]
    for target in ("pod/default/web-0", "pod/default/web-1"):
        pod = the_pod(target, nodes=[a_node("n1", "4")], pods=pods)
        assert (pod.verdict, pod.node, pod.message) == ("Runs", "n1", "runs on node n1")


def test_equal_nodes_are_counted_and_three_are_named() -> None:
    pod = the_pod("pod/default/huge-0", nodes=[a_node(f"n{number}", "1") for number in range(9)], pods=[HUGE])
    (nodes,) = pod.nodes
    assert (nodes.count, nodes.examples) == (9, ["n0", "n1", "n2"])


def test_five_thousand_nodes_are_sorted_into_few_sets() -> None:
    nodes = [a_node(f"n{number}", str(1 + number % 7), taints=[] if number % 5 else TAINTS) for number in range(5000)]
    pod = the_pod("pod/default/huge-0", nodes=nodes, pods=[HUGE])
    assert [(node.count, node.examples[0]) for node in pod.nodes] == [(4000, "n6"), (1000, "n20")]


IN_GROUP = {
    "nodeToGroup": {"n1": "small", "n2": "small"},
    "nodeGroups": [a_group("small", a_template("4"), targetSize=2)],
}
TWO = [a_node("n1", "4"), a_node("n2", "4")]


def test_a_used_node_is_told_its_share() -> None:
    node = the_node("node/n1", nodes=TWO, pods=[a_pod("web-0", "3", nodeName="n1")], **IN_GROUP)
    assert (node.verdict, node.reason, node.utilization) == ("Stays", "NotUnderutilized", 0.75)
    assert (node.group, node.state, node.time_left_s) == ("small", "ready", None)


def test_an_unneeded_node_is_told_how_long_it_has_left() -> None:
    node = the_node("node/n1", nodes=TWO, runs=2, step="60s", **IN_GROUP)
    assert (node.verdict, node.reason) == ("Unneeded", "NotUnneededLongEnough")
    assert (node.unneeded_since, node.time_left_s) == ("2026-01-05T12:00:01Z", 540.0)


def test_an_earlier_run_can_be_explained() -> None:
    one = explained("node/n1", run=0, nodes=TWO, runs=2, step="60s", **IN_GROUP)
    assert (one.run, one.at) == (0, "2026-01-05T12:00:01Z")
    (node,) = one.explained
    assert isinstance(node, NodeExplanation)
    assert node.time_left_s == 600.0


def test_a_cooldown_outlasts_the_unneeded_time() -> None:
    change = {"beforeRun": 1, "addPods": [a_pod("web-9", "3")]}
    options = {"scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "10m"}
    groups = [a_group("small", a_template("2"), targetSize=2), a_group("big", a_template("16"))]
    nodes = [a_node("n1", "2"), a_node("n2", "2")]
    fields = {**IN_GROUP, "nodeGroups": groups, "options": options, "changes": [change]}
    node = the_node("node/n1", nodes=nodes, runs=3, step="60s", **fields)
    assert node.scale_down_result == "InCooldown"
    assert node.time_left_s == 540.0


def test_a_node_that_waits_for_a_maintenance_window_is_told_how_long() -> None:
    options = {"scale-down-unneeded-time": "0s", "scale-down-window": "0 22 * * *;1h;Europe/Berlin"}
    node = the_node("node/n1", nodes=TWO, options=options, runs=2, step="60s", **IN_GROUP)
    assert (node.verdict, node.reason) == ("Unneeded", "OutsideMaintenanceWindow")
    assert (node.detail, node.time_left_s) == ("the next window opens in 8h58m59s", 9 * 3600.0 - 61)


def test_a_node_that_goes_is_told_so() -> None:
    node = the_node("node/n1", nodes=TWO, options={"scale-down-unneeded-time": "0s"}, runs=2, **IN_GROUP)
    assert (node.verdict, node.time_left_s) == ("BeingRemoved", None)


def test_a_pod_that_blocks_is_named_with_its_reason_and_the_time_until_the_next_look() -> None:
    lone = {"metadata": {"name": "lone"}, "spec": {"nodeName": "n1", "containers": [{}]}}
    node = the_node("node/n1", nodes=TWO, pods=[lone], **IN_GROUP)
    assert (node.reason, node.pod, node.pod_reason) == ("BlockedByPod", "default/lone", "NotReplicated")
    assert node.time_left_s == 300.0


def test_a_node_of_no_group_stays() -> None:
    node = the_node("node/n1", nodes=TWO)
    assert (node.verdict, node.reason, node.group) == ("Stays", "NotAutoscaled", None)


def test_a_node_that_scale_down_never_saw_is_not_judged() -> None:
    node = the_node("node/n1", nodes=TWO, options={"scale-down-enabled": "false"}, **IN_GROUP)
    assert (node.verdict, node.reason, node.scale_down_result) == ("NotJudged", None, "NotTried")


def test_a_group_that_grows_is_told_by_how_much_and_for_whom() -> None:
    group = the_group("group/small", pods=[a_pod("web-0", "3"), a_pod("web-1", "3"), HUGE])
    assert (group.verdict, group.increase, group.sizes.target) == ("Grows", 2, 2)
    (offer,) = group.offers
    assert (offer.nodes, offer.pods, offer.chosen) == (2, 2, True)
    (rejected,) = group.rejected
    assert (rejected.owner, rejected.count, rejected.examples) == ("ReplicaSet default/huge", 1, ["default/huge-0"])
    assert group.template_source == "Provider"


@pytest.mark.parametrize(
    ("group", "pods", "verdict", "message"),
    [
        pytest.param(
            "big",
            [a_pod("web-0", "3")],
            "NotChosen",
            "nodes offered: 1, for pods: 1; not chosen",
            id="another is chosen",
        ),
        pytest.param("full", [HUGE], "LeftOut", "max node group size reached (0 of 0)", id="it is full"),
        pytest.param(
            "big",
            [HUGE],
            "NoPodFits",
            "a new node would take none of the pods that need one",
            id="its nodes are too small",
        ),
        pytest.param("big", [], "NotAsked", "No pod needs a new node.", id="nobody waits"),
    ],
)
def test_a_group_that_does_not_grow_is_told_why(
    group: str, pods: list[dict[str, Any]], verdict: str, message: str
) -> None:
    found = the_group(f"group/{group}", pods=pods)
    assert (found.verdict, found.message, found.increase) == (verdict, message, 0)


def test_a_group_that_fails_is_backed_off_and_left_out_of_the_next_run() -> None:
    fields = {
        "nodeGroups": [a_group("small", a_template("4"), increaseError="none left")],
        "pods": [a_pod("web-0", "3")],
        "runs": 2,
        "step": "60s",
    }
    (first,) = explained("group/small", run=0, **fields).explained
    assert isinstance(first, GroupExplanation)
    assert (first.verdict, first.increase) == ("Failed", 0)
    assert "none left" in first.error
    second = the_group("group/small", **fields)
    assert second.verdict == "LeftOut"
    assert second.skipped is not None
    assert second.skipped.reason == "InBackoff"
    assert second.backoff is not None
    assert (second.backoff.left_s, second.backoff.until) == (240.0, "2026-01-05T12:05:01Z")
    pod = the_pod("pod/default/web-0", **fields)
    assert fates(pod) == [("LeftOut", ["small"])]


def test_a_pass_that_ended_early_is_explained_as_far_as_it_came() -> None:
    options = {"scale-up-from-zero": "false"}
    pod = the_pod("pod/default/web-0", pods=[a_pod("web-0", "3")], options=options)
    assert (pod.verdict, pod.message) == ("NotTried", "the pass ended early: EmptyCluster")
    assert (pod.nodes, pod.groups) == ([], [])
    group = the_group("group/small", pods=[a_pod("web-0", "3")], options=options)
    assert (group.verdict, group.sizes.max, group.healthy) == ("NotAsked", 5, None)


def test_pods_between_nodes_count_too() -> None:
    """A pod that avoids its like is refused where one is, and a new node would take it."""
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [a_pod("web-0", "1", nodeName="n1", affinity=affinity), a_pod("web-1", "1", affinity=affinity)]
    for pod in pods:
        pod["metadata"]["labels"] = {"app": "web"}
    found = the_pod("pod/default/web-1", nodes=[a_node("n1", "4")], pods=pods)
    assert [rejection.reason for rejection in found.nodes[0].rejections] == ["InterPodAffinity", "InterPodAffinity"]
    assert fates(found)[0] == ("Grows", ["small"])


def test_the_same_question_gives_the_same_bytes() -> None:
    def answer() -> bytes:
        targets = ("pod/default/huge-0", "node/near", "group/small")
        return msgspec.json.encode(explained(*targets, nodes=NODES, pods=[HUGE, a_pod("web-0", "3")]))

    assert answer() == answer()


def _problems(*targets: str, **fields: Any) -> Iterator[str]:
    with pytest.raises(ConfigError) as caught:
        explained(*targets, **fields)
    yield from caught.value.problems


def test_what_is_not_there_is_said_with_what_is() -> None:
    pods = [a_pod(f"web-{number}", "3") for number in range(7)]
    assert list(_problems("pod/default/x", "node/n9", "group/y", pods=pods)) == [
        "pod/default/x: no such pending pod; pending are: default/web-0, default/web-1, default/web-2, "
        "default/web-3, default/web-4 and 2 more",
        "node/n9: no such node; there are none",
        "group/y: no such node group; groups are: small, big, full",
    ]


@pytest.mark.parametrize("word", ["", "pod", "pod/web-1", "pod/a/b/c", "pod//b", "node/", "group", "nodes/n1"])
def test_words_that_name_nothing_are_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="write pod/NAMESPACE/NAME, node/NAME or group/ID"):
        parse_targets([word])


def test_a_groups_id_may_have_slashes() -> None:
    (target,) = parse_targets(["group/asg/eu/1"])
    assert (target.kind, target.name, str(target)) == ("group", "asg/eu/1", "group/asg/eu/1")


def test_a_run_that_is_not_there_is_refused() -> None:
    assert list(_problems("group/small", run=2, runs=2)) == ["--run 2: the runs of case are 0 to 1"]
    assert list(_problems("group/small", run=-1)) == ["--run -1: the runs of case are 0 to 0"]


def test_options_that_do_not_suit_the_cloud_are_refused() -> None:
    assert "prices" in next(_problems("group/small", options={"expander": "price"}))


def a_resizing_pod(reason: str) -> dict[str, Any]:
    statuses = [{"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}]
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    status = {"phase": "Running", "containerStatuses": statuses, "conditions": conditions}
    return {**a_pod("web-0", "3", nodeName="n1"), "status": status}


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Infeasible", "its resize is infeasible there, so its requests do not count"),
        ("Deferred", "its resize is deferred, and until it is finished the larger requests count"),
        ("", "its resize is under way, and until it is finished the larger requests count"),
    ],
)
def test_a_pod_that_is_being_resized_says_so(reason: str, words: str) -> None:
    nodes = [a_node("n1", "4")]
    found = the_pod("pod/default/web-0", nodes=nodes, pods=[a_resizing_pod(reason)])
    assert found.message == f"runs on node n1; {words}"


def test_room_that_is_held_for_a_resize_is_named() -> None:
    pods = [a_resizing_pod("Deferred"), a_pod("huge-0", "2")]
    (refusing,) = the_pod("pod/default/huge-0", nodes=[a_node("n1", "4")], pods=pods).nodes
    (rejection,) = refusing.rejections
    assert rejection.detail == "needs 2 cpu, 1 free, 2 held until resizes of pods there are finished"


def test_the_scheduler_is_quoted() -> None:
    nodes = [a_node("n1", "1"), a_node("n2", "8", taints=TAINTS)]
    web, gated = a_pod("web-0", "2"), a_pod("db-0", "2", schedulingGates=[{"name": "quota"}])
    fields = {"nodes": nodes, "pods": [web, gated, a_pod("small-0", "1")]}
    assert the_pod("pod/default/web-0", **fields).scheduler_message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: true}. preemption: "
        "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )
    assert the_pod("pod/default/db-0", **fields).scheduler_message == "", "it is not asked for gated pods"
    assert the_pod("pod/default/small-0", **fields).scheduler_message == "", "it would take this one"


def test_a_pod_on_a_node_that_is_not_there_is_left_out() -> None:
    found = the_pod("pod/default/web-0", nodes=[a_node("n1", "4")], pods=[a_pod("web-0", "1", nodeName="gone")])
    assert found.message == "runs on node gone, which is not in the cluster: it is skipped"
