import os
import subprocess
import sys
import threading

import pytest

from autoscaler.clock import SystemClock, VirtualClock
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.records import StoreChange
from autoscaler.sandbox.cluster import SandboxCluster
from autoscaler.sandbox.demo_workload import demo_cloud, demo_workload
from cloudprovider.static.cloud import open_cloud
from tests.manifests import a_bare_pod

DIGEST = """
import hashlib
from autoscaler.clock import VirtualClock
from autoscaler.sandbox.cluster import SandboxCluster
from autoscaler.sandbox.demo_workload import demo_cloud, demo_workload
from cloudprovider.static.cloud import open_cloud

clock = VirtualClock(wall=1_700_000_000.0)
cloud = open_cloud(demo_cloud(seed=3), now=lambda: clock.now().wall)
cluster = SandboxCluster(clock, cloud)
history = hashlib.sha256()
def heard(change):
    history.update(f"{change.kind.id} {change.type} {change.revision}".encode() + change.now.tail)
for kind in cluster.storage.registry.rows:
    cluster.storage.listen(kind, heard)
cluster.apply(demo_workload())
cluster.run_for(5)
for group, count in (("general", 2), ("memory", 1), ("batch", 1)):
    cloud.group(group).increase(count)
cluster.run_for(30)
cloud.remove_machine(cloud.machines()[0].provider_id)
cluster.run_for(60)
print(cluster.storage.revision, history.hexdigest())
"""


ODD_CONTAINER = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1e99"}}}


def test_two_runs_have_the_same_history_whatever_the_hash_seed() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert int(runs[0].split()[0]) > 200


def test_apply_creates_and_then_changes() -> None:
    cluster = SandboxCluster(VirtualClock())
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    cluster.apply([config])
    cluster.apply([{**config, "data": {"a": "2"}}])
    assert cluster.storage.get("configmaps", "c")["data"] == {"a": "2"}


def test_apply_of_a_kind_that_nobody_serves_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        SandboxCluster(VirtualClock()).apply([{"apiVersion": "v9", "kind": "Nothing", "metadata": {"name": "n"}}])
    assert caught.value.code == 404


def test_an_idle_cluster_writes_nothing() -> None:
    clock = VirtualClock(wall=1_700_000_000.0)
    cluster = SandboxCluster(clock, open_cloud(demo_cloud(), now=lambda: clock.now().wall))
    cluster.run_for(10)
    before = cluster.storage.revision
    cluster.run_for(200)
    assert cluster.storage.revision == before


def test_only_virtual_time_can_be_run() -> None:
    with pytest.raises(TypeError, match="VirtualClock"):
        SandboxCluster(SystemClock()).run_for(1)


def test_run_until_gives_up_in_time() -> None:
    cluster = SandboxCluster(VirtualClock())
    assert not cluster.run_until(lambda: False, timeout_s=5)
    assert cluster.clock.now().mono == 5


def test_with_the_system_clock_a_thread_does_the_work() -> None:
    clock = SystemClock()
    quick = Timing(pull_s=0.0, start_s=0.0)
    cluster = SandboxCluster(clock, open_cloud(demo_cloud(), now=lambda: clock.now().wall), timing=quick)
    running = threading.Event()

    def heard(change: StoreChange) -> None:
        if change.now.fields["status.phase"] == "Running":
            running.set()

    cluster.storage.listen("pods", heard)
    with cluster:
        cluster.apply([a_bare_pod("p")])
        assert running.wait(20)
        with pytest.raises(RuntimeError):
            cluster.start()
    assert cluster.failures == []
    assert not any(thread.name == "sandbox" for thread in threading.enumerate())


def test_the_ticker_survives_an_actor_that_fails() -> None:
    cluster = SandboxCluster(SystemClock())
    odd = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "odd"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "app:1"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "many"}}
    made = threading.Event()
    cluster.storage.listen("replicasets.apps", lambda _change: made.set())
    cluster.apply([{**odd, "spec": spec}])
    cluster.start(tick_s=0.01)
    fine = {**spec, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}
    cluster.apply([{**odd, "metadata": {"name": "fine"}, "spec": fine}])
    assert made.wait(20)
    cluster.stop()
    assert any(isinstance(error, ValueError) for error in cluster.failures)
    assert [replica_set["spec"]["replicas"] for replica_set in cluster.storage.list("replicasets.apps")] == [1]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "odd"}, "status": {"allocatable": {"cpu": "x"}}},
            id="a node of no size",
        ),
        pytest.param(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "odd"},
                "spec": {"minAvailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            },
            id="a budget with an unknown operator",
        ),
        pytest.param(
            {**a_bare_pod("odd"), "spec": {"containers": [ODD_CONTAINER]}}, id="a pod with an enormous request"
        ),
    ],
)
def test_an_object_that_makes_no_sense_stops_nothing(odd: dict[str, object]) -> None:
    clock = VirtualClock(wall=1_700_000_000.0)
    cluster = SandboxCluster(clock, open_cloud(demo_cloud(), now=lambda: clock.now().wall))
    daemon_set = {**demo_workload()[2], "metadata": {"name": "agent"}}
    cluster.apply([odd, daemon_set, a_bare_pod("p")])
    cluster.run_for(10)
    assert cluster.storage.get("pods", "p")["status"]["phase"] == "Running"
    assert cluster.storage.get("daemonsets.apps", "agent")["status"]["numberReady"] == 1


def test_the_demo_objects_are_what_a_server_takes() -> None:
    cluster = SandboxCluster(VirtualClock())
    cluster.apply(demo_workload())
    cluster.apply(demo_workload())
    assert cluster.storage.count("deployments.apps") == 3
