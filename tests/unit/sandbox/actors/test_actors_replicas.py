import pytest

from autoscaler.sandbox.actors.replicas import deletion_order, scaled, template_hash
from autoscaler.sandbox.actors.wire import is_ready
from autoscaler.sandbox.cluster import SandboxCluster
from tests.manifests import a_bare_pod
from tests.unit.sandbox.actors.actors_pieces import (
    Json,
    a_cluster,
    a_workload,
    condition,
    events,
    pods_of,
    status,
)

SETS, DEPLOYMENTS = "replicasets.apps", "deployments.apps"


def image(cluster: SandboxCluster, name: str, tag: str) -> None:
    containers = [{"name": "c", "image": f"app:{tag}"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    cluster.storage.patch(DEPLOYMENTS, name, patch)


def images(pods: list[Json]) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in pods)


def ready(pods: list[Json]) -> int:
    return sum(is_ready(pod) for pod in pods)


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment"])
def test_replicas_follow_the_number_asked_for(kind: str) -> None:
    cluster = a_cluster()
    resource = f"{kind.lower()}s.apps"
    cluster.apply([a_workload(kind, replicas=2)])
    for replicas in (2, 5, 1, 0):
        cluster.storage.scale(resource, "web", replicas)
        cluster.run_for(10)
        assert len(pods_of(cluster, "web")) == replicas
        told = status(cluster, resource, "web")
        counts = (told["replicas"], told["readyReplicas"], told["availableReplicas"])
        assert counts == (replicas,) * 3
        assert told["observedGeneration"] == cluster.storage.get(resource, "web")["metadata"]["generation"]


def test_replication_controllers_work_alike() -> None:
    cluster = a_cluster()
    controller = a_workload("ReplicationController", replicas=2) | {"apiVersion": "v1"}
    controller["spec"]["selector"] = {"app": "web"}
    cluster.apply([controller])
    cluster.run_for(10)
    assert len(pods_of(cluster, "web")) == 2


def test_an_evicted_replica_is_replaced_before_it_is_gone() -> None:
    cluster = a_cluster()
    cluster.apply([a_workload("ReplicaSet", replicas=2)])
    cluster.run_for(10)
    cluster.storage.evict(pods_of(cluster, "web")[0]["metadata"]["name"])
    cluster.run_for(0.5)
    assert len(pods_of(cluster, "web")) == 3
    cluster.run_for(10)
    assert ready(pods_of(cluster, "web")) == 2


def test_deleting_the_owner_deletes_the_pods() -> None:
    cluster = a_cluster()
    cluster.apply([a_workload("Deployment", replicas=3)])
    cluster.run_for(10)
    cluster.storage.delete(DEPLOYMENTS, "web")
    cluster.run_for(10)
    assert (pods_of(cluster, "web"), cluster.storage.list(SETS)) == ([], [])


def test_pods_that_cannot_be_made_are_told_of_and_made_later() -> None:
    cluster = a_cluster()
    cluster.apply([a_workload("ReplicaSet", priorityClassName="later")])
    cluster.run_for(5)
    (event,) = events(cluster, "FailedCreate")
    assert "no PriorityClass with name later was found" in event["message"]
    later = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "later"}, "value": 1}
    cluster.apply([later])
    cluster.run_for(5)
    assert len(pods_of(cluster, "web")) == 1


def a_replica(name: str, *, node: str = "", phase: str = "Running", is_ready: bool = True) -> Json:
    pod = a_bare_pod(name, nodeName=node)
    pod["metadata"]["creationTimestamp"] = "2024-01-01T00:00:00Z"
    state = "True" if is_ready else "False"
    return pod | {"status": {"phase": phase, "conditions": [{"type": "Ready", "status": state}]}}


