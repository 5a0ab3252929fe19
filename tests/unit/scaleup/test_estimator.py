from collections.abc import Sequence

import numpy as np
import pytest

from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import Pod
from autoscaler.scaleup.estimator import Estimate, PodGroup, estimate, pod_groups, score, spread_over
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template
from tests.builders import a_node, a_pod, a_template, over, replicas, term

TEMPLATE = a_template(a_node("template", cpu="1", memory="1Gi", pods=10))


def packed(
    pods: Sequence[Pod],
    template: Template = TEMPLATE,
    limit: int | None = None,
    nodes: Sequence[Node] = (),
    placed: Sequence[Pod] = (),
    topology_fallback: bool = True,
) -> Estimate:
    placer = Placer(Trial(view_of(nodes, placed)))
    return estimate(placer, template, pod_groups(pods), limit, topology_fallback=topology_fallback)


def test_pods_are_grouped_by_class_in_order_of_appearance() -> None:
    a, b = a_pod("a", cpu="1"), a_pod("b", cpu="2")
    other_a = replicas(a, 1)[0]
    assert pod_groups([a, b, other_a]) == [PodGroup(a.cls, (a, other_a)), PodGroup(b.cls, (b,))]


@pytest.mark.parametrize(
    ("pod", "template", "share"),
    [
        pytest.param(a_pod(cpu="500m", memory="256Mi"), TEMPLATE, 0.75, id="CPU plus memory"),
        pytest.param(a_pod(), TEMPLATE, 0.0, id="a pod that asks for nothing"),
        pytest.param(a_pod(requests={"example.com/x": "9"}), TEMPLATE, 0.0, id="other resources do not count"),
        pytest.param(
            a_pod(cpu="500m", memory="1Gi"),
            a_template(a_node(cpu="1", memory="0")),
            0.5,
            id="a resource the node lacks adds nothing",
        ),
    ],
)
def test_the_share_of_a_node(pod: Pod, template: Template, share: float) -> None:
    assert score(pod.cls, template) == share


@pytest.mark.parametrize(
    ("pods", "limit", "nodes", "placed"),
    [
        pytest.param([], None, 0, 0, id="nobody"),
        pytest.param(replicas(a_pod(cpu="250m"), 8), None, 2, 8, id="CPU decides"),
        pytest.param(replicas(a_pod(memory="300Mi"), 7), None, 3, 7, id="memory decides"),
        pytest.param(replicas(a_pod(), 21), None, 3, 21, id="pod slots decide"),
        pytest.param(replicas(a_pod(cpu="1100m"), 3), None, 0, 0, id="none fits on an empty node"),
        pytest.param(replicas(a_pod(selector={"no": "such"}), 3), None, 0, 0, id="the node is not wanted"),
        pytest.param(replicas(a_pod(cpu="500m"), 9), 2, 2, 4, id="as many as the limit allows"),
        pytest.param(replicas(a_pod(cpu="500m"), 4), 2, 2, 4, id="exactly the limit"),
        pytest.param(replicas(a_pod(cpu="500m"), 4), 0, 0, 0, id="no node may come"),
        pytest.param(
            [*replicas(a_pod("small", cpu="400m"), 2), *replicas(a_pod("large", cpu="600m"), 2)],
            None,
            2,
            4,
            id="small pods go where large ones leave room",
        ),
        pytest.param(
            [*replicas(a_pod("small", cpu="500m"), 3), a_pod("huge", cpu="2")],
            None,
            2,
            3,
            id="a node that a huge pod left empty is used by others",
        ),
        pytest.param(
            [a_pod("a", cpu="3", memory="1Mi"), a_pod("b", cpu="2", memory="1Mi")],
            None,
            0,
            0,
            id="an empty node helps no further group: no second one is tried",
        ),
    ],
)
def test_counting_nodes(pods: list[Pod], limit: int | None, nodes: int, placed: int) -> None:
    found = packed(pods, limit=limit)
    assert (found.nodes, len(found.pods)) == (nodes, placed)


def test_the_published_example() -> None:
    """50,000 small pods and 1,000 larger ones, on nodes of 1 CPU, 5000 bytes and 100 pod slots."""
    small, large = a_pod("small", cpu="50m", memory="100"), a_pod("large", cpu="95m", memory="190")
    template = a_template(a_node("template", cpu="1", memory="5000", pods=100))
    found = packed([*replicas(small, 50_000), *replicas(large, 1_000)], template)
    assert (found.nodes, len(found.pods)) == (2_595, 51_000)


def test_the_largest_go_first_and_equals_in_their_order() -> None:
    pods = [a_pod("a", cpu="100m"), a_pod("b", cpu="900m"), a_pod("c", cpu="100m", labels={"x": "y"})]
    assert [pod.name for pod in packed(pods).pods] == ["b", "a", "c"]


def test_a_limit_that_was_hit_still_lets_smaller_pods_fill_the_holes() -> None:
    pods = [*replicas(a_pod("large", cpu="600m"), 3), *replicas(a_pod("small", cpu="300m"), 3)]
    assert [pod.name for pod in packed(pods, limit=2).pods] == ["large-0", "large-1", "small-0", "small-1"]


def test_pods_that_come_with_the_node_take_their_room() -> None:
    template = a_template(TEMPLATE.node, a_pod("daemon", cpu="600m", owner="DaemonSet"))
    assert packed(replicas(a_pod(cpu="200m"), 4), template).nodes == 2


