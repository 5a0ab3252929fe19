"""The daemon over Cluster API: in a cluster that manages itself, and with the Machines in another."""

from pathlib import Path

from autoscaler.sandbox.apiserver.faults import Fault
from tests.e2e.machines import Machinery, a_group
from tests.e2e.replica import READING, Replica, Sandbox, until
from tests.fakes import capi

FLAGS = ("--cloud-provider=clusterapi", "--leader-elect=false")
SCALES_DOWN = (
    "--scale-down-unneeded-time=1s",
    "--scale-down-delay-after-add=0s",
    "--scale-down-utilization-threshold=0.95",
    "--unremovable-node-recheck-timeout=1s",
    "--node-delete-delay-after-taint=0s",
)


MACHINES = capi.MACHINES


def node_of(sandbox: Sandbox, app: str) -> str:
    """Return the node that the one pod of an app runs on."""
    pods = [pod for pod in sandbox.storage.list("pods") if pod["metadata"]["labels"].get("app") == app]
    (name,) = {pod["spec"]["nodeName"] for pod in pods}
    return str(name)


def test_pending_pods_get_machines_and_the_idle_one_goes(tmp_path: Path) -> None:
    with Sandbox(tmp_path) as sandbox, Machinery(sandbox) as machinery:
        machinery.add(a_group("MachineDeployment", "web"))
        with Replica(sandbox.kubeconfig, *FLAGS, *SCALES_DOWN) as replica:
            for name in ("one", "two", "three"):
                sandbox.deploy(name, 1)
            sandbox.until_running(3)
            assert machinery.replicas() == {"web": 3}
            idle = node_of(sandbox, "two")  # neither the oldest nor the newest, which controllers would choose
            stay = {node_of(sandbox, name) for name in ("one", "three")}
            sandbox.deploy("two", 0)
            until(lambda: len(sandbox.nodes()) == 2, "the idle node is gone")
            assert set(sandbox.nodes()) == stay
            assert idle not in stay
            assert machinery.replicas() == {"web": 2}
            assert sandbox.running() == 2
            assert replica.stop() == 0


def test_roles_made_for_cluster_autoscaler_are_enough(tmp_path: Path) -> None:
    """They let Machines be got and updated, and not patched."""
    with Sandbox(tmp_path) as sandbox, Machinery(sandbox) as machinery:
        machinery.add(a_group("MachineDeployment", "web"))
        sandbox.server.faults.add(Fault(verb="patch", resource=MACHINES, code=403))
        with Replica(sandbox.kubeconfig, *FLAGS, *SCALES_DOWN) as replica:
            for name in ("one", "two"):
                sandbox.deploy(name, 1)
            sandbox.until_running(2)
            sandbox.deploy("two", 0)
            until(lambda: len(sandbox.nodes()) == 1, "the idle node is gone")
            assert replica.stop() == 0


def test_a_deletion_that_is_not_permitted_costs_no_eviction_and_is_not_tried_all_the_time(tmp_path: Path) -> None:
    flags = (*FLAGS, *SCALES_DOWN, "--unremovable-node-recheck-timeout=10m", "--scale-down-delay-after-failure=0s")
    with Sandbox(tmp_path) as sandbox, Machinery(sandbox) as machinery:
        machinery.add(a_group("MachineDeployment", "web"))
        for name in ("one", "two", "three"):
            sandbox.deploy(name, 1)
        with Replica(sandbox.kubeconfig, *FLAGS) as replica:
            sandbox.until_running(3)
            assert replica.stop() == 0
        sandbox.server.faults.add(Fault(verb="update", resource=MACHINES, code=403))
        sandbox.deploy("two", 0)
        with Replica(sandbox.kubeconfig, *flags, name="refused") as replica:
            until(lambda: "ProviderRefusesDeletion" in replica.get("/api/v1/nodes")[1], "the reason is told")
            tried = [one for one in sandbox.asked("refused") if one.verb == "update" and one.resource == "machines"]
            passes = len([one for one in sandbox.asked("refused") if one.verb == "list" and one.resource == "machines"])
            until(
                lambda: (
                    len([one for one in sandbox.asked("refused") if one.verb == "list" and one.resource == "machines"])
                    > passes + 5
                ),
                "it looks on",
            )
            again = [one for one in sandbox.asked("refused") if one.verb == "update" and one.resource == "machines"]
            assert len(tried) == len(again) == 1
            assert replica.stop() == 0
        assert [one for one in sandbox.asked("refused") if one.subresource == "eviction"] == []
        assert len(sandbox.nodes()) == 3
        assert not any(node["spec"].get("taints") for node in sandbox.storage.list("nodes"))


def test_machines_may_be_in_another_cluster(tmp_path: Path) -> None:
    (tmp_path / "management").mkdir()
    (tmp_path / "workload").mkdir()
    with (
        Sandbox(tmp_path / "management") as management,
        Sandbox(tmp_path / "workload") as workload,
        Machinery(management, workload) as machinery,
    ):
        machinery.add(a_group("MachineSet", "web"))
        flags = (*FLAGS, f"--cloud-config={management.kubeconfig}", "--clusterapi-cloud-config-authoritative")
        with Replica(workload.kubeconfig, *flags, name="split") as replica:
            workload.deploy("web", 2)
            workload.until_running(2)
            assert machinery.replicas() == {"web": 2}
            assert replica.stop() == 0
    assert management.nodes() == []
    assert {one.resource for one in management.asked("split") if one.verb not in READING} == {"machinesets"}
    assert "machinesets" not in {one.resource for one in workload.asked("split")}


def test_a_dry_run_writes_to_neither_cluster(tmp_path: Path) -> None:
    with Sandbox(tmp_path) as sandbox, Machinery(sandbox) as machinery:
        machinery.add(a_group("MachineDeployment", "web"))
        sandbox.deploy("web", 2)
        with Replica(sandbox.kubeconfig, "--cloud-provider=clusterapi", "--dry-run", name="rehearsal") as replica:
            until(lambda: "MachineDeployment/default/web" in replica.get("/api/v1/plans")[1], "a plan is shown")
            assert replica.stop() == 0
        assert machinery.replicas() == {"web": 0}
        assert {one.verb for one in sandbox.asked("rehearsal")} <= READING


def test_an_idle_pass_costs_four_lists(tmp_path: Path) -> None:
    with Sandbox(tmp_path) as sandbox, Machinery(sandbox) as machinery:
        machinery.add(a_group("MachineDeployment", "web"))
        with Replica(sandbox.kubeconfig, *FLAGS, name="idle") as replica:
            until(lambda: len([one for one in sandbox.asked("idle") if one.resource == "machines"]) > 3, "it passes")
            assert replica.stop() == 0
        asked = [one for one in sandbox.asked("idle") if one.group == "cluster.x-k8s.io" and one.resource]
        counts = dict.fromkeys(((one.verb, one.resource) for one in asked), 0)
        for one in asked:
            counts[one.verb, one.resource] += 1
        assert {verb for verb, _ in counts} == {"list"}
        assert max(counts.values()) - min(counts.values()) <= 1
        assert len(counts) == 4
