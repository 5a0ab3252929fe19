"""Whole scenarios in which an answer is easily wrong, and what each has to be. The files are in `cases/`."""

import json
from pathlib import Path

import pytest
import yaml

from autoscaler.explain.answer import PodExplanation
from autoscaler.explain.explain import parse_targets
from autoscaler.explain.remedies.changes import SetFlag
from autoscaler.reasons import ScaleUpResult
from autoscaler.scenario.codec import decode
from autoscaler.scenario.scenario import Scenario
from autoscaler.simulator.answer import PlanAnswer, RunAnswer
from autoscaler.simulator.play import play, play_and_explain

CASES = Path(__file__).parent / "cases"


def scenario(name: str, **options: str) -> Scenario:
    document = yaml.safe_load((CASES / name).read_text())
    document["options"] = {**document.get("options", {}), **options}
    return decode(json.dumps(document).encode(), name)


def answer(name: str, **options: str) -> PlanAnswer:
    return play(scenario(name, **options))


def removed(run: RunAnswer) -> tuple[int, int]:
    """How many nodes go drained, and how many empty."""
    return len(run.deleted_drain), len(run.deleted_empty)


@pytest.mark.parametrize("compatibility", ["head", "1.31"])
@pytest.mark.parametrize(
    ("case", "going"),
    [
        pytest.param("budget-empty-beside-atomic-drain.json", (8, 2), id="a group that is drained whole"),
        pytest.param("budget-empty-beside-plain.json", (4, 5), id="nodes that are drained within the budget"),
    ],
)
def test_empty_nodes_ask_only_for_the_budget_of_all_removals(
    case: str, going: tuple[int, int], compatibility: str
) -> None:
    _, run, *_ = answer(case, compatibility=compatibility).runs
    assert removed(run) == going


@pytest.mark.parametrize(
    ("case", "compatibility", "decreases", "ends"),
    [
        pytest.param("size-fix-group-without-any-node.json", "1.31", [], [], id="1.31 never without a node"),
        pytest.param("size-fix-group-with-one-node.json", "1.31", [-2], ["NodeGroupSizesFixed"], id="1.31 with a node"),
        pytest.param("size-fix-group-without-any-node.json", "head", [-3], ["Complete"], id="without a node"),
        pytest.param("size-fix-group-with-one-node.json", "head", [-2], ["Complete"], id="with a node"),
    ],
)
def test_a_target_that_nothing_stands_behind_is_lowered_once(
    case: str, compatibility: str, decreases: list[int], ends: list[str]
) -> None:
    runs = answer(case, compatibility=compatibility).runs
    assert [decrease.increase for run in runs for decrease in run.target_decreases] == decreases
    assert [run.end for run in runs if run.target_decreases] == ends
    assert {run.end for run in runs if not run.target_decreases} == {"Complete"}
    assert [run.error for run in runs] == [""] * 5


def test_nodes_whose_partitioned_devices_are_taken_stay() -> None:
    for run in answer("partitioned-devices.yaml").runs:
        assert {name: (one.reason, one.utilization) for name, one in run.unremovable.items()} == {
            "gpu-1": ("NotUnderutilized", 1.0),
            "gpu-2": ("NotUnderutilized", 1.0),
        }
        assert (run.deleted_drain, run.deleted_empty) == ([], [])


def test_pods_of_a_stateful_set_share_nodes_whatever_their_volumes() -> None:
    (run,) = answer("stateful-set-with-volumes.yaml").runs
    assert {scale_up.group: scale_up.increase for scale_up in run.scale_ups} == {"g": 3}
    assert len(run.pods_triggered_scale_up) == 6
    assert run.pods_remain_unschedulable == run.pods_await_evaluation == []


def test_nodes_are_bought_by_how_many_volumes_one_can_attach() -> None:
    document = yaml.safe_load((CASES / "stateful-set-with-volumes.yaml").read_text())
    document["nodeGroups"][0]["template"]["status"]["allocatable"]["cpu"] = "64"
    document["nodeGroups"][0]["template"]["spec"] = {"attachLimits": {"x": 2}}
    (run,) = play(decode(json.dumps(document).encode(), "attach limits")).runs
    assert {one.group: one.increase for one in run.scale_ups} == {"g": 3}
    document["options"] = {"enable-csi-node-aware-scheduling": False}
    (run,) = play(decode(json.dumps(document).encode(), "no attach limits")).runs
    assert {one.group: one.increase for one in run.scale_ups} == {"g": 1}


