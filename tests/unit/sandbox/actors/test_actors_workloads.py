from typing import Any

import pytest

from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.cluster import SandboxCluster
from cloudprovider.interface import TaintSpec
from tests.manifests import a_bare_pod
from tests.unit.sandbox.actors.actors_pieces import (
    BOOT_S,
    Json,
    a_cluster,
    a_group,
    a_job,
    a_workload,
    condition,
    pods_of,
    status,
    the_cloud,
)
from tests.worlds import a_budget

EVERYWHERE = [{"operator": "Exists"}]
AGENT = a_workload("DaemonSet", "agent", None, cpu="100m")


def nodes_of(cluster: SandboxCluster, app: str) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in pods_of(cluster, app))


def names_of(cluster: SandboxCluster, app: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods_of(cluster, app)]


def taint(cluster: SandboxCluster, node: str, *taints: Json) -> None:
    cluster.storage.patch("nodes", node, {"spec": {"taints": list(taints)}})


class TestDaemonSets:
    def test_every_node_that_takes_it_has_one(self) -> None:
        tainted = a_group("gpu", taints=[TaintSpec("gpu", "yes")])
        cluster = a_cluster(a_group(), tainted)
        bold = a_workload("DaemonSet", "bold", None, tolerations=EVERYWHERE)
        cluster.apply([AGENT, bold])
        cluster.run_for(10)
        assert (nodes_of(cluster, "agent"), nodes_of(cluster, "bold")) == (["general-00"], ["general-00", "gpu-00"])
        told = status(cluster, "daemonsets.apps", "bold")
        fields = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
        assert [told[field] for field in fields] == [2, 2, 2, 2]

    def test_a_new_node_gets_one(self) -> None:
        cluster = a_cluster()
        cluster.apply([AGENT])
        the_cloud(cluster).group("general").increase(1)
        cluster.run_for(BOOT_S + 15)
        assert nodes_of(cluster, "agent") == ["general-00", "general-1"]

    def test_the_scheduler_binds_its_pods_even_to_cordoned_nodes(self) -> None:
        cluster = a_cluster()
        cluster.storage.patch("nodes", "general-00", {"spec": {"unschedulable": True}})
        cluster.apply([AGENT])
        cluster.run_for(10)
        assert nodes_of(cluster, "agent") == ["general-00"]

    def test_a_full_node_leaves_its_pod_pending(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_bare_pod("big", cpu="4")])
        cluster.run_for(5)
        cluster.apply([AGENT])
        cluster.run_for(5)
        (daemon,) = pods_of(cluster, "agent")
        assert condition(daemon, "PodScheduled") == ("False", "Unschedulable")

    @pytest.mark.parametrize(
        ("effect", "left"),
        [
            pytest.param("NoSchedule", ["general-00"], id="a taint that keeps new pods off lets it stay"),
            pytest.param("NoExecute", [], id="a taint that drives pods away ends it"),
        ],
    )
    def test_what_a_later_taint_does(self, effect: str, left: list[str]) -> None:
        cluster = a_cluster()
        cluster.apply([AGENT])
        cluster.run_for(10)
        taint(cluster, "general-00", {"key": "ToBeDeletedByClusterAutoscaler", "effect": effect})
        cluster.run_for(10)
        assert nodes_of(cluster, "agent") == left

    def test_one_that_is_evicted_from_a_node_on_its_way_out_is_not_made_again(self) -> None:
        cluster = a_cluster()
        cluster.apply([AGENT])
        cluster.run_for(10)
        taint(cluster, "general-00", {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"})
        cluster.run_for(1)
        cluster.storage.evict(names_of(cluster, "agent")[0])
        cluster.run_for(10)
        assert nodes_of(cluster, "agent") == []

    def test_a_new_template_replaces_one_pod_after_the_other(self) -> None:
        cluster = a_cluster(running=3)
        cluster.apply([AGENT])
        cluster.run_for(10)
        containers = [{"name": "c", "image": "app:2"}]
        cluster.storage.patch("daemonsets.apps", "agent", {"spec": {"template": {"spec": {"containers": containers}}}})
        least = 3
        for _ in range(60):
            cluster.run_for(0.5)
            least = min(least, status(cluster, "daemonsets.apps", "agent")["numberReady"])
        assert {pod["spec"]["containers"][0]["image"] for pod in pods_of(cluster, "agent")} == {"app:2"}
        assert least == 2


class TestJobs:
    def test_a_job_runs_to_completion(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_job(lasts="5s", completions=3, parallelism=2)])
        cluster.run_for(3)
        assert len(pods_of(cluster, "job")) == 2
        cluster.run_for(27)
        job = cluster.storage.get("jobs.batch", "job")
        assert (job["status"]["succeeded"], job["status"]["active"]) == (3, 0)
        assert condition(job, "Complete") == ("True", "CompletionsReached")
        assert job["status"]["startTime"] < job["status"]["completionTime"]
        assert len(pods_of(cluster, "job")) == 3

    def test_a_job_that_does_not_say_how_long_ends_after_some_seconds(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_job()])
        cluster.run_for(20)
        assert status(cluster, "jobs.batch", "job")["succeeded"] == 1

    def test_a_job_fails_after_too_many_failures(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_job(lasts="1s", code="1", backoffLimit=2)])
        cluster.run_for(60)
        job = cluster.storage.get("jobs.batch", "job")
        assert condition(job, "Failed") == ("True", "BackoffLimitExceeded")
        assert job["status"]["failed"] == 3

    def test_an_evicted_pod_is_replaced_and_counts_for_nothing(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_job(lasts="10s")])
        cluster.run_for(8)
        cluster.storage.evict(names_of(cluster, "job")[0])
        cluster.run_for(30)
        told = status(cluster, "jobs.batch", "job")
        assert (told["succeeded"], told["failed"]) == (1, 0)

    def test_successes_count_even_when_their_node_is_gone(self) -> None:
        cluster = a_cluster(running=2)
        cluster.apply([a_job(lasts="5s", completions=2, parallelism=1)])
        assert cluster.run_until(lambda: cluster.counts().pods.get("Succeeded") == 1, timeout_s=30)
        done = next(pod for pod in pods_of(cluster, "job") if pod["status"]["phase"] == "Succeeded")
        the_cloud(cluster).remove_machine(f"static://{done['spec']['nodeName']}", replace=False)
        cluster.run_for(40)
        assert done["metadata"]["name"] not in names_of(cluster, "job")
        assert status(cluster, "jobs.batch", "job")["succeeded"] == 2

    def test_a_suspended_job_has_no_pods_until_it_is_resumed(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_job(suspend=True)])
        cluster.run_for(10)
        assert pods_of(cluster, "job") == []
        assert condition(cluster.storage.get("jobs.batch", "job"), "Suspended")[0] == "True"
        cluster.storage.patch("jobs.batch", "job", {"spec": {"suspend": False}})
        cluster.run_for(20)
        assert status(cluster, "jobs.batch", "job")["succeeded"] == 1

    def test_a_finished_job_goes_when_its_time_is_over(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_job(lasts="1s", ttlSecondsAfterFinished=60)])
        cluster.run_for(30)
        assert cluster.storage.list("jobs.batch")
        cluster.run_for(60)
        assert (cluster.storage.list("jobs.batch"), pods_of(cluster, "job")) == ([], [])


