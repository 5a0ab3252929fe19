"""What the scheduler says of a pod that fits nowhere, and, of a real one, where it put those that fit."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from autoscaler.objects.node import HOSTNAME, ZONES, Node, node_decoder
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.storage import PersistentVolumeClaim
from autoscaler.objects.workload import Namespace, plain_decoder
from autoscaler.reasons import NoFit
from autoscaler.scheduling.fit_error import unschedulable
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import Profile
from autoscaler.snapshot.cluster import Related, view_of
from autoscaler.snapshot.overlay import Trial
from tests.builders import Json, a_node, a_pod, over, term

RECORDED = Path(__file__).parent / "kube_scheduler_verdicts.jsonl.gz"
"""Of kube-scheduler 1.32: small random worlds, each with one more pod, and where it went or the message it got."""
NO_HELP = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def a_namespace(name: str) -> Namespace:
    labels = {"team": name, "kubernetes.io/metadata.name": name}
    return plain_decoder(Namespace).one({"metadata": {"name": name, "labels": labels}})


def a_placer(
    nodes: Sequence[Node], pods: Sequence[Pod] = (), related: Related | None = None, profile: Profile | None = None
) -> Placer:
    return Placer(Trial(view_of(nodes, pods, related=related or Related())), profile or Profile())


def test_a_real_schedulers_verdicts() -> None:
    related = Related(namespaces={name: a_namespace(name) for name in ("n1", "n2")})
    a_recorded_node, a_recorded_pod = node_decoder().one, PodInterner().decoder().one
    wrong = []
    for line in gzip.decompress(RECORDED.read_bytes()).splitlines():
        case = msgspec.json.decode(line)
        nodes = [a_recorded_node(one) for one in case["nodes"]]
        placer = a_placer(nodes, [a_recorded_pod(pod) for pod in case["pods"]], related)
        cls = a_recorded_pod(case["pod"]).cls
        found = placer.passing(cls, slice(0, len(nodes))).tolist()
        fitting = [node.name for node, fits in zip(nodes, found, strict=True) if fits]
        message, chosen = case["verdict"].get("message", ""), case["verdict"].get("node")
        right = chosen in fitting if chosen else not fitting
        if not right or unschedulable(placer, cls) != message:
            wrong.append((case["pod"]["metadata"]["name"], fitting, unschedulable(placer, cls), case["verdict"]))
    assert wrong == []


def outlook(total: int, *counted: str) -> str:
    return f"preemption: 0/{total} nodes are available: {', '.join(counted)}."


SMALL = a_node("small", cpu="1")
PINS: list[Json] = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["small"]}]}]
CONFLICT: list[Json] = [{"matchFields": [*PINS[0]["matchFields"], {**PINS[0]["matchFields"][0], "values": ["other"]}]}]


@pytest.mark.parametrize(
    ("pod", "nodes", "placed", "message"),
    [
        pytest.param(a_pod(), [], [], "no nodes available to schedule pods", id="without nodes"),
        pytest.param(a_pod(), [SMALL], [], "", id="a pod that fits"),
        pytest.param(
            a_pod(cpu="2", memory="900Gi"),
            [SMALL],
            [],
            f"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. {outlook(1, f'1 {NO_VICTIMS}')}",
            id="every resource that is short",
        ),
        pytest.param(
            a_pod(cpu="2", labels={"app": "web"}, away=[term(labels={"app": "web"})]),
            [a_node("a", taints=["gpu=a100", "old=x"]), SMALL],
            [a_pod("p", node="small", labels={"app": "web"})],
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: a100}. "
            + outlook(2, f"1 {NO_VICTIMS}", f"1 {NO_HELP}"),
            id="otherwise the first thing that the first filter says",
        ),
        pytest.param(
            a_pod(spread=[over(ZONES[0], labels={"app": "web"}), over(HOSTNAME, labels={"app": "web"})]),
            [SMALL],
            [],
            "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label). "
            + outlook(1, f"1 {NO_HELP}"),
            id="no eviction gives a node a label",
        ),
        pytest.param(
            a_pod(cpu="2", node_terms=PINS),
            [SMALL, a_node("b", cordoned=True), a_node("c")],
            [],
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
            + outlook(3, f"1 {NO_VICTIMS}", f"2 {NO_HELP}"),
            id="only nodes that the affinity names are asked",
        ),
        pytest.param(
            a_pod(node_terms=CONFLICT),
            [SMALL, a_node("b")],
            [],
            f"0/2 nodes are available: pod affinity terms conflict. {outlook(2, f'2 {NO_HELP}')}",
            id="names that exclude each other",
        ),
        pytest.param(
            a_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
            [SMALL, a_node("b", taints=["gpu=a100"])],
            [],
            f'0/2 nodes are available: persistentvolumeclaim "data" not found. {outlook(2, f"2 {NO_HELP}")}',
            id="no node is asked for a pod whose claim does not exist",
        ),
        pytest.param(
            a_pod(cpu="1", priority=9),
            [SMALL, a_node("b", cpu="100m")],
            [a_pod("p", node="small", cpu="1", priority=3)],
            "0/2 nodes are available: 2 Insufficient cpu.",
            id="a preemption that works needs no words",
        ),
        pytest.param(
            a_pod(cpu="2", priority=9),
            [SMALL, a_node("b", cpu="1")],
            [a_pod("p", node="small", cpu="1", priority=3)],
            f"0/2 nodes are available: 2 Insufficient cpu. {outlook(2, '1 Insufficient cpu', f'1 {NO_VICTIMS}')}",
            id="what is short even without less important pods",
        ),
        pytest.param(
            a_pod(cpu="1", priority=3),
            [SMALL],
            [a_pod("p", node="small", cpu="1", priority=3)],
            f"0/1 nodes are available: 1 Insufficient cpu. {outlook(1, f'1 {NO_VICTIMS}')}",
            id="equally important pods stay",
        ),
        pytest.param(
            a_pod(cpu="1", priority=9, spec={"preemptionPolicy": "Never"}),
            [SMALL],
            [a_pod("p", node="small", cpu="1", priority=3)],
            "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
            id="a pod that may not preempt",
        ),
    ],
)
def test_the_schedulers_words(pod: Pod, nodes: list[Node], placed: list[Pod], message: str) -> None:
    placer = a_placer(nodes, placed)
    assert unschedulable(placer, pod.cls) == message
    assert list(placer.trial.moves()) == []


def test_a_filter_that_is_off_says_nothing() -> None:
    related = Related(claims={"default/data": plain_decoder(PersistentVolumeClaim).one({"metadata": {"name": "data"}})})
    pod = a_pod(node_terms=PINS, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    profile = Profile(disabled=frozenset({NoFit.NODE_AFFINITY, NoFit.VOLUME_BINDING, NoFit.VOLUME_ZONE}))
    assert unschedulable(a_placer([a_node("b")], related=related, profile=profile), pod.cls) == ""
