from autoscaler.clock import VirtualClock
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.cluster import SandboxCluster
from cloudprovider.interface import ErrorClass, InstanceError, TaintSpec
from tests.manifests import a_bare_pod
from tests.unit.sandbox.actors.actors_pieces import (
    BOOT_S,
    Json,
    a_cluster,
    a_group,
    a_workload,
    condition,
    node_of,
    pod,
    pods_of,
    taint_keys,
    the_cloud,
)


def node(cluster: SandboxCluster, name: str) -> Json | None:
    try:
        return cluster.storage.get("nodes", name)
    except ApiError:
        return None


def ready(cluster: SandboxCluster, name: str) -> str | None:
    found = node(cluster, name)
    return None if found is None else condition(found, "Ready")[0]


def test_a_machine_that_runs_from_the_start_is_a_ready_node() -> None:
    found = node(a_cluster(a_group(labels={"pool": "a"}, taints=[TaintSpec("t", "v")])), "general-00")
    assert found is not None
    assert condition(found, "Ready") == ("True", "KubeletReady")
    assert found["spec"]["providerID"] == "static://general-00"
    assert found["spec"]["taints"] == [{"key": "t", "value": "v", "effect": "NoSchedule"}]
    assert found["metadata"]["labels"] == {
        "pool": "a",
        "kubernetes.io/hostname": "general-00",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    assert found["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}


def test_a_booting_machine_registers_unready_and_then_gets_ready() -> None:
    cluster = a_cluster()
    the_cloud(cluster).group("general").increase(1)
    cluster.run_for(BOOT_S)
    assert node(cluster, "general-1") is None
    cluster.run_for(2)
    assert ready(cluster, "general-1") == "False"
    assert taint_keys(cluster, "general-1") == ["node.kubernetes.io/not-ready"]
    cluster.run_for(3)
    assert ready(cluster, "general-1") == "True"
    assert taint_keys(cluster, "general-1") == []


def test_a_node_renews_its_lease_which_goes_with_it() -> None:
    cluster = a_cluster()
    cluster.run_for(5)
    before = cluster.storage.get("leases", "general-00", "kube-node-lease")["spec"]
    assert before["holderIdentity"] == "general-00"
    cluster.run_for(310)
    after = cluster.storage.get("leases", "general-00", "kube-node-lease")["spec"]
    assert after["renewTime"] > before["renewTime"]
    the_cloud(cluster).remove_machine("static://general-00", replace=False)
    cluster.run_for(10)
    assert cluster.storage.list("leases", namespace="kube-node-lease") == []


def test_a_machine_whose_creation_fails_never_registers() -> None:
    cluster = a_cluster()
    the_cloud(cluster).fail_next("general", InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT"))
    the_cloud(cluster).group("general").increase(1)
    cluster.run_for(120)
    assert cluster.counts().nodes == 1


def test_nothing_is_scheduled_to_a_node_that_is_not_ready() -> None:
    cluster = a_cluster(running=0)
    cluster.apply([a_bare_pod()])
    the_cloud(cluster).group("general").increase(1)
    assert cluster.run_until(lambda: ready(cluster, "general-1") == "False", timeout_s=30)
    cluster.run_for(1)
    assert node_of(cluster) is None
    cluster.run_for(3)
    assert node_of(cluster) == "general-1"


def test_static_pods_come_with_the_node() -> None:
    proxy = {"metadata": {"name": "proxy", "namespace": "kube-system"}, "spec": a_bare_pod(cpu="100m")["spec"]}
    cluster = a_cluster(a_group(static_pods=[proxy]))
    cluster.run_for(5)
    found = cluster.storage.get("pods", "proxy-general-00", "kube-system")
    assert (found["spec"]["nodeName"], found["status"]["phase"]) == ("general-00", "Running")
    assert "kubernetes.io/config.mirror" in found["metadata"]["annotations"]


def test_a_lost_machine_takes_its_node_and_pods_along_and_they_are_made_again() -> None:
    cluster = a_cluster(running=2)
    cluster.apply([a_workload("Deployment", replicas=4, cpu="1"), a_bare_pod("bare", nodeName="general-00")])
    cluster.run_for(10)
    the_cloud(cluster).remove_machine("static://general-00", replace=False)
    cluster.run_for(2)
    assert ready(cluster, "general-00") == "Unknown"
    assert taint_keys(cluster, "general-00") == ["node.kubernetes.io/unreachable"]
    cluster.run_for(15)
    assert node(cluster, "general-00") is None
    assert [one["spec"]["nodeName"] for one in pods_of(cluster, "web")] == ["general-01"] * 4
    assert cluster.counts().pods == {"Running": 4}


def test_pods_on_an_unreachable_node_neither_start_nor_stop() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod()])
    cluster.run_for(10)
    the_cloud(cluster).remove_machine("static://general-00", replace=False)
    cluster.run_for(1)
    cluster.storage.delete("pods", "p")
    cluster.apply([a_bare_pod("late", nodeName="general-00")])
    cluster.run_for(3)
    assert pod(cluster)["metadata"]["deletionTimestamp"]
    assert "startTime" not in pod(cluster, "late")["status"]


def test_a_node_that_somebody_deleted_does_not_come_back_and_its_pods_go() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod()])
    cluster.run_for(10)
    cluster.storage.delete("nodes", "general-00")
    cluster.run_for(600)
    assert cluster.counts().nodes == 0
    assert cluster.storage.list("pods") == []


def test_a_cordon_shows_as_a_taint() -> None:
    cluster = a_cluster()
    for cordoned, expected in ((True, ["node.kubernetes.io/unschedulable"]), (None, [])):
        cluster.storage.patch("nodes", "general-00", {"spec": {"unschedulable": cordoned}})
        cluster.run_for(1)
        assert taint_keys(cluster, "general-00") == expected


def test_taints_of_others_are_left_alone() -> None:
    cluster = a_cluster()
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}
    cluster.storage.patch("nodes", "general-00", {"spec": {"taints": [taint], "unschedulable": True}})
    cluster.run_for(1)
    assert taint_keys(cluster, "general-00") == ["ToBeDeletedByClusterAutoscaler", "node.kubernetes.io/unschedulable"]


def test_a_quiet_node_reports_rarely() -> None:
    cluster = a_cluster()
    cluster.run_for(10)
    before = cluster.storage.revision
    cluster.run_for(899)
    assert cluster.storage.revision - before == 2 * 3, "the node and its lease"


def test_kwok_nodes_become_ready_without_a_cloud() -> None:
    cluster = SandboxCluster(VirtualClock(wall=1_700_000_000.0))
    metadata = {"name": "fake", "annotations": {"kwok.x-k8s.io/node": "fake"}}
    size = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    status = {"capacity": size, "allocatable": size}
    cluster.apply([{"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}, a_bare_pod()])
    cluster.run_for(1)
    assert "conditions" not in cluster.storage.get("nodes", "fake")["status"]
    cluster.run_for(9)
    assert ready(cluster, "fake") == "True"
    assert (node_of(cluster), pod(cluster)["status"]["phase"]) == ("fake", "Running")
