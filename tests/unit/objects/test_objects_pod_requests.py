import pytest

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


def test_every_resource_is_taken_at_its_own_peak() -> None:
    spec = {
        "containers": [container("a", "1", memory="1Gi")],
        "initContainers": [container("i", "500m", memory="3Gi")],
        "resources": {"requests": {"example.com/dongle": "2"}},
    }
    assert a_pod(spec=spec).cls.requests == {"cpu": 1000, "memory": 3 * 2**30, "example.com/dongle": 2}


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


def test_what_is_allocated_as_asked_makes_no_class_of_its_own() -> None:
    allocated = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}}]}
    assert a_pod(cpu="1", node="n", status=allocated).cls is a_pod(cpu="1", node="n").cls


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        pytest.param(HostPort(80), HostPort(80), True, id="the same port"),
        pytest.param(HostPort(80), HostPort(81), False, id="another port"),
        pytest.param(HostPort(80), HostPort(80, "UDP"), False, id="another protocol"),
        pytest.param(HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.1"), True, id="the same address"),
        pytest.param(HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2"), False, id="another address"),
        pytest.param(HostPort(80, ip="10.0.0.1"), HostPort(80), True, id="one address and all of them"),
    ],
)
def test_host_ports_clash_both_ways(one: HostPort, other: HostPort, clash: bool) -> None:
    assert (one.clashes(other), other.clashes(one)) == (clash, clash)


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
