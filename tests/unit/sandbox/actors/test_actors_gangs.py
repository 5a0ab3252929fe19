"""The scheduler of the sandbox and gangs: enough pods of one at once, or none."""

import pytest

from autoscaler.sandbox.cluster import SandboxCluster
from tests.manifests import a_bare_pod
from tests.unit.sandbox.actors.actors_pieces import Json, a_cluster, a_group, node_of, pod

ZONE = "topology.kubernetes.io/zone"


def members(count: int, first: int = 0, cpu: str = "4", **fields: Json) -> list[Json]:
    marked = {"schedulingGroup": {"podGroupName": "job"}, **fields}
    return [a_bare_pod(f"job-{number}", cpu=cpu, **marked) for number in range(first, first + count)]


def a_pod_group(count: int, key: str = "") -> Json:
    constraints = {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": count}}, **constraints},
    }


def bound(cluster: SandboxCluster, count: int) -> int:
    return sum(node_of(cluster, f"job-{number}") is not None for number in range(count))


@pytest.mark.parametrize(
    ("wanted", "pods", "expected"),
    [
        pytest.param(3, 3, 3, id="all find a node"),
        pytest.param(4, 4, 0, id="too few find a node"),
        pytest.param(4, 3, 0, id="too few exist"),
        pytest.param(2, 4, 3, id="the minimum finds a node"),
        pytest.param(1, 4, 3, id="a minimum of one"),
    ],
)
def test_a_gang_starts_whole_or_not_at_all(wanted: int, pods: int, expected: int) -> None:
    cluster = a_cluster(a_group("g", cpu="4"), running=3)
    cluster.apply([a_pod_group(wanted), *members(pods)])
    cluster.run_for(5)
    assert bound(cluster, pods) == expected
    if expected == 0:
        (scheduled,) = (one for one in pod(cluster, "job-0")["status"]["conditions"] if one["type"] == "PodScheduled")
        assert (scheduled["reason"], scheduled["message"]) == (
            "Unschedulable",
            f"gang default/job: too few of its pods find a node, {wanted} have to",
        )


def test_pods_that_come_later_complete_it() -> None:
    cluster = a_cluster(a_group("g", cpu="4"), running=3)
    cluster.apply([a_pod_group(3), *members(2)])
    cluster.run_for(5)
    assert bound(cluster, 2) == 0
    cluster.apply(members(1, first=2))
    cluster.run_for(5)
    assert bound(cluster, 3) == 3


@pytest.mark.parametrize(("wanted", "expected"), [(2, 2), (3, 0)])
def test_its_nodes_share_a_label(wanted: int, expected: int) -> None:
    zones = (a_group("one", cpu="4", labels={ZONE: "a"}), a_group("two", cpu="4", labels={ZONE: "b"}))
    cluster = a_cluster(*zones, running=2)
    cluster.apply([a_pod_group(wanted, ZONE), *members(wanted)])
    cluster.run_for(5)
    assert bound(cluster, wanted) == expected


def test_other_pods_take_the_room_that_a_gang_cannot_use() -> None:
    cluster = a_cluster(a_group("g", cpu="4"), running=2)
    cluster.apply([a_pod_group(3), *members(3), a_bare_pod("other", cpu="4")])
    cluster.run_for(5)
    assert (bound(cluster, 3), node_of(cluster, "other") is not None) == (0, True)
