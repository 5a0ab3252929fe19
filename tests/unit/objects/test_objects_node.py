import pytest

from autoscaler.objects.node import Node, Readiness, Taint, node_decoder, readiness
from tests.builders import Json, a_node


def condition(kind: str, status: str, since: str | None = None, reason: str = "") -> Json:
    one: Json = {"type": kind, "status": status, "reason": reason}
    return one if since is None else {**one, "lastTransitionTime": since}


def with_conditions(*conditions: Json, taints: tuple[str, ...] = ()) -> Node:
    return a_node(ready=None, conditions=conditions, taints=taints)


READY = condition("Ready", "True")


@pytest.mark.parametrize(
    ("node", "ready"),
    [
        pytest.param(with_conditions(READY), True, id="Ready is True"),
        pytest.param(with_conditions(condition("Ready", "False")), False, id="Ready is False"),
        pytest.param(with_conditions(condition("Ready", "Unknown")), False, id="Ready is Unknown"),
        pytest.param(with_conditions(), False, id="no condition at all"),
        pytest.param(with_conditions(condition("DiskPressure", "False")), False, id="no condition Ready"),
        pytest.param(with_conditions(READY, condition("DiskPressure", "True")), False, id="the disk is full"),
        pytest.param(with_conditions(READY, condition("DiskPressure", "False")), True, id="the disk is fine"),
        pytest.param(with_conditions(READY, condition("DiskPressure", "Unknown")), True, id="the disk is not known"),
        pytest.param(with_conditions(READY, condition("NetworkUnavailable", "True")), False, id="no network"),
        pytest.param(with_conditions(READY, condition("NetworkUnavailable", "False")), True, id="network"),
        pytest.param(with_conditions(READY, condition("MemoryPressure", "True")), True, id="memory does not matter"),
        pytest.param(with_conditions(READY, condition("PIDPressure", "True")), True, id="PIDs do not matter"),
        pytest.param(with_conditions(READY, taints=("node.kubernetes.io/not-ready",)), False, id="tainted not-ready"),
        pytest.param(with_conditions(READY, taints=("node.kubernetes.io/disk-pressure",)), False, id="tainted disk"),
        pytest.param(
            with_conditions(READY, taints=("node.kubernetes.io/network-unavailable",)), False, id="tainted network"
        ),
        pytest.param(with_conditions(READY, taints=("node.kubernetes.io/memory-pressure",)), True, id="tainted memory"),
        pytest.param(with_conditions(READY, taints=("gpu",)), True, id="any other taint"),
        pytest.param(a_node(cordoned=True), True, id="cordoned"),
    ],
)
def test_when_a_node_is_ready(node: Node, ready: bool) -> None:
    assert readiness(node).ready is ready


def test_a_node_is_ready_since_the_latest_change_that_matters() -> None:
    node = with_conditions(
        condition("Ready", "True", "1970-01-01T00:00:10Z"),
        condition("DiskPressure", "False", "1970-01-01T00:00:30Z"),
        condition("MemoryPressure", "False", "1970-01-01T00:01:00Z"),
    )
    assert readiness(node) == Readiness(True, 30.0)


def test_a_taint_dates_the_change_too() -> None:
    wire = {
        "metadata": {"name": "n"},
        "spec": {
            "taints": [
                {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:20Z"}
            ]
        },
        "status": {"conditions": [condition("Ready", "False", "1970-01-01T00:00:10Z", "KubeletNotReady")]},
    }
    assert readiness(node_decoder().one(wire)) == Readiness(False, 20.0, "KubeletNotReady")


def test_without_times_it_is_not_known_since_when() -> None:
    assert readiness(with_conditions(READY)) == Readiness(True, None)
    assert readiness(with_conditions()) == Readiness(False, None, "readiness information not found")


def test_a_node_is_decoded_into_the_engines_units() -> None:
    node = node_decoder().one(
        {
            "metadata": {
                "name": "n1",
                "uid": "u1",
                "labels": {
                    "topology.kubernetes.io/zone": "a",
                    "failure-domain.beta.kubernetes.io/zone": "old",
                    "beta.kubernetes.io/instance-type": "m5.large",
                },
                "creationTimestamp": "1970-01-01T00:00:05Z",
                "deletionTimestamp": "1970-01-01T00:00:09Z",
                "managedFields": [{"manager": "kubelet"}],
            },
            "spec": {
                "providerID": "aws:///i-1",
                "unschedulable": True,
                "taints": [{"key": "a", "effect": "NoSchedule"}],
            },
            "status": {
                "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
                "allocatable": {"cpu": "1930m", "memory": "7Gi", "pods": 29, "nvidia.com/gpu": "1"},
                "images": [{"names": ["x"]}],
            },
        }
    )
    assert (node.key, node.uid, node.provider_id, node.unschedulable) == ("n1", "u1", "aws:///i-1", True)
    assert node.capacity == {"cpu": 2000, "memory": 8 * 2**30, "pods": 29}
    assert node.allocatable == {"cpu": 1930, "memory": 7 * 2**30, "pods": 29, "nvidia.com/gpu": 1}
    assert (node.created, node.deleted) == (5.0, 9.0)
    assert (node.zone, node.instance_type) == ("a", "m5.large")
    assert node.taint("a") == Taint(key="a", effect="NoSchedule")
    assert node.taint("b") is None


def test_a_node_without_labels_has_neither_zone_nor_type() -> None:
    node = node_decoder().one({"metadata": {"name": "n"}})
    assert (node.zone, node.instance_type, node.created, node.deleted) == (None, None, 0.0, None)


def test_a_node_with_a_bad_amount_is_refused() -> None:
    with pytest.raises(ValueError, match="much"):
        node_decoder().one({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "much"}}})


@pytest.mark.parametrize(
    ("taint", "text"),
    [
        (Taint(key="gpu", value="a100", effect="NoSchedule"), "gpu=a100:NoSchedule"),
        (Taint(key="gpu", effect="NoExecute"), "gpu:NoExecute"),
    ],
)
def test_a_taint_reads_as_kubectl_writes_it(taint: Taint, text: str) -> None:
    assert str(taint) == text
