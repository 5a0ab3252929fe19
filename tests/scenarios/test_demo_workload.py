"""The demo's cluster in virtual time, with machines bought by hand as an autoscaler would buy them."""

from collections.abc import Iterator

import pytest

from autoscaler.clock import VirtualClock
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.cluster import SandboxCluster
from autoscaler.sandbox.demo_workload import NAMESPACES, demo_cloud, demo_workload
from cloudprovider.interface import NodeRef
from cloudprovider.static.cloud import StaticCloud, open_cloud

NEEDED = {"general": 3, "memory": 1, "batch": 1}


def a_demo() -> tuple[SandboxCluster, StaticCloud]:
    clock = VirtualClock(wall=1_700_000_000.0)
    cloud = open_cloud(demo_cloud(), now=lambda: clock.now().wall)
    cluster = SandboxCluster(clock, cloud)
    cluster.apply(demo_workload())
    return cluster, cloud


def unschedulable(cluster: SandboxCluster) -> set[str]:
    """Apps with pods that the scheduler has given up on for now."""
    found = set()
    for pod in cluster.storage.list("pods", field_selector="spec.nodeName="):
        for condition in pod["status"].get("conditions") or ():
            if (condition["type"], condition.get("reason")) == ("PodScheduled", "Unschedulable"):
                found.add(pod["metadata"]["labels"]["app"])
    return found


def evictions(cluster: SandboxCluster, node: str) -> Iterator[ApiError | None]:
    """Try once to evict each pod of the workload from a node; yield what the server says against it."""
    for pod in cluster.storage.list("pods", field_selector=f"spec.nodeName={node}"):
        if pod["metadata"]["namespace"] in NAMESPACES and "deletionTimestamp" not in pod["metadata"]:
            try:
                cluster.storage.evict(pod["metadata"]["name"], pod["metadata"]["namespace"])
                yield None
            except ApiError as error:
                yield error


def settled(cluster: SandboxCluster) -> bool:
    counts = cluster.counts()
    return counts.pending == 0 and counts.pods.get("Terminating", 0) == 0


def test_pods_wait_at_once_for_machines_of_every_group() -> None:
    cluster, _ = a_demo()
    cluster.run_for(2)
    assert unschedulable(cluster) == {"web", "api", "cache", "report"}
    assert cluster.counts().nodes == 1


def test_with_the_machines_that_are_lacking_everything_runs_within_half_a_minute() -> None:
    cluster, cloud = a_demo()
    cluster.run_for(2)
    for group, count in NEEDED.items():
        cloud.group(group).increase(count)
    assert cluster.run_until(lambda: settled(cluster), timeout_s=30)
    counts = cluster.counts()
    assert (counts.nodes, counts.ready_nodes) == (6, 6)
    assert sum(counts.pods.values()) == 6 + 10 + 3 + 2 + 4


@pytest.mark.parametrize("lacking", sorted(NEEDED))
def test_every_group_is_needed(lacking: str) -> None:
    cluster, cloud = a_demo()
    cluster.run_for(2)
    for group, count in NEEDED.items():
        if group != lacking:
            cloud.group(group).increase(count)
    cluster.run_for(60)
    assert cluster.counts().pending > 0


def test_a_drained_node_empties_within_the_budgets_and_its_pods_run_elsewhere() -> None:
    cluster, cloud = a_demo()
    cluster.run_for(2)
    for group, count in (*NEEDED.items(), ("general", 1)):
        cloud.group(group).increase(count)
    assert cluster.run_until(lambda: settled(cluster), timeout_s=60)
    cluster.storage.patch("nodes", "general-1", {"spec": {"unschedulable": True}})
    for _ in range(120):
        cluster.run_for(0.5)
        refused = [error.code for error in evictions(cluster, "general-1") if error is not None]
        assert set(refused) <= {429}
        web = cluster.storage.get("poddisruptionbudgets.policy", "web", "shop")["status"]
        assert web["currentHealthy"] >= web["desiredHealthy"]
    assert [
        pod["metadata"]["labels"]["app"]
        for pod in cluster.storage.list("pods", field_selector="spec.nodeName=general-1")
    ] == ["node-agent"]
    cloud.group("general").delete([NodeRef("general-1", "static://general-1")])
    assert cluster.run_until(lambda: cluster.counts().nodes == 6, timeout_s=30)
    cluster.run_for(5)
    assert settled(cluster)
    assert cluster.storage.get("deployments.apps", "web", "shop")["status"]["availableReplicas"] == 10
