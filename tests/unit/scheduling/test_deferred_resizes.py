"""Pods that cannot grow in place because their node is full."""

import pytest

from autoscaler.objects.pod import Pod
from autoscaler.scheduling.deferred_resizes import deferred_resizes
from autoscaler.snapshot.cluster import view_of
from tests.builders import Json, a_node, a_pod

DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def growing(cpu: str, held: str, *conditions: Json, name: str = "r", node: str = "n", memory: str = "1Gi") -> Pod:
    status = {"name": "main", "allocatedResources": {"cpu": held, "memory": memory}}
    made: Json = {"containerStatuses": [status], "conditions": list(conditions)}
    return a_pod(name, cpu=cpu, memory=memory, node=node, status=made)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([a_pod(cpu="8", node="n")], [], id="no resize"),
        pytest.param([growing("8", "1")], [], id="a resize that is under way"),
        pytest.param([growing("3", "1", DEFERRED)], [("r", {})], id="there is room by now"),
        pytest.param([growing("5", "1", DEFERRED)], [("r", {"cpu": 1000})], id="larger than what is free"),
        pytest.param(
            [growing("3", "1", DEFERRED), a_pod("other", cpu="1500m", node="n")],
            [("r", {"cpu": 500})],
            id="others take the room",
        ),
        pytest.param(
            [growing("3", "1", DEFERRED), growing("2", "1", DEFERRED, name="s")],
            [("r", {"cpu": 1000}), ("s", {"cpu": 1000})],
            id="several want to grow",
        ),
        pytest.param([growing("8", "1", {**DEFERRED, "reason": "Infeasible"})], [], id="an infeasible resize"),
        pytest.param([growing("8", "1", DEFERRED, node="gone")], [], id="on a node that is not there"),
        pytest.param(
            [growing("5", "1", DEFERRED, memory="64Gi")], [("r", {"cpu": 1000})], id="only what is to grow counts"
        ),
    ],
)
def test_what_a_node_lacks(pods: list[Pod], expected: list[tuple[str, dict[str, int]]]) -> None:
    found = deferred_resizes(view_of([a_node("m"), a_node("n")], pods))
    assert [(one.pod.name, one.lacks) for one in found] == expected
    assert {one.node for one in found} <= {"n"}


def test_the_shortage_in_words() -> None:
    (found,) = deferred_resizes(view_of([a_node("n")], [growing("4750m", "1", DEFERRED)]))
    assert found.shortage == "0.75 cpu"
