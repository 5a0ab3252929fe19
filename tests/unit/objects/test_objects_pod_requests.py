import msgspec
import pytest

from autoscaler.objects.encode import PodForms
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.podspec import HostPort
from tests.builders import Json, a_pod


def container(name: str, cpu: str | None = None, sidecar: bool = False, **requests: str) -> Json:
    asked = {**({"cpu": cpu} if cpu else {}), **requests}
    made: Json = {"name": name, "resources": {"requests": asked}}
    return {**made, "restartPolicy": "Always"} if sidecar else made


@pytest.mark.parametrize(
    ("spec", "cpu_milli"),
    [
        pytest.param({"containers": [container("a", "1"), container("b", "500m")]}, 1500, id="containers add up"),
        pytest.param(
            {"containers": [container("a", "1")], "initContainers": [container("i", "3"), container("j", "2")]},
            3000,
            id="init containers run one after another: the largest counts",
        ),
        pytest.param(
            {"containers": [container("a", "2")], "initContainers": [container("i", "1")]},
            2000,
            id="a smaller init container changes nothing",
        ),
        pytest.param(
            {"containers": [container("a", "1")], "initContainers": [container("s", "500m", sidecar=True)]},
            1500,
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {
                "containers": [container("a", "1")],
                "initContainers": [container("s", "500m", sidecar=True), container("i", "2")],
            },
            2500,
            id="a sidecar declared before an init container runs beside it",
        ),
        pytest.param(
            {
                "containers": [container("a", "1")],
                "initContainers": [container("i", "2"), container("s", "500m", sidecar=True)],
            },
            2000,
            id="a sidecar declared after an init container does not",
        ),
        pytest.param(
            {
                "containers": [container("a", "1")],
                "initContainers": [
                    container("s", "500m", sidecar=True),
                    container("i", "1"),
                    container("t", "700m", sidecar=True),
                ],
            },
            2200,
            id="all sidecars run beside the containers",
        ),
        pytest.param(
            {"containers": [container("a", "1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead comes on top"
        ),
        pytest.param(
            {
                "containers": [container("a", "1")],
                "initContainers": [container("i", "4")],
                "resources": {"requests": {"cpu": "2"}},
                "overhead": {"cpu": "250m"},
            },
            2250,
            id="the pod's own requests replace the sum, overhead still comes on top",
        ),
        pytest.param({"containers": [container("a")]}, 0, id="a container may ask for nothing"),
    ],
)
def test_what_the_scheduler_reserves(spec: Json, cpu_milli: int) -> None:
    assert a_pod(spec=spec).cls.requests.get("cpu", 0) == cpu_milli


def test_every_resource_is_taken_at_its_own_peak_and_only_some_of_those_asked_for_the_pod_as_a_whole() -> None:
    spec = {
        "containers": [container("a", "1", memory="1Gi")],
        "initContainers": [container("i", "500m", memory="3Gi")],
        "resources": {"requests": {"hugepages-2Mi": "4Mi", "example.com/dongle": "2"}},
    }
    assert a_pod(spec=spec).cls.requests == {"cpu": 1000, "memory": 3 * 2**30, "hugepages-2Mi": 4 * 2**20}


def test_requests_of_the_pod_as_a_whole_leave_devices_to_the_containers() -> None:
    spec = {
        "containers": [
            container("a", "1", False, **{"nvidia.com/gpu": "1", "hugepages-1Gi": "1Gi", "memory": "8Gi"}),
            container("b", "1", False, **{"nvidia.com/gpu": "2", "hugepages-1Gi": "1Gi"}),
        ],
        "overhead": {"cpu": "250m", "hugepages-1Gi": "1Gi"},
        "resources": {"requests": {"cpu": "3", "hugepages-1Gi": "4Gi", "nvidia.com/gpu": "9"}},
        "resourceClaims": [{"name": "nic", "resourceClaimName": "mine"}],
    }
    pod = a_pod(spec=spec)
    assert pod.cls.requests == {
        "cpu": 3250,
        "memory": 8 * 2**30,
        "hugepages-1Gi": 5 * 2**30,
        "nvidia.com/gpu": 3,
    }
    assert [claim.resource_claim_name for claim in pod.cls.resource_claims] == ["mine"]


def test_requests_of_the_plain_containers_are_kept_beside() -> None:
    spec = {
        "containers": [container("a", "1"), container("b", "1")],
        "initContainers": [container("i", "5")],
        "overhead": {"cpu": "1"},
    }
    assert a_pod(spec=spec).cls.container_requests == {"cpu": 2000}


@pytest.mark.parametrize(
    ("status", "cpu_milli"),
    [
        pytest.param({}, 1500, id="no status yet"),
        pytest.param(
            {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "2"}}]},
            2500,
            id="a resize in place still holds more",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "100m"}}]},
            1500,
            id="a resize in place asks for more",
        ),
        pytest.param(
            {"initContainerStatuses": [{"name": "s", "allocatedResources": {"cpu": "1"}}]},
            2000,
            id="a sidecar still holds more",
        ),
        pytest.param(
            {"initContainerStatuses": [{"name": "i", "allocatedResources": {"cpu": "9"}}]},
            1500,
            id="an init container has ended",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "gone", "allocatedResources": {"cpu": "9"}}]},
            1500,
            id="a container that is not in the spec",
        ),
    ],
)
def test_a_resize_in_place_counts_with_the_larger_value(status: Json, cpu_milli: int) -> None:
    spec = {
        "containers": [container("a", "1")],
        "initContainers": [container("i", "100m"), container("s", "500m", sidecar=True)],
    }
    assert a_pod(node="n", spec=spec, status=status).cls.requests["cpu"] == cpu_milli


