"""A backlog of pods that spread over zones, keep apart, or just need room, served by groups in three zones."""

import json
from typing import Any

import pytest

from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import PlanAnswer
from autoscaler.simulator.play import play

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SIZES = (("4", "8Gi"), ("8", "32Gi"))


def a_group(zone: str, size: int) -> dict[str, Any]:
    cpu, memory = SIZES[size]
    template = {"metadata": {"labels": {ZONE: zone}}, "status": {"capacity": {"cpu": cpu, "memory": memory}}}
    return {"id": f"{zone}-{size}", "minSize": 0, "maxSize": 200, "targetSize": 1, "template": template}


def a_node(zone: str, size: int) -> dict[str, Any]:
    template = a_group(zone, size)["template"]
    return {**template, "metadata": {**template["metadata"], "name": f"old-{zone}-{size}"}}


def pods(owner: int, count: int) -> list[dict[str, Any]]:
    labels = {"app": f"app-{owner}"}
    spec: dict[str, Any] = {}
    if owner % 3 == 1:
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": labels}}]
    elif owner % 3 == 2:
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    requests = {"cpu": f"{150 + 110 * owner}m", "memory": f"{200 + 170 * ((owner * 5) % 9)}Mi"}
    spec["containers"] = [{"resources": {"requests": requests}}]
    metadata = {"labels": labels, "ownerReferences": [{"kind": "ReplicaSet", "name": f"app-{owner}"}]}
    return [{"metadata": {**metadata, "name": f"app-{owner}-{number:03d}"}, "spec": spec} for number in range(count)]


def backlog(count: int) -> list[dict[str, Any]]:
    """Pods of nine owners, as they would come: mixed."""
    columns = [pods(owner, count) for owner in range(9)]
    return [pod for row in zip(*columns, strict=True) for pod in row]


def played(**options: Any) -> PlanAnswer:
    places = [(zone, size) for zone in ("a", "b", "c") for size in range(len(SIZES))]
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": options,
        "nodeGroups": [a_group(zone, size) for zone, size in places],
        "nodes": [a_node(zone, size) for zone, size in places],
        "nodeToGroup": {f"old-{zone}-{size}": f"{zone}-{size}" for zone, size in places},
        "pods": backlog(30),
        "runs": 6,
    }
    return play(decode(json.dumps(document).encode(), "backlog.json"))


def bought(answer: PlanAnswer) -> list[int]:
    return [sum(change.increase for change in run.scale_ups) for run in answer.runs]


def test_one_pass_serves_every_pod_and_nothing_is_bought_for_them_again() -> None:
    first, *later = played().runs
    assert first.pods_remain_unschedulable == first.pods_await_evaluation == []
    assert sum(change.increase for change in first.scale_ups) > 0
    assert [run.pods_needing_scale_up for run in later] == [[]] * 5
    assert [run.scale_ups for run in later] == [[]] * 5


@pytest.mark.parametrize("expander", ["least-waste", "most-pods", "least-nodes"])
def test_all_groups_at_once_need_no_more_nodes_than_one_after_the_other(expander: str) -> None:
    at_once = played(expander=expander)
    in_turn = played(**{"expander": expander, "groups-per-pass": "one"})
    assert len([count for count in bought(in_turn) if count]) > 1, "one pass cannot serve zones one at a time"
    assert sum(bought(at_once)) <= sum(bought(in_turn)) or in_turn.runs[-1].pods_needing_scale_up