def test_pods_of_a_stateful_set_without_room_are_told_why_together() -> None:
    document = yaml.safe_load((CASES / "stateful-set-with-volumes.yaml").read_text())
    document["nodeGroups"][0]["template"]["status"]["allocatable"]["cpu"] = "1"
    for index, pod in enumerate(document["pods"]):
        pod["metadata"]["labels"] = {"apps.kubernetes.io/pod-index": f"{index}"}
    (run,) = play(decode(json.dumps(document).encode(), "too small")).runs
    (stuck,) = run.reasons.unschedulable
    assert len(stuck.pods) == 6


@pytest.mark.parametrize("compatibility", ["head", "1.31"])
@pytest.mark.parametrize("run", [0, 1, 2])
@pytest.mark.parametrize(("pod", "limit"), [("p-new-2", "4"), ("p-new-3", "5")])
def test_the_limit_of_nodes_is_the_reason_and_the_remedy(pod: str, limit: str, run: int, compatibility: str) -> None:
    targets = parse_targets([f"pod/default/{pod}"])
    case = scenario("max-nodes-total-remedy.json", compatibility=compatibility)
    (explained,) = play_and_explain(case, targets, run=run).explained
    assert isinstance(explained, PodExplanation)
    assert explained.verdict == ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
    assert explained.remedy is not None
    assert explained.remedy.changes == [SetFlag(flag="max-nodes-total", value=limit)]
    told = play(case).runs[run].reasons
    assert [(one.reason, one.pods) for one in told.held] == [
        (ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL.value, ["default/p-new-2", "default/p-new-3"])
    ]


@pytest.mark.parametrize(
    ("created", "increases"),
    [
        pytest.param("2026-01-05T12:00:00Z", [[1], [], []], id="a young node"),
        pytest.param("2026-01-05T11:00:00Z", [[1], [1], []], id="one that has had its time"),
    ],
)
def test_a_node_on_which_a_csi_driver_comes_later_is_upcoming(created: str, increases: list[list[int]]) -> None:
    document = yaml.safe_load((CASES / "csi-driver-comes-later.yaml").read_text())
    document["changes"][0]["addNodes"][0]["metadata"]["creationTimestamp"] = created
    runs = play(decode(json.dumps(document).encode(), "drivers")).runs
    assert [[one.increase for one in run.scale_ups] for run in runs] == increases


def test_a_deferred_resize_says_what_its_node_lacks_and_buys_nothing() -> None:
    for run in answer("resize-deferred.yaml").runs:
        assert [(one.pod, one.node, one.lacks) for one in run.deferred_resizes] == [
            ("default/r", "n1", {"cpu": "1500m"})
        ]
        assert run.scale_ups == []


def test_room_for_a_deferred_resize_is_bought_once_and_kept() -> None:
    runs = answer("resize-deferred.yaml", **{"room-for-deferred-resizes": "true"}).runs
    assert [[(one.group, one.increase) for one in run.scale_ups] for run in runs] == [[("g", 1)], [], []]
    assert [(run.deleted_drain, run.deleted_empty) for run in runs] == [([], [])] * 3
    assert runs[-1].unneeded_nodes == []


def test_a_deferred_resize_is_explained() -> None:
    (found,) = play_and_explain(scenario("resize-deferred.yaml"), parse_targets(["pod/default/r"]), run=0).explained
    assert isinstance(found, PodExplanation)
    assert "its resize is deferred, because the node lacks 1.5 cpu" in found.message


def test_a_csi_driver_that_runs_on_no_node_of_a_group_is_the_reason() -> None:
    document = yaml.safe_load((CASES / "csi-driver-comes-later.yaml").read_text())
    document["csiNodes"][0]["spec"]["drivers"] = []
    del document["changes"]
    (explained,) = play_and_explain(
        decode(json.dumps(document).encode(), "no driver"), parse_targets(["pod/default/new"]), run=0
    ).explained
    assert isinstance(explained, PodExplanation)
    assert explained.remedy is not None
    assert (
        explained.remedy.cause
        == "has volumes of CSI driver disk.example.com, which does not run on new nodes of group g"
    )
