"""Objects as protobuf. The files beside this were serialised by classes made from k8s.io/api's generated.proto."""

from pathlib import Path

import pytest

from autoscaler.objects.encode import PodForms, node_form
from autoscaler.objects.pod import Pod
from cloudprovider.protobuf import codec, wire
from tests.builders import a_node, a_pod, over, term

NOW = 1_785_578_400.0
SERIALISED = Path(__file__).parent / "protobuf"
SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
EVERY_DISK = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
    {"name": "scratch", "emptyDir": {}},
    {"name": "made", "ephemeral": {}},
    {"name": "host", "hostPath": {"path": "/x"}},
    {"name": "driver", "csi": {"driver": "x"}},
    {"name": "gce", "gcePersistentDisk": {"pdName": "pd", "readOnly": True}},
    {"name": "aws", "awsElasticBlockStore": {"volumeID": "v"}},
    {"name": "azure", "azureDisk": {"diskName": "x"}},
    {"name": "rbd", "rbd": {"image": "i", "pool": "p"}},
    {"name": "iscsi", "iscsi": {"iqn": "q"}},
]


def a_pod_with_everything() -> Pod:
    return a_pod(
        "web-1",
        namespace="shop",
        labels={"app": "web"},
        annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
        cpu="1500m",
        host_ports=[8080],
        selector={"pool": "a"},
        node_terms=[{"matchExpressions": [SSD], "matchFields": [SSD]}],
        near=[term(labels={"a": "b"}, namespaces=["x"])],
        away=[term(namespaceSelector={"matchExpressions": [SSD]}, matchLabelKeys=["v"])],
        spread=[over(labels={"app": "web"}, minDomains=2)],
        tolerations=[{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}, {"key": "k", "value": "v"}],
        volumes=EVERY_DISK,
        priority=0,
        unschedulable=True,
        nominated="n9",
        created=NOW - 600,
        deleted=NOW,
        spec={
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
            ],
            "overhead": {"cpu": "50m"},
            "resources": {"requests": {"cpu": 2}},
            "resourceClaims": [
                {"name": "gpu", "resourceClaimName": "mine"},
                {"name": "nic", "resourceClaimTemplateName": "fast"},
            ],
            "terminationGracePeriodSeconds": 0,
            "preemptionPolicy": "Never",
            "priorityClassName": "high",
        },
    )


def test_a_pod_is_written_as_go_writes_it() -> None:
    written = codec.encode("Pod", PodForms().form(a_pod_with_everything()))
    assert written == (SERIALISED / "pod.bin").read_bytes()


def test_a_node_is_written_as_go_writes_it() -> None:
    node = a_node(
        "n1", taints=["spot=y:NoSchedule"], annotations={"price": "0.1"}, cordoned=True, since=NOW, created=NOW
    )
    assert codec.encode("Node", node_form(node)) == (SERIALISED / "node.bin").read_bytes()


def test_a_key_that_the_schema_does_not_list_is_not_dropped() -> None:
    with pytest.raises(ValueError, match="ObjectMeta has no field colour"):
        codec.encode("ObjectMeta", {"name": "a", "colour": "red"})


def test_zero_is_written_and_nothing_is_not() -> None:
    assert codec.encode("Toleration", {"tolerationSeconds": 0, "key": "", "value": None}) == b"\x28\x00"


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, (1 << 64) - 1])
def test_integers_come_back(value: int) -> None:
    assert list(wire.fields(wire.varint(5, value))) == [(5, value)]


def test_negative_integers_are_complements() -> None:
    assert list(wire.fields(wire.varint(1, -1))) == [(1, (1 << 64) - 1)]


def test_fixed_width_fields_are_read_as_bytes() -> None:
    assert list(wire.fields(b"\x09abcdefgh\x15abcd")) == [(1, b"abcdefgh"), (2, b"abcd")]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a\x05abc", id="longer than the message"),
        pytest.param(b"\x08", id="no value"),
        pytest.param(b"\xff" * 11, id="an integer without end"),
        pytest.param(b"\x0b", id="a group"),
    ],
)
def test_bad_data(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"field|integer"):
        list(wire.fields(data))