class TestStatefulSets:
    def test_pods_come_and_go_in_order(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_workload("StatefulSet", "db", 3)])
        seen: list[list[str]] = []
        for _ in range(30):
            cluster.run_for(0.5)
            if not seen or seen[-1] != names_of(cluster, "db"):
                seen.append(names_of(cluster, "db"))
        assert seen == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]]
        cluster.storage.scale("statefulsets.apps", "db", 1)
        cluster.run_for(1)
        assert [bool(pod["metadata"].get("deletionTimestamp")) for pod in pods_of(cluster, "db")] == [
            False,
            False,
            True,
        ]
        cluster.run_for(10)
        assert names_of(cluster, "db") == ["db-0"]
        told = status(cluster, "statefulsets.apps", "db")
        assert (told["replicas"], told["readyReplicas"]) == (1, 1)

    def test_in_parallel_they_come_at_once(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_workload("StatefulSet", "db", 3, extra={"podManagementPolicy": "Parallel"})])
        cluster.run_for(1)
        assert names_of(cluster, "db") == ["db-0", "db-1", "db-2"]

    def test_an_evicted_pod_comes_back_under_its_name(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_workload("StatefulSet", "db", 2)])
        cluster.run_for(20)
        before = cluster.storage.get("pods", "db-0")["metadata"]["uid"]
        cluster.storage.evict("db-0")
        cluster.run_for(20)
        after = cluster.storage.get("pods", "db-0")
        assert after["metadata"]["uid"] != before
        assert after["status"]["phase"] == "Running"

    def test_a_new_template_replaces_the_highest_first(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_workload("StatefulSet", "db", 2)])
        cluster.run_for(20)
        containers = [{"name": "c", "image": "app:2"}]
        cluster.storage.patch("statefulsets.apps", "db", {"spec": {"template": {"spec": {"containers": containers}}}})
        replaced: list[str] = []
        for _ in range(60):
            cluster.run_for(0.5)
            for pod in pods_of(cluster, "db"):
                name = pod["metadata"]["name"]
                if pod["spec"]["containers"][0]["image"] == "app:2" and name not in replaced:
                    replaced.append(name)
        assert replaced == ["db-1", "db-0"]
        told = status(cluster, "statefulsets.apps", "db")
        assert told["currentRevision"] == told["updateRevision"]