def test_the_most_dispensable_replica_goes_first() -> None:
    cheap = a_replica("cheap", node="n")
    cheap["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    young = a_replica("young", node="n")
    young["metadata"]["creationTimestamp"] = "2024-01-02T00:00:00Z"
    pods = [
        a_replica("old", node="n"),
        young,
        cheap,
        a_replica("unready", node="n", is_ready=False),
        a_replica("starting", node="n", phase="Pending", is_ready=False),
        a_replica("unassigned", phase="Pending", is_ready=False),
    ]
    order = [pod["metadata"]["name"] for pod in deletion_order(pods)]
    assert order == ["unassigned", "starting", "unready", "cheap", "young", "old"]


@pytest.mark.parametrize(
    ("value", "up", "expected"),
    [
        pytest.param(3, True, 3, id="a number is itself"),
        pytest.param("25%", True, 3, id="a share can be rounded up"),
        pytest.param("25%", False, 2, id="a share can be rounded down"),
        pytest.param(None, True, 7, id="nothing is the default"),
    ],
)
def test_bounds_of_ten(value: int | str | None, up: bool, expected: int) -> None:
    assert scaled(value, 10, round_up=up, default=7) == expected


def test_equal_templates_have_equal_hashes_whatever_the_order_of_their_fields() -> None:
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1}) != template_hash({"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "least"),
    [
        pytest.param("25%", "25%", 5, 3, id="a quarter either way"),
        pytest.param(0, 1, 4, 3, id="no surge"),
        pytest.param(2, 0, 6, 4, id="always all available"),
    ],
)
def test_a_roll_stays_within_its_bounds(surge: int | str, unavailable: int | str, most: int, least: int) -> None:
    cluster = a_cluster(running=2)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    cluster.apply([a_workload("Deployment", replicas=4, extra={"strategy": rolling})])
    cluster.run_for(10)
    image(cluster, "web", "2")
    for _ in range(120):
        cluster.run_for(0.5)
        staying = [pod for pod in pods_of(cluster, "web") if "deletionTimestamp" not in pod["metadata"]]
        assert len(staying) <= most
        assert ready(staying) >= least
    assert images(pods_of(cluster, "web")) == ["app:2"] * 4
    assert condition(cluster.storage.get(DEPLOYMENTS, "web"), "Progressing") == ("True", "NewReplicaSetAvailable")
    assert condition(cluster.storage.get(DEPLOYMENTS, "web"), "Available") == ("True", "MinimumReplicasAvailable")


def test_a_roll_that_cannot_be_scheduled_keeps_the_old_pods_and_says_so() -> None:
    cluster = a_cluster()
    cluster.apply([a_workload("Deployment", replicas=4, cpu="500m")])
    cluster.run_for(10)
    containers = [{"name": "c", "image": "app:2", "resources": {"requests": {"cpu": "64"}}}]
    cluster.storage.patch(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"containers": containers}}}})
    cluster.run_for(60)
    assert ready(pods_of(cluster, "web")) == 3
    told = status(cluster, DEPLOYMENTS, "web")
    assert (told["availableReplicas"], told["updatedReplicas"], told["unavailableReplicas"]) == (3, 2, 1)
    assert condition(cluster.storage.get(DEPLOYMENTS, "web"), "Progressing") == ("True", "ReplicaSetUpdated")


def test_recreate_ends_all_old_pods_before_it_makes_new_ones() -> None:
    cluster = a_cluster()
    cluster.apply([a_workload("Deployment", replicas=2, extra={"strategy": {"type": "Recreate"}})])
    cluster.run_for(10)
    image(cluster, "web", "2")
    seen = set()
    for _ in range(60):
        cluster.run_for(0.5)
        seen.add(tuple(sorted(set(images(pods_of(cluster, "web"))))))
    assert seen == {("app:1",), (), ("app:2",)}


def test_rolling_back_makes_the_old_set_the_newest_revision() -> None:
    cluster = a_cluster()
    cluster.apply([a_workload("Deployment")])
    cluster.run_for(10)
    for tag in ("2", "1"):
        image(cluster, "web", tag)
        cluster.run_for(30)
    revisions = {
        one["spec"]["template"]["spec"]["containers"][0]["image"]: one["metadata"]["annotations"][
            "deployment.kubernetes.io/revision"
        ]
        for one in cluster.storage.list(SETS)
    }
    assert revisions == {"app:1": "3", "app:2": "2"}
    assert images(pods_of(cluster, "web")) == ["app:1"]


def test_old_sets_beyond_the_history_limit_are_deleted() -> None:
    cluster = a_cluster()
    cluster.apply([a_workload("Deployment", extra={"revisionHistoryLimit": 1})])
    for tag in ("2", "3", "4"):
        cluster.run_for(30)
        image(cluster, "web", tag)
    cluster.run_for(30)
    assert len(cluster.storage.list(SETS)) == 2


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    cluster = a_cluster()
    cluster.apply([a_workload("Deployment", replicas=2)])
    cluster.run_for(10)
    cluster.storage.patch(DEPLOYMENTS, "web", {"spec": {"paused": True, "replicas": 3}})
    image(cluster, "web", "2")
    cluster.run_for(20)
    assert images(pods_of(cluster, "web")) == ["app:1"] * 3
    cluster.storage.patch(DEPLOYMENTS, "web", {"spec": {"paused": None}})
    cluster.run_for(30)
    assert images(pods_of(cluster, "web")) == ["app:2"] * 3
