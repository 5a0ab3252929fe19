"""Every rule that keeps a node, each through whole passes: what keeps it, and the twin without that, where it goes."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from autoscaler.reasons import BlockingReason, UnremovableReason
from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import PlanAnswer
from autoscaler.simulator.play import play
from tests.manifests import Json, a_budget, a_group, a_node, a_template, named, running

AT = "2026-01-05T12:00:00Z"
"""A Monday."""
ANNOTATION = "cluster-autoscaler.kubernetes.io/"
SAFE = ANNOTATION + "safe-to-evict"
OPTIONS = {
    "expander": "least-waste",
    "scale-down-unneeded-time": "0s",
    "scale-down-unready-time": "0s",
    "scale-down-delay-after-add": "0s",
    "skip-nodes-with-custom-controller-pods": "true",
}


WEB = named("web", replicas=3)


def played(options: Mapping[str, Any] | None = None, **fields: Any) -> PlanAnswer:
    """Two runs, ten seconds apart, over node `n` of group `g` and a node of no group with plenty of room."""
    nodes = fields.pop("nodes", [a_node("n")])
    owners = fields.pop("nodeToGroup", {node["metadata"]["name"]: "g" for node in nodes})
    document = {
        "now": AT,
        "options": {**OPTIONS, **(options or {})},
        "nodeGroups": [a_group(targetSize=len(nodes))],
        "nodes": [*nodes, a_node("home", "64")],
        "nodeToGroup": owners,
        "replicaSets": [WEB],
        "runs": 2,
        **fields,
    }
    return play(decode(json.dumps(document).encode(), "case.json"))


def gone(answer: PlanAnswer) -> list[str]:
    """Machines deleted in any run, in alphabetical order."""
    return sorted(cloud_delete.id for run in answer.runs for cloud_delete in run.cloud_deletes)


def table(*rows: tuple[str, Mapping[str, Any], BlockingReason, Mapping[str, Any]]) -> list[Any]:
    return [pytest.param(stays, reason, goes, id=name) for name, stays, reason, goes in rows]


def pods(*each: Json, **fields: Any) -> Json:
    return {"pods": list(each), **fields}


def local(**volume: Any) -> list[Json]:
    return [{"name": "data", **volume}]


LONG_AGO = {"deletionTimestamp": "2026-01-05T11:50:00Z"}
JUST_NOW = {"deletionTimestamp": "2026-01-05T12:00:00Z"}
YOUNG, OLD = {"creationTimestamp": "2026-01-05T11:30:00Z"}, {"creationTimestamp": "2026-01-05T10:00:00Z"}
SYSTEM: Json = {"meta": {"namespace": "kube-system", **YOUNG}}
IN_SYSTEM: Json = {"replicaSets": [named("web", "kube-system", replicas=1)]}
BARE = running(owner="")
CUSTOM = running(owner="Custom/web")


@pytest.mark.parametrize(
    ("stays", "reason", "goes"),
    table(
        (
            "1 mirror pods do not count",
            pods(BARE),
            BlockingReason.NOT_REPLICATED,
            pods(running(owner="", annotations={"kubernetes.io/config.mirror": "x"})),
        ),
        (
            "2 pods that should be gone do not count",
            pods(running(owner="", meta=JUST_NOW)),
            BlockingReason.NOT_REPLICATED,
            pods(running(owner="", meta=LONG_AGO)),
        ),
        (
            "3 a ReplicaSet must exist",
            pods(running(), replicaSets=[]),
            BlockingReason.CONTROLLER_NOT_FOUND,
            pods(running()),
        ),
        (
            "3 a ReplicationController must exist",
            pods(running(owner="ReplicationController/web")),
            BlockingReason.CONTROLLER_NOT_FOUND,
            pods(running(owner="ReplicationController/web"), replicationControllers=[WEB]),
        ),
        (
            "3 a Job must exist",
            pods(running(owner="Job/web")),
            BlockingReason.CONTROLLER_NOT_FOUND,
            pods(running(owner="Job/web"), jobs=[named("web")]),
        ),
        (
            "3 a StatefulSet must exist",
            pods(running(owner="StatefulSet/web")),
            BlockingReason.CONTROLLER_NOT_FOUND,
            pods(running(owner="StatefulSet/web"), statefulSets=[WEB]),
        ),
        (
            "3 a DaemonSet must exist",
            pods(running(owner="DaemonSet/web")),
            BlockingReason.CONTROLLER_NOT_FOUND,
            pods(running(owner="DaemonSet/web"), daemonSets=[named("web")]),
        ),
        (
            "3 a controller must want enough replicas",
            pods(running(), options={"min-replica-count": "4"}),
            BlockingReason.MIN_REPLICAS,
            pods(running(), options={"min-replica-count": "3"}),
        ),
        (
            "4 DaemonSet pods go before what speaks against others",
            pods(running(annotations={SAFE: "false"})),
            BlockingReason.NOT_SAFE_TO_EVICT,
            pods(running(owner="DaemonSet/web", annotations={SAFE: "false"}), daemonSets=[named("web")]),
        ),
        (
            "5 safe-to-evict is stronger than what follows",
            pods(running(owner="", volumes=local(hostPath={"path": "/x"}), **SYSTEM)),
            BlockingReason.NOT_REPLICATED,
            pods(running(owner="", volumes=local(hostPath={"path": "/x"}), annotations={SAFE: "true"}, **SYSTEM)),
        ),
        (
            "5 but not than a missing controller",
            pods(running(annotations={SAFE: "true"}), replicaSets=[]),
            BlockingReason.CONTROLLER_NOT_FOUND,
            pods(running(annotations={SAFE: "true"})),
        ),
        (
            "6 pods that have ended may go",
            pods(BARE),
            BlockingReason.NOT_REPLICATED,
            pods(running(owner="", status={"phase": "Succeeded"}, restartPolicy="Never")),
        ),
        (
            "8 something must make the pod anew",
            pods(BARE),
            BlockingReason.NOT_REPLICATED,
            pods(running(owner="ReplicaSet/web")),
        ),
        (
            "8 and be of a kind that is trusted",
            pods(CUSTOM),
            BlockingReason.NOT_REPLICATED,
            pods(CUSTOM, options={"skip-nodes-with-custom-controller-pods": "false"}),
        ),
        (
            "9 system pods without a budget stay",
            pods(running(**SYSTEM), **IN_SYSTEM),
            BlockingReason.SYSTEM,
            pods(running(**SYSTEM), podDisruptionBudgets=[a_budget(1, namespace="kube-system")], **IN_SYSTEM),
        ),
        (
            "9 for an hour",
            pods(running(**SYSTEM), **IN_SYSTEM),
            BlockingReason.SYSTEM,
            pods(running(meta={"namespace": "kube-system", **OLD}), **IN_SYSTEM),
        ),
        (
            "9 or as long as the flag says",
            pods(running(**SYSTEM), options={"blocking-system-pod-distruption-timeout": "31m"}, **IN_SYSTEM),
            BlockingReason.SYSTEM,
            pods(running(**SYSTEM), options={"blocking-system-pod-distruption-timeout": "29m"}, **IN_SYSTEM),
        ),
        (
            "9 unless they do not matter",
            pods(running(**SYSTEM), **IN_SYSTEM),
            BlockingReason.SYSTEM,
            pods(running(**SYSTEM), options={"skip-nodes-with-system-pods": "false"}, **IN_SYSTEM),
        ),
        (
            "10 not safe to evict",
            pods(running(annotations={SAFE: "false"})),
            BlockingReason.NOT_SAFE_TO_EVICT,
            pods(running(annotations={SAFE: "no"})),
        ),
        (
            "11 data on the node",
            pods(running(volumes=local(emptyDir={}))),
            BlockingReason.LOCAL_STORAGE,
            pods(running(volumes=local(emptyDir={"medium": "Memory"}))),
        ),
        (
            "11 that is not named as harmless",
            pods(running(volumes=local(emptyDir={}), annotations={SAFE + "-local-volumes": "logs, data"})),
            BlockingReason.LOCAL_STORAGE,
            pods(running(volumes=local(emptyDir={}), annotations={SAFE + "-local-volumes": "logs,data"})),
        ),
        (
            "11 unless it does not matter",
            pods(running(volumes=local(hostPath={"path": "/x"}))),
            BlockingReason.LOCAL_STORAGE,
            pods(running(volumes=local(hostPath={"path": "/x"})), options={"skip-nodes-with-local-storage": "false"}),
        ),
        (
            "12 a spent budget",
            pods(running(), podDisruptionBudgets=[a_budget(0)]),
            BlockingReason.BUDGET,
            pods(running(), podDisruptionBudgets=[a_budget(1)]),
        ),
        (
            "12 which safe-to-evict leaves to the eviction",
            pods(running(), podDisruptionBudgets=[a_budget(0)]),
            BlockingReason.BUDGET,
            pods(running(annotations={SAFE: "true"}), podDisruptionBudgets=[a_budget(0)]),
        ),
    ),
)
def test_a_pod_keeps_its_node(stays: Json, reason: BlockingReason, goes: Json) -> None:
    kept = played(**stays)
    (pod,) = stays["pods"]
    first = kept.runs[0].unremovable["n"]
    assert (first.reason, first.pod_reason) == (UnremovableReason.BLOCKED_BY_POD, reason)
    assert first.pod == f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    again = kept.runs[1].unremovable["n"]
    assert (again.reason, again.pod_reason) == (UnremovableReason.RECENTLY_UNREMOVABLE, reason)
    assert gone(kept) == []
    assert gone(played(**goes)) == ["n"]


def unready() -> Json:
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-05T11:00:00Z"}]
    return a_node("n", status={"conditions": conditions})


def nodes(*each: Json, **fields: Any) -> Json:
    return {"nodes": list(each), **fields}


def gpus(used: int, **group: Any) -> Json:
    """Node `n` with so many of four GPUs in use and hardly any CPU left; there are GPUs elsewhere."""
    label = {"cloud.google.com/gke-accelerator": "t4"}
    pod = running(cpu="3900m")
    pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = str(used)
    both = [a_node(name, more={"nvidia.com/gpu": "4"}, meta={"labels": label}) for name in ("n", "elsewhere")]
    return nodes(*both, pods=[pod], nodeToGroup={"n": "g"}, **grouped(**group))


def options(**flags: str) -> Json:
    return {"options": {name.replace("_", "-"): value for name, value in flags.items()}}


def grouped(**fields: Any) -> Json:
    return {"nodeGroups": [a_group(**{"targetSize": 1, **fields})]}


@pytest.mark.parametrize(
    ("stays", "reason", "goes"),
    [
        pytest.param(
            nodes(a_node("n", meta={"annotations": {ANNOTATION + "scale-down-disabled": "true"}})),
            UnremovableReason.DISABLED,
            nodes(a_node("n", meta={"annotations": {ANNOTATION + "scale-down-disabled": "yes"}})),
            id="annotated to stay",
        ),
        pytest.param(
            {**nodes(unready()), **options(scale_down_unready_enabled="false", ok_total_unready_count="3")},
            UnremovableReason.UNREADY_DISABLED,
            nodes(unready()),
            id="unready nodes may be left alone",
        ),
        pytest.param({"nodeToGroup": {}}, UnremovableReason.NOT_AUTOSCALED, {}, id="of no group"),
        pytest.param(grouped(minSize=1), UnremovableReason.MIN_SIZE, grouped(minSize=0), id="the group's minimum"),
        pytest.param(
            pods(running(cpu="2100m")),
            UnremovableReason.NOT_UNDERUTILIZED,
            pods(running(cpu="2")),
            id="used above the threshold",
        ),
        pytest.param(
            {**pods(running(cpu="2")), **options(scale_down_utilization_threshold="0.4")},
            UnremovableReason.NOT_UNDERUTILIZED,
            {**pods(running(cpu="2")), **options(scale_down_utilization_threshold="0.6")},
            id="of the flag",
        ),
        pytest.param(
            {**pods(running(cpu="2")), **grouped(options={"scale-down-utilization-threshold": 0.4})},
            UnremovableReason.NOT_UNDERUTILIZED,
            {**pods(running(cpu="3")), **grouped(options={"scale-down-utilization-threshold": 0.8})},
            id="or of the group",
        ),
        pytest.param(
            {**pods(running(cpu="3", owner="DaemonSet/web"), daemonSets=[named("web")])},
            UnremovableReason.NOT_UNDERUTILIZED,
            {
                **pods(running(cpu="3", owner="DaemonSet/web"), daemonSets=[named("web")]),
                **options(ignore_daemonsets_utilization="true"),
            },
            id="DaemonSets count as use unless told otherwise",
        ),
        pytest.param(
            {**options(scale_down_unneeded_time="10m")},
            UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH,
            {**options(scale_down_unneeded_time="10m"), **grouped(options={"scale-down-unneeded-time": "5s"})},
            id="not unneeded long enough",
        ),
        pytest.param(
            {**nodes(unready()), **options(scale_down_unready_time="10m")},
            UnremovableReason.NOT_UNREADY_LONG_ENOUGH,
            {**nodes(unready()), **options(scale_down_unneeded_time="10m")},
            id="unready nodes have a time of their own",
        ),
        pytest.param(
            {**options(cores_total="68:1000")},
            UnremovableReason.MINIMAL_RESOURCES,
            {**options(cores_total="64:1000")},
            id="the cluster must keep so many cores",
        ),
        pytest.param(
            {**options(memory_total="17:1000")},
            UnremovableReason.MINIMAL_RESOURCES,
            {**options(memory_total="16:1000")},
            id="and so much memory",
        ),
        pytest.param(
            {**options(scale_down_window="0 22 * * *;1h")},
            UnremovableReason.OUTSIDE_WINDOW,
            {**options(scale_down_window="0 12 * * *;1h")},
            id="outside the maintenance windows",
        ),
        pytest.param(
            {"options": {"scale-down-window": ["0 12 * * *;1h", "g=0 22 * * *;1h"]}},
            UnremovableReason.OUTSIDE_WINDOW,
            {"options": {"scale-down-window": ["0 22 * * *;1h", "g=0 12 * * 1;1h"]}},
            id="or those of its group",
        ),
        pytest.param(
            {**options(max_node_deletions_per_minute="1")},
            UnremovableReason.TOO_MANY_A_MINUTE,
            {**options(max_node_deletions_per_minute="1"), "step": "61s"},
            id="within a minute of the start where removals are limited",
        ),
        pytest.param(
            {**pods(running()), **options(max_drain_parallelism="0")},
            UnremovableReason.MAX_DELETIONS,
            {**pods(running()), **options(max_drain_parallelism="1")},
            id="or be drained at a time",
        ),
        pytest.param(
            pods(running(annotations={SAFE: "on-completion"})),
            UnremovableReason.ON_COMPLETION,
            pods(running(annotations={SAFE: "on-complete"})),
            id="a pod must run to its end first",
        ),
    ],
)
def test_a_node_stays(stays: Json, reason: UnremovableReason, goes: Json) -> None:
    kept = played(**stays)
    assert kept.runs[-1].unremovable["n"].reason is reason
    assert gone(kept) == []
    assert gone(played(**goes)) == ["n"]


def test_gpu_nodes_are_judged_by_their_gpus_alone() -> None:
    busy_cpu = gpus(used=2)
    assert gone(played(**busy_cpu)) == ["n"]
    answer = played(**gpus(used=3))
    assert (answer.runs[-1].unremovable["n"].reason, gone(answer)) == (UnremovableReason.NOT_UNDERUTILIZED, [])
    assert gone(played(**gpus(used=3), **options(scale_down_gpu_utilization_threshold="0.75"))) == ["n"]
    assert gone(played(**gpus(used=2, options={"scale-down-gpu-utilization-threshold": 0.4}))) == []


def reasons(answer: PlanAnswer, run: int = -1) -> dict[str, UnremovableReason]:
    return {name: kept.reason for name, kept in answer.runs[run].unremovable.items() if name != "home"}


def two_nodes(*more: Json, **fields: Any) -> PlanAnswer:
    """Nodes `a` and `b`, each with one pod of `web`."""
    both = [running(f"web-{name}", node=name) for name in "ab"]
    return played(nodes=[a_node(name) for name in "ab"], pods=[*both, *more], **fields)


@pytest.mark.parametrize(("allowed", "going"), [(0, []), (1, ["a"]), (2, ["a", "b"])])
def test_a_budget_is_shared_by_all_nodes_of_a_plan(allowed: int, going: list[str]) -> None:
    answer = two_nodes(podDisruptionBudgets=[a_budget(allowed)], options={"max-drain-parallelism": "2"})
    assert gone(answer) == going
    first = answer.runs[0].unremovable
    blocked = [name for name in "ab" if first[name].pod_reason is BlockingReason.BUDGET]
    assert blocked == [name for name in "ab" if name not in going]


@pytest.mark.parametrize(("drains", "going"), [("1", ["a"]), ("2", ["a", "b"])])
def test_so_many_are_drained_at_a_time(drains: str, going: list[str]) -> None:
    answer = two_nodes(options={"max-drain-parallelism": drains})
    assert gone(answer) == going
    assert reasons(answer) == {name: UnremovableReason.MAX_DELETIONS for name in "ab" if name not in going}


@pytest.mark.parametrize(("flag", "going"), [("1", ["a"]), ("2", ["a", "b"])])
def test_the_older_name_of_the_parallelism_counts(flag: str, going: list[str]) -> None:
    answer = played(nodes=[a_node("a"), a_node("b")], options={"max-empty-bulk-delete": flag})
    assert gone(answer) == going


def test_a_pod_that_fits_nowhere_else_keeps_its_node_and_the_node_is_left_alone_for_a_while() -> None:
    wide = pods(running(cpu="2"), running("rest", "home", cpu="63"))
    answer = played(**wide)
    assert [reasons(answer, run) for run in (0, 1)] == [
        {"n": UnremovableReason.NO_PLACE},
        {"n": UnremovableReason.RECENTLY_UNREMOVABLE},
    ]
    again = played(**wide, options={"unremovable-node-recheck-timeout": "0s"})
    assert [reasons(again, run) for run in (0, 1)] == [{"n": UnremovableReason.NO_PLACE}] * 2
    assert (gone(answer), gone(again)) == ([], [])
    freed: Json = {"changes": [{"beforeRun": 1, "removePods": ["default/rest"]}], "runs": 3}
    assert gone(played(**wide, **freed)) == []
    assert gone(played(**wide, **freed, options={"unremovable-node-recheck-timeout": "0s"})) == ["n"]


@pytest.mark.parametrize(
    ("min_size", "going"), [pytest.param(0, ["a", "b"], id="both"), pytest.param(1, ["a"], id="one stays")]
)
def test_a_plan_keeps_the_minimum_of_a_group(min_size: int, going: list[str]) -> None:
    answer = played(nodes=[a_node("a"), a_node("b")], nodeGroups=[a_group(targetSize=2, minSize=min_size)])
    assert gone(answer) == going
    assert reasons(answer) == {name: UnremovableReason.MIN_SIZE for name in "ab" if name not in going}


@pytest.mark.parametrize(
    ("pod", "going", "why"),
    [
        pytest.param(running(node="a"), ["a", "b"], {}, id="all can go"),
        pytest.param(
            running(node="a", owner=""),
            [],
            {"a": UnremovableReason.RECENTLY_UNREMOVABLE, "b": UnremovableReason.ATOMIC},
            id="one not",
        ),
    ],
)
def test_a_group_that_goes_as_a_whole(pod: Json, going: list[str], why: dict[str, UnremovableReason]) -> None:
    whole = [a_group(targetSize=2, options={"zero-or-max-node-scaling": True})]
    answer = played(nodes=[a_node("a"), a_node("b")], nodeGroups=whole, pods=[pod])
    assert (gone(answer), reasons(answer)) == (going, why)


def test_cooldowns_hold_everything_back_or_one_group() -> None:
    """Run 1 scales `big` up, so run 2 may remove nothing, or nothing of `big`."""
    world: Json = {
        "nodes": [a_node("n")],
        "nodeGroups": [a_group(targetSize=1), a_group("big", a_template("99"))],
        "pods": [running("big-0", "", cpu="80")],
    }
    spared = {**OPTIONS, "scale-down-delay-after-add": "10m"}
    everywhere = played(**world, options=spared)
    assert [run.scale_down_result for run in everywhere.runs] == ["InCooldown", "InCooldown"]
    assert gone(everywhere) == []
    locally = played(**world, options={**spared, "scale-down-delay-type-local": "true"})
    assert gone(locally) == ["n"]
    full: Json = {"pods": [running(), running("rest", "home", cpu="63500m"), running("big-0", "", cpu="4")]}
    group = played(**full, options={**spared, "scale-down-delay-type-local": "true"})
    assert (reasons(group), gone(group)) == ({"n": UnremovableReason.GROUP_COOLING_DOWN}, [])
    assert gone(played(**full, options={"scale-down-delay-after-add": "5s"})) == ["n"]


def taint(key: str, at: str, effect: str) -> Json:
    return {"key": key, "value": at, "effect": effect}


NOON_S = 1_767_614_400
"""`AT` in Unix seconds."""


@pytest.mark.parametrize(
    ("ago_s", "ttl", "going"),
    [
        pytest.param(900, "30m", ["n"], id="a mark that is old enough"),
        pytest.param(300, "30m", [], id="a mark that is too young"),
        pytest.param(900, "0s", [], id="marks that do not count"),
        pytest.param(900, "10m", [], id="a mark that is too old"),
    ],
)
def test_unneeded_time_survives_a_restart_in_the_soft_taint(ago_s: int, ttl: str, going: list[str]) -> None:
    marked = a_node(
        "n", taints=[taint("DeletionCandidateOfClusterAutoscaler", str(NOON_S - ago_s), "PreferNoSchedule")]
    )
    flags = {"scale-down-unneeded-time": "10m", "node-deletion-candidate-ttl": ttl}
    answer = played(nodes=[marked], options=flags, runs=1)
    assert gone(answer) == going
    assert reasons(answer) == ({} if going else {"n": UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH})


def test_the_hard_taint_of_an_earlier_process_is_cleaned_up_at_the_start() -> None:
    """What it had begun does not count as being deleted: the next pass judges the node like any other."""
    left = a_node("n", taints=[taint("ToBeDeletedByClusterAutoscaler", str(NOON_S - 10), "NoSchedule")])
    answer = played(nodes=[left], runs=3)
    assert gone(answer) == ["n"]
    used = played(nodes=[left], pods=[running(cpu="3")])
    assert (reasons(used), gone(used)) == ({"n": UnremovableReason.NOT_UNDERUTILIZED}, [])


@pytest.mark.parametrize(("patience", "going"), [("10s", ["n"]), ("10m", [])])
def test_an_annotation_delays_the_deletion_for_so_long(patience: str, going: list[str]) -> None:
    held = a_node("n", meta={"annotations": {"delay-deletion.cluster-autoscaler.kubernetes.io/volumes": "detaching"}})
    answer = played(nodes=[held], options={"node-deletion-delay-timeout": patience})
    assert [one.node for one in answer.runs[-1].deleted_empty] == ["n"], "its removal begins"
    assert gone(answer) == going


def test_a_removal_begun_within_a_window_ends_after_it_and_no_other_begins() -> None:
    """The window is open for the second run alone; the drain takes longer, the node of the third run has to wait."""
    answer = played(
        nodes=[a_node(name) for name in "abc"],
        nodeToGroup=dict.fromkeys("abc", "g"),
        options={
            "scale-down-window": "0 12 * * *;15s",
            "node-delete-delay-after-taint": "30s",
            "max-scale-down-parallelism": "1",
        },
        runs=6,
    )
    assert [[one.node for one in run.deleted_empty] for run in answer.runs] == [[], ["a"], [], [], [], []]
    assert gone(answer) == ["a"]
    assert answer.runs[-1].cloud_deletes == []
    left = answer.runs[2].unremovable["b"]
    assert (left.reason, left.detail) == (UnremovableReason.OUTSIDE_WINDOW, "the next window opens in 23h59m39s")
    assert left.time_left_s == pytest.approx(86400 - 21)


def test_nodes_go_at_the_rate_of_the_limits() -> None:
    names = [f"n{number}" for number in range(6)]
    answer = played(
        nodes=[a_node(name) for name in names],
        options={"max-node-deletions-per-minute": ["3", "g=2"]},
        step="20s",
        runs=14,
    )
    begun = [len(run.deleted_empty) for run in answer.runs]
    assert sum(begun) == 6
    assert all(sum(begun[run : run + 3]) <= 2 for run in range(14)), "any minute, the first one included"
    assert begun[:4] == [0, 0, 0, 2]
    held = answer.runs[4].unremovable["n2"]
    assert held.reason is UnremovableReason.TOO_MANY_A_MINUTE
    assert held.time_left_s == pytest.approx(40.0)
    free = played(nodes=[a_node(name) for name in names])
    assert gone(free) == names


def test_a_window_or_limit_of_a_group_that_does_not_exist_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    flags = {"scale-down-window": "wbe=0 22 * * *;1h", "max-node-deletions-per-minute": "dB=1"}
    answer = played(options=flags)
    assert gone(answer) == ["n"], "other groups are free"
    (said,) = [record for record in caplog.records if record.getMessage() == "config.unknown_groups"]
    assert vars(said)["fields"]["groups"] == ["dB", "wbe"]
    caplog.clear()
    played(options={"scale-down-window": "g=0 22 * * *;1h"})
    assert "unknown_groups" not in caplog.text