class TestBudgets:
    @pytest.mark.parametrize(
        ("bounds", "expected"),
        [
            pytest.param({"minAvailable": 7}, (10, 7, 10, 3), id="a number that must stay"),
            pytest.param({"minAvailable": "75%"}, (10, 8, 10, 2), id="a share that must stay is rounded up"),
            pytest.param({"maxUnavailable": 1}, (10, 9, 10, 1), id="a number that may go"),
            pytest.param({"maxUnavailable": "15%"}, (10, 8, 10, 2), id="a share that may go is rounded up"),
            pytest.param({"minAvailable": 20}, (10, 20, 10, 0), id="more than there are"),
        ],
    )
    def test_what_a_budget_allows(self, bounds: dict[str, Any], expected: tuple[int, ...]) -> None:
        cluster = a_cluster()
        cluster.apply([a_workload("Deployment", replicas=10), a_budget("web", **bounds)])
        cluster.run_for(10)
        told = status(cluster, "poddisruptionbudgets.policy", "web")
        fields = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        assert tuple(told[field] for field in fields) == expected

    def test_a_budget_over_nothing_allows_nothing(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_budget("web", maxUnavailable=1)])
        cluster.run_for(1)
        told = status(cluster, "poddisruptionbudgets.policy", "web")
        assert (told["expectedPods"], told["disruptionsAllowed"]) == (0, 0)

    def test_a_replica_that_cannot_run_uses_up_the_budget(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_workload("Deployment", replicas=4, cpu="1500m"), a_budget("web", maxUnavailable=1)])
        cluster.run_for(10)
        told = status(cluster, "poddisruptionbudgets.policy", "web")
        assert (told["currentHealthy"], told["disruptionsAllowed"]) == (2, 0)

    def test_a_drain_waits_for_the_budget_and_then_goes_on(self) -> None:
        cluster = a_cluster(running=2)
        cluster.apply([a_workload("Deployment", replicas=3), a_budget("web", maxUnavailable=1)])
        cluster.run_for(10)
        first, second, _ = names_of(cluster, "web")
        cluster.storage.evict(first)
        with pytest.raises(ApiError) as caught:
            cluster.storage.evict(second)
        assert caught.value.code == 429
        cluster.step()
        with pytest.raises(ApiError):
            cluster.storage.evict(second)
        cluster.run_for(10)
        cluster.storage.evict(second)
        cluster.run_for(10)
        assert status(cluster, "deployments.apps", "web")["availableReplicas"] == 3

    def test_a_new_size_of_the_workload_counts_at_once(self) -> None:
        cluster = a_cluster()
        cluster.apply([a_workload("Deployment", replicas=4), a_budget("web", maxUnavailable="50%")])
        cluster.run_for(10)
        cluster.storage.scale("deployments.apps", "web", 8)
        cluster.step()
        told = status(cluster, "poddisruptionbudgets.policy", "web")
        assert (told["expectedPods"], told["desiredHealthy"], told["disruptionsAllowed"]) == (8, 4, 0)
