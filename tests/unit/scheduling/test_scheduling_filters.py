"""The filters that look at one node alone: what keeps a pod off it."""

import pytest

from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.podspec import PodSpec
from autoscaler.reasons import NoFit
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from tests.builders import Json, a_node, a_pod, expression, replicas
from tests.unit.scheduling.verdicts import FITS, verdict, verdicts

TOLERANT: list[Json] = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("pod", "node", "expected"),
    [
        pytest.param(a_pod(), a_node(cordoned=True), NoFit.UNSCHEDULABLE, id="cordoned"),
        pytest.param(a_pod(tolerations=TOLERANT), a_node(cordoned=True), FITS, id="cordoned but tolerated"),
        pytest.param(a_pod(), a_node(taints=["gpu"]), NoFit.TAINT, id="tainted"),
        pytest.param(a_pod(), a_node(taints=["gpu:NoExecute"]), NoFit.TAINT, id="tainted to evict"),
        pytest.param(a_pod(), a_node(taints=["gpu:PreferNoSchedule"]), FITS, id="tainted only to ask"),
        pytest.param(
            a_pod(tolerations=[{"key": "gpu", "operator": "Exists"}]),
            a_node(taints=["gpu=a100", "gpu=t4:NoExecute"]),
            FITS,
            id="every taint tolerated",
        ),
        pytest.param(
            a_pod(tolerations=[{"key": "gpu", "operator": "Exists"}]),
            a_node(taints=["gpu", "arm"]),
            NoFit.TAINT,
            id="one taint of two tolerated",
        ),
        pytest.param(a_pod(selector={"disk": "ssd"}), a_node(), NoFit.NODE_AFFINITY, id="selector: no such label"),
        pytest.param(
            a_pod(selector={"disk": "ssd"}), a_node(labels={"disk": "ssd"}), FITS, id="selector: the label it wants"
        ),
        pytest.param(
            a_pod(node_terms=[{"matchFields": [expression("metadata.name", "In", "other")]}]),
            a_node("n"),
            NoFit.NODE_AFFINITY,
            id="affinity: another name",
        ),
        pytest.param(
            a_pod(node_terms=[{"matchExpressions": [expression("disk", "NotIn", "hdd")]}]),
            a_node(),
            FITS,
            id="affinity: not a label that the node does not have",
        ),
        pytest.param(
            a_pod(node_terms=[{"matchExpressions": [expression("cores", "Gt", "7")]}]),
            a_node(labels={"cores": "8"}),
            FITS,
            id="affinity: more than a number",
        ),
        pytest.param(
            a_pod(node_terms=[{"matchExpressions": [expression("cores", "Lt", "7")]}]),
            a_node(),
            NoFit.NODE_AFFINITY,
            id="affinity: no number at all",
        ),
        pytest.param(
            a_pod(node_terms=[{"matchFields": [expression("metadata.name", "NotIn", "other")]}]),
            a_node("n"),
            FITS,
            id="affinity: any name but one",
        ),
        pytest.param(
            a_pod(node_terms=[{"matchFields": [expression("metadata.uid", "NotIn", "x")]}]),
            a_node("n"),
            FITS,
            id="affinity: a field that nodes do not have is not a value",
        ),
        pytest.param(a_pod(node_terms=[{}]), a_node(), NoFit.NODE_AFFINITY, id="affinity: an empty term"),
    ],
)
def test_name_labels_and_taints(pod: Pod, node: Node, expected: str) -> None:
    assert verdict(pod, node) == expected


def test_a_node_asked_for_by_name() -> None:
    cls = PodInterner().class_of(ObjectMeta(name="p"), PodSpec(), node_name="n1")
    assert verdicts(Pod(name="p", cls=cls), [a_node("n1"), a_node("n2")]) == [FITS, NoFit.NODE_NAME]


def port(number: int, protocol: str = "TCP", ip: str = "") -> Json:
    return {"containerPort": 1, "hostPort": number, "protocol": protocol, "hostIP": ip}