def test_room_on_real_nodes_is_not_looked_at() -> None:
    assert packed([a_pod(cpu="1")], nodes=[a_node("big", cpu="64")]).nodes == 1


WEB = {"app": "web"}


@pytest.mark.parametrize(
    ("pods", "nodes", "placed"),
    [
        pytest.param(replicas(a_pod(labels=WEB, away=[term(labels=WEB)]), 3), 3, 3, id="one per host"),
        pytest.param(
            replicas(a_pod(labels=WEB, away=[term("zone", labels=WEB)]), 3), 1, 1, id="one per zone: the others stay"
        ),
        pytest.param(replicas(a_pod(labels=WEB, near=[term(labels=WEB)]), 3), 1, 3, id="together on one host"),
        pytest.param(
            replicas(a_pod(labels=WEB, near=[term(labels=WEB)]), 12), 1, 10, id="together on one host until it is full"
        ),
        pytest.param(replicas(a_pod(host_ports=[80]), 3), 3, 3, id="one host port per host"),
        pytest.param(
            [
                *replicas(a_pod("a", cpu="200m", labels=WEB), 2),
                *replicas(a_pod("b", cpu="100m", away=[term(labels=WEB)]), 2),
            ],
            2,
            4,
            id="away from others",
        ),
        pytest.param(
            [
                *replicas(a_pod("a", cpu="200m", away=[term(labels=WEB)]), 2),
                *replicas(a_pod("b", cpu="100m", labels=WEB), 2),
            ],
            2,
            4,
            id="kept away by others",
        ),
    ],
)
def test_pods_about_other_pods(pods: list[Pod], nodes: int, placed: int) -> None:
    found = packed(pods, a_template(a_node("template", cpu="1", memory="1Gi", pods=10, labels={"zone": "a"})))
    assert (found.nodes, len(found.pods)) == (nodes, placed)


def test_pods_that_come_with_the_node_may_keep_others_away() -> None:
    guard = a_pod("guard", owner="DaemonSet", away=[term(labels=WEB)])
    assert packed([a_pod(labels=WEB)], a_template(TEMPLATE.node, guard)) == Estimate(0, ())


def test_pods_that_come_with_the_nodes_fill_the_domain_they_share() -> None:
    """Each new node brings one more agent to zone b; two agents ahead of zone a, nobody may come any more."""
    agent = {"app": "agent"}
    template = a_template(a_node("template", cpu="1", labels={"zone": "b"}), a_pod("agent", labels=agent))
    pods = replicas(a_pod(cpu="500m", spread=[over("zone", labels=agent)]), 4)
    found = packed(pods, template, nodes=[a_node("n0", labels={"zone": "a"})])
    assert (found.nodes, len(found.pods)) == (1, 2)


SPREAD = replicas(a_pod(cpu="500m", labels=WEB, spread=[over(HOSTNAME, labels=WEB)]), 4)


@pytest.mark.parametrize(
    ("fallback", "nodes", "placed"),
    [
        pytest.param(True, 1, 4, id="with fallback real nodes help, and do not count as new"),
        pytest.param(False, 4, 4, id="without fallback each gets a node of its own"),
    ],
)
def test_pods_spread_over_hosts(fallback: bool, nodes: int, placed: int) -> None:
    """Two real nodes have room for one pod each; until they have it, a new node may not take its second."""
    real = [a_node("n0", cpu="500m"), a_node("n1", cpu="500m")]
    found = packed(SPREAD, nodes=real, topology_fallback=fallback)
    assert (found.nodes, len(found.pods)) == (nodes, placed)


def test_the_fallback_is_for_skew_not_for_a_label_that_is_missing() -> None:
    apart = a_pod(labels=WEB, spread=[over("zone", labels=WEB), over(HOSTNAME, labels=WEB)])
    assert packed([apart], nodes=[a_node("n0", labels={"zone": "a"})]) == Estimate(0, ())


@pytest.mark.parametrize(
    ("tolerations", "nodes"),
    [
        pytest.param([], 0, id="not by pods that mind"),
        pytest.param([{"operator": "Exists"}], 2, id="by pods that do not"),
    ],
)
def test_a_cordoned_template_can_be_used(tolerations: list[dict[str, str]], nodes: int) -> None:
    template = a_template(a_node("template", cpu="1", cordoned=True))
    assert packed(replicas(a_pod(cpu="500m", tolerations=tolerations), 4), template).nodes == nodes


@pytest.mark.parametrize("pods", [SPREAD, replicas(a_pod(cpu="1"), 3)], ids=["one by one", "by counts"])
def test_an_estimate_leaves_no_trace(pods: list[Pod]) -> None:
    trial = Trial(view_of([a_node("n0")], []))
    before = trial.free.copy()
    estimate(Placer(trial), TEMPLATE, pod_groups(pods), None)
    assert (trial.count, list(trial.moves())) == (1, [])
    assert (trial.free == before).all()


def test_pods_dealt_piece_by_piece_are_all_dealt() -> None:
    pods = replicas(a_pod("a"), 4)
    waiting = iter(pods)
    first = list(spread_over(waiting, np.array([3, 5]), np.array([1, 1])))
    second = list(spread_over(waiting, np.array([7]), np.array([2])))
    assert first + second == list(zip(pods, [3, 5, 7, 7], strict=True))
