import pytest

from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.cluster import SandboxCluster
from tests.manifests import a_bare_pod
from tests.unit.sandbox.actors.actors_pieces import Json, a_cluster, condition, pod

QUICK = Timing(pull_s=2.0, start_s=1.0, stop_s=2.0)


def phases(cluster: SandboxCluster, name: str, seconds: int) -> list[str]:
    """The pod's phase second by second, each run of the same given once."""
    found: list[str] = []
    for _ in range(seconds):
        cluster.run_for(1)
        try:
            phase = pod(cluster, name)["status"]["phase"]
        except ApiError:
            phase = "gone"
        if found[-1:] != [phase]:
            found.append(phase)
    return found


def test_a_pod_is_created_pulled_and_run() -> None:
    cluster = a_cluster(timing=QUICK)
    cluster.apply([a_bare_pod()])
    cluster.run_for(1)
    creating = pod(cluster)["status"]
    assert (creating["phase"], creating["startTime"]) == ("Pending", "2023-11-14T22:13:21Z")
    assert creating["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    cluster.run_for(3)
    running = pod(cluster)["status"]
    assert (running["phase"], running["podIP"], running["hostIP"]) == ("Running", "10.128.1.2", "10.0.0.2")
    assert running["containerStatuses"][0]["ready"] is True
    assert [condition(pod(cluster), kind)[0] for kind in ("PodScheduled", "Initialized", "Ready")] == ["True"] * 3


def test_the_second_pod_with_an_image_starts_sooner() -> None:
    cluster = a_cluster(timing=QUICK)
    cluster.apply([a_bare_pod("first")])
    cluster.run_for(5)
    cluster.apply([a_bare_pod("second")])
    cluster.run_for(1.5)
    assert pod(cluster, "second")["status"]["phase"] == "Running"


def test_pods_on_the_host_network_have_the_hosts_address_and_others_their_own() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod("host", hostNetwork=True), a_bare_pod("a"), a_bare_pod("b")])
    cluster.run_for(10)
    addresses = [pod(cluster, name)["status"]["podIP"] for name in ("host", "a", "b")]
    assert addresses[0] == pod(cluster, "host")["status"]["hostIP"]
    assert len(set(addresses)) == 3


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [
        pytest.param({"sandbox.autoscaler/duration": "5s"}, {}, ["Pending", "Running"], id="a server runs for ever"),
        pytest.param(
            {"sandbox.autoscaler/duration": "5s"},
            {"restartPolicy": "Never"},
            ["Pending", "Running", "Succeeded"],
            id="a pod that is not restarted ends after its duration",
        ),
        pytest.param(
            {"sandbox.autoscaler/duration": "5s", "sandbox.autoscaler/exit-code": "3"},
            {"restartPolicy": "Never"},
            ["Pending", "Running", "Failed"],
            id="an exit code makes it fail",
        ),
        pytest.param({}, {"restartPolicy": "Never"}, ["Pending", "Running"], id="without a duration it stays"),
    ],
)
def test_how_a_pod_ends(annotations: Json, spec: Json, expected: list[str]) -> None:
    cluster = a_cluster(timing=QUICK)
    cluster.apply([a_bare_pod(annotations=annotations, **spec)])
    assert phases(cluster, "p", 20) == expected


def test_an_ended_pod_shows_its_exit() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod(annotations={"sandbox.autoscaler/duration": "5s"}, restartPolicy="Never")])
    cluster.run_for(15)
    over = pod(cluster)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (over["exitCode"], over["reason"]) == (0, "Completed")
    assert condition(pod(cluster), "Ready") == ("False", "PodCompleted")


@pytest.mark.parametrize(
    ("grace_s", "gone_after_s"),
    [
        pytest.param(30, 2, id="a long grace period is cut short"),
        pytest.param(1, 1, id="a short one is kept"),
        pytest.param(0, 0, id="none ends the pod at once"),
    ],
)
def test_a_deleted_pod_stops(grace_s: int, gone_after_s: int) -> None:
    cluster = a_cluster(timing=QUICK)
    cluster.apply([a_bare_pod(), a_bare_pod("other")])
    cluster.run_for(10)
    cluster.storage.delete("pods", "p", grace_s=grace_s)
    cluster.step()
    for _ in range(2 * gone_after_s):
        assert pod(cluster)["metadata"]["deletionTimestamp"]
        cluster.run_for(0.5)
    assert [one["metadata"]["name"] for one in cluster.storage.list("pods")] == ["other"]


def test_a_new_pod_under_an_old_name_lives_its_own_life() -> None:
    cluster = a_cluster(timing=QUICK)
    brief = a_bare_pod(annotations={"sandbox.autoscaler/duration": "10s"}, restartPolicy="Never")
    cluster.apply([brief])
    cluster.run_for(10)
    cluster.storage.delete("pods", "p", grace_s=0)
    cluster.apply([brief])
    assert phases(cluster, "p", 10) == ["Pending", "Running"]
    assert phases(cluster, "p", 10) == ["Running", "Succeeded"]


def test_a_pod_bound_to_no_node_is_collected() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod(nodeName="nowhere")])
    cluster.run_for(3)
    assert cluster.storage.list("pods") == []
