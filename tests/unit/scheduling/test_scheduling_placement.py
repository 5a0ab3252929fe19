"""Searching for a node, and telling why there is none."""

import numpy as np
import pytest

from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scheduler_profile import SchedulerProfile
from autoscaler.objects.node import HOSTNAME, ZONES
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import profile_of
from autoscaler.scheduling.topology import SKEWED
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from tests.builders import Json, a_node, a_pod, over, term

ZONE = ZONES[0]
WEB = {"app": "web"}
TOLERANT: list[Json] = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]


def test_reasons_come_in_the_schedulers_order_with_figures() -> None:
    node = a_node("n", cpu="1", cordoned=True, taints=["gpu=a100"])
    pod = a_pod(
        labels=WEB,
        cpu="1500m",
        selector={"disk": "ssd"},
        host_ports=[80],
        spread=[over(ZONE, labels=WEB)],
        near=[term(labels={"app": "db"})],
        away=[term(labels=WEB)],
    )
    holders = [a_pod("p", node="n", host_ports=[80]), a_pod("w", node="n", labels=WEB, away=[term(labels=WEB)])]
    reasons = Placer(Trial(view_of([node], holders))).why(pod.cls, 0)
    assert [(one.message, one.detail) for one in reasons] == [
        ("node(s) were unschedulable", "the node is cordoned"),
        ("node(s) had untolerated taint {gpu: a100}", "taint gpu=a100:NoSchedule not tolerated"),
        (
            "node(s) didn't match Pod's node affinity/selector",
            "selector wants disk=ssd, the node has no such label",
        ),
        ("node(s) didn't have free ports for the requested pod ports", "host port 80/TCP is taken"),
        ("Insufficient cpu", "needs 1.5 cpu, 1 free"),
        (f"{SKEWED} (missing required label)", f"the node has no label {ZONE}"),
        ("node(s) didn't match pod affinity rules", f"no pod that it must be near to in this domain of {HOSTNAME}"),
        ("node(s) didn't match pod anti-affinity rules", f"a pod that it keeps away from in this domain of {HOSTNAME}"),
        (
            "node(s) didn't satisfy existing pods anti-affinity rules",
            f"a pod that keeps it away in this domain of {HOSTNAME}",
        ),
    ]


@pytest.mark.parametrize(
    ("rules", "tolerations", "first", "copies"),
    [
        pytest.param(Rules(), TOLERANT, 0, [110, 110], id="where they are tolerated"),
        pytest.param(Rules(), [], 1, [0, 110], id="not where they are not"),
        pytest.param(rules_of_1_31(), TOLERANT, 1, [0, 110], id="never in Cluster Autoscaler"),
    ],
)
def test_a_search_tries_cordoned_nodes(rules: Rules, tolerations: list[Json], first: int, copies: list[int]) -> None:
    nodes = [a_node("n0", cordoned=True), a_node("n1")]
    placer = Placer(Trial(view_of(nodes, [])), profile_of(SchedulerProfile(), rules))
    cls = a_pod(tolerations=tolerations).cls
    assert [placer.fits(cls, 0), placer.fits(cls, 1)] == [bool(tolerations), True]
    assert placer.first(cls, slice(0, 2), 0) == first
    assert placer.copies(cls, slice(0, 2)).tolist() == copies


@pytest.mark.parametrize(
    ("start", "window", "among", "found"),
    [
        pytest.param(0, slice(0, 5), None, 1, id="from the beginning"),
        pytest.param(1, slice(0, 5), None, 1, id="the start itself"),
        pytest.param(2, slice(0, 5), None, 3, id="after the start"),
        pytest.param(4, slice(0, 5), None, 1, id="around the end"),
        pytest.param(0, slice(2, 5), None, 3, id="a start before the window"),
        pytest.param(5, slice(0, 5), None, 1, id="a start past the window"),
        pytest.param(0, slice(4, 5), None, None, id="nothing in the window"),
        pytest.param(0, slice(2, 2), None, None, id="an empty window"),
        pytest.param(0, slice(0, 5), [False, False, True, True, True], 3, id="among some only"),
    ],
)
def test_the_first_node_that_passes(start: int, window: slice, among: list[bool] | None, found: int | None) -> None:
    nodes = [a_node(f"n{at}", cpu="4" if at in (1, 3) else "1") for at in range(5)]
    placer = Placer(Trial(view_of(nodes, [])))
    narrowed = None if among is None else np.array(among)
    assert placer.first(a_pod(cpu="2").cls, window, start, narrowed) == found


def test_a_long_search_goes_through_every_block() -> None:
    nodes = [a_node(f"n{at}", cpu="4" if at == 1300 else "1") for at in range(1400)]
    placer = Placer(Trial(view_of(nodes, [])))
    everywhere = slice(0, 1400)
    assert [placer.first(a_pod(cpu="2").cls, everywhere, start) for start in (0, 1300, 1301)] == [1300] * 3


def test_classes_that_others_cannot_influence_have_no_guards() -> None:
    placer = Placer(Trial(view_of([a_node("n")], [])))
    assert placer.guards(a_pod(cpu="1", labels=WEB).cls) == ()
    placer.place(a_pod(away=[term(labels=WEB)]).cls, 0)
    assert len(placer.guards(a_pod(cpu="1", labels=WEB).cls)) == 1
    assert placer.guards(a_pod(cpu="1").cls) == ()
