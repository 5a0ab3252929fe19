"""Whole scenarios in which an answer is easily wrong, and what each has to be. The files are in `cases/`."""

import json
from pathlib import Path

import pytest
import yaml

from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import Answer, RunAnswer
from autoscaler.simulator.play import play

CASES = Path(__file__).parent / "cases"


def answer(name: str, **options: str) -> Answer:
    document = yaml.safe_load((CASES / name).read_text())
    document["options"] = {**document.get("options", {}), **options}
    return play(decode(json.dumps(document).encode(), name))


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
    assert [one.increase for run in runs for one in run.target_decreases] == decreases
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
    assert {one.group: one.increase for one in run.scale_ups} == {"g": 3}
    assert len(run.pods_triggered_scale_up) == 6
    assert run.pods_remain_unschedulable == run.pods_await_evaluation == []