@pytest.mark.parametrize(("node", "tpus"), [(None, 0), ("n", 8)], ids=["pending: no node has any", "bound: as it is"])
def test_requests_for_cloud_tpus(node: str | None, tpus: int) -> None:
    spec = {"containers": [container("a", "1", False, **{"cloud-tpus.google.com/v2": "8"})]}
    cls = a_pod(node=node, spec=spec).cls
    assert (cls.requests["cpu"], cls.requests.get("cloud-tpus.google.com/v2", 0)) == (1000, tpus)


RESIZING = [
    {
        "name": "a",
        "allocatedResources": {"cpu": "1"},
        "resources": {"requests": {"cpu": "1500m"}},
    }
]


def written_and_read(pod: Pod) -> Pod:
    return PodInterner().decoder().one(msgspec.to_builtins(PodForms().form(pod)))


def pending(reason: str) -> Json:
    return {"conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}]}


@pytest.mark.parametrize(
    ("asked", "status", "cpu_milli", "for_resize"),
    [
        pytest.param("500m", {}, 1500, 1000, id="what the kubelet has not taken back yet counts"),
        pytest.param("3", {}, 3000, 1500, id="what it has not given yet counts"),
        pytest.param("3", pending("Deferred"), 3000, 1500, id="even if that has to wait"),
        pytest.param("3", pending("Infeasible"), 1500, 0, id="but not what it will never give"),
        pytest.param("3", {"resize": "Infeasible"}, 1500, 0, id="as Kubernetes 1.32 says it"),
        pytest.param("3", pending("News"), 3000, 1500, id="a reason nobody knows changes nothing"),
        pytest.param("1500m", pending("Infeasible"), 1500, 0, id="a finished resize leaves nothing"),
    ],
)
def test_an_unfinished_resize(asked: str, status: Json, cpu_milli: int, for_resize: int) -> None:
    status = {"containerStatuses": RESIZING, **status}
    cls = a_pod(node="n", spec={"containers": [container("a", asked)]}, status=status).cls
    assert (cls.requests["cpu"], cls.held_for_resize.get("cpu", 0)) == (cpu_milli, for_resize)


@pytest.mark.parametrize(
    ("status", "cpu_milli"),
    [
        pytest.param({"resources": {"requests": {"cpu": "5250m"}}}, 5250, id="what is set counts, overhead once"),
        pytest.param({"allocatedResources": {"cpu": "3250m"}}, 4250, id="what is asked for counts"),
        pytest.param(
            {"allocatedResources": {"cpu": "3250m"}, **pending("Infeasible")}, 3250, id="but not where it is infeasible"
        ),
    ],
)
def test_a_resize_of_the_pod_as_a_whole(status: Json, cpu_milli: int) -> None:
    spec = {
        "containers": [container("a", "1")],
        "resources": {"requests": {"cpu": "4"}},
        "overhead": {"cpu": "250m"},
    }
    pod = a_pod(node="n", spec=spec, status=status)
    assert pod.cls.requests["cpu"] == cpu_milli
    assert written_and_read(pod).cls.key == pod.cls.key


def test_a_resize_survives_being_written_down() -> None:
    status = {"containerStatuses": RESIZING, **pending("Infeasible")}
    pod = a_pod(node="n", spec={"containers": [container("a", "3")]}, status=status)
    assert written_and_read(pod).cls.key == pod.cls.key


def test_what_is_allocated_as_asked_makes_no_class_of_its_own() -> None:
    allocated = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}}]}
    assert a_pod(cpu="1", node="n", status=allocated).cls is a_pod(cpu="1", node="n").cls


def test_host_ports_are_those_of_containers_that_last() -> None:
    def with_port(name: str, port: Json) -> Json:
        return {"name": name, "ports": [port]}

    cls = a_pod(
        spec={
            "containers": [
                with_port("a", {"containerPort": 80}),
                with_port("b", {"containerPort": 80, "hostPort": 8080}),
                with_port("c", {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}),
                with_port("d", {"containerPort": 80, "hostPort": 8080, "hostIP": "", "protocol": ""}),
            ],
            "initContainers": [
                with_port("i", {"containerPort": 1, "hostPort": 1}),
                {**with_port("s", {"containerPort": 2, "hostPort": 2}), "restartPolicy": "Always"},
            ],
        }
    ).cls
    assert cls.host_ports == (HostPort(2), HostPort(53, "UDP", "10.0.0.1"), HostPort(8080))
