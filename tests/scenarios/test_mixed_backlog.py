"""A backlog of pods that spread over zones, keep apart, or just need room, served by groups in three zones."""

import json
from typing import Any

import pytest

from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import PlanAnswer
from autoscaler.simulator.play import play
from tests.manifests import Json, a_group, a_node, a_template, replicas

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SIZES = (("4", "8Gi"), ("8", "32Gi"))


def of_owner(owner: int, count: int) -> list[Json]:
    labels = {"app": f"app{owner}"}
    spec: Json = {}
    if owner % 3 == 1:
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": labels}}]
    elif owner % 3 == 2:
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    memory = {"memory": f"{200 + 170 * ((owner * 5) % 9)}Mi"}
    return replicas(f"app{owner}", count, f"{150 + 110 * owner}m", more=memory, **spec)


def backlog(count: int) -> list[Json]:
    """Pods of nine owners, as they would come: mixed."""
    columns = [of_owner(owner, count) for owner in range(9)]
    return [pod for row in zip(*columns, strict=True) for pod in row]


def played(**options: Any) -> PlanAnswer:
    places = {f"{zone}-{size}": (zone, *SIZES[size]) for zone in "abc" for size in range(len(SIZES))}
    templates = {name: a_template(cpu, memory, labels={ZONE: zone}) for name, (zone, cpu, memory) in places.items()}
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": options,
        "nodeGroups": [a_group(name, template, maxSize=200, targetSize=1) for name, template in templates.items()],
        "nodes": [
            a_node(f"old-{name}", cpu, memory=memory, meta={"labels": {ZONE: zone}})
            for name, (zone, cpu, memory) in places.items()
        ],
        "nodeToGroup": {f"old-{name}": name for name in places},
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