@pytest.mark.parametrize(
    ("wanted", "taken", "expected"),
    [
        pytest.param(port(80), port(80), NoFit.PORTS, id="taken"),
        pytest.param(port(80), port(81), FITS, id="another is taken"),
        pytest.param(port(80), port(80, "UDP"), FITS, id="taken by another protocol"),
        pytest.param(port(80, ip="10.0.0.1"), port(80, ip="10.0.0.2"), FITS, id="taken on another address"),
        pytest.param(port(80, ip="10.0.0.1"), port(80), NoFit.PORTS, id="taken on all addresses"),
        pytest.param(port(80), port(80, ip="10.0.0.1"), NoFit.PORTS, id="wanted on all, taken on one"),
        pytest.param(port(80, ip="0.0.0.0"), port(80, ip="10.0.0.1"), NoFit.PORTS, id="all addresses, spelled out"),
        pytest.param({"containerPort": 80}, {"containerPort": 80}, FITS, id="container ports are nobody's business"),
    ],
)
def test_host_ports(wanted: Json, taken: Json, expected: str) -> None:
    holder = a_pod("holder", node="n", host_ports=[taken])
    assert verdicts(a_pod(host_ports=[wanted]), [a_node("n"), a_node("empty")], [holder]) == [expected, FITS]


@pytest.mark.parametrize(
    ("pod", "messages"),
    [
        pytest.param(a_pod(cpu="1"), [], id="exactly what is left"),
        pytest.param(a_pod(cpu="1001m"), ["Insufficient cpu"], id="a thousandth too much"),
        pytest.param(
            a_pod(cpu="2", memory="20Gi"), ["Insufficient cpu", "Insufficient memory"], id="every shortage is named"
        ),
        pytest.param(a_pod(requests={"example.com/x": "1"}), ["Insufficient example.com/x"], id="what the node lacks"),
        pytest.param(a_pod(requests={"example.com/x": "0"}), [], id="none of what the node lacks"),
        pytest.param(a_pod(requests={"nvidia.com/gpu": "1"}), [], id="what is left of an extended resource"),
        pytest.param(a_pod(requests={"nvidia.com/gpu": "2"}), ["Insufficient nvidia.com/gpu"], id="more than is left"),
        pytest.param(a_pod(), [], id="nothing but a slot"),
    ],
)
def test_resources(pod: Pod, messages: list[str]) -> None:
    node = a_node("n", cpu="4", extra={"nvidia.com/gpu": "2"})
    holder = a_pod("holder", node="n", cpu="3", requests={"nvidia.com/gpu": "1"})
    placer = Placer(Trial(view_of([node], [holder])))
    assert [one.message for one in placer.why(pod.cls, 0)] == messages
    assert placer.fits(pod.cls, 0) is (not messages)
    assert placer.passing(pod.cls, slice(0, 1)).tolist() == [not messages]


def test_pod_slots() -> None:
    node = a_node("n", pods=2)
    placed = replicas(a_pod("placed", node="n"), 2)
    placer = Placer(Trial(view_of([node], placed)))
    assert [one.message for one in placer.why(a_pod(cpu="9").cls, 0)] == ["Too many pods", "Insufficient cpu"]
    assert verdict(a_pod(), node, placed[:1]) == FITS


def test_an_overcommitted_node_has_room_for_what_it_has_left() -> None:
    node, hog = a_node("n", cpu="1"), a_pod("hog", node="n", cpu="3")
    assert verdict(a_pod(memory="1Gi"), node, [hog]) == FITS
    assert verdict(a_pod(cpu="1m"), node, [hog]) == NoFit.RESOURCES


def test_absurd_requests_stay_requests() -> None:
    huge = a_pod(memory="9E", spec={"overhead": {"memory": "9E", "cpu": "9E"}})
    assert verdict(huge, a_node()) == NoFit.RESOURCES
    assert verdict(a_pod(), a_node("n"), replicas(a_pod(memory="9E", node="n"), 50)) == FITS
