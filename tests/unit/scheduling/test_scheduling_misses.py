"""Nodes by why a pod does not fit on them, nearest first."""

import pytest

from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import NoFit
from autoscaler.scheduling.misses import Miss, near_misses
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template
from tests.builders import a_node, a_pod


def the_misses(pod: Pod, *nodes: Node) -> list[tuple[list[str], list[str]]]:
    placer = Placer(Trial(view_of(nodes, [])))
    found = near_misses(placer, pod.cls, slice(0, placer.trial.count))
    return [([one.reason for one in miss.rejections], _names(placer, miss)) for miss in found]


def _names(placer: Placer, miss: Miss) -> list[str]:
    return [placer.trial.name(position) for position in miss.positions]


TAINT = ["gpu=true"]
RESOURCES, TAINTED, CORDONED = NoFit.RESOURCES, NoFit.TAINT, NoFit.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("pod", "nodes", "expected"),
    [
        pytest.param(
            a_pod(cpu="2"),
            [a_node("small", cpu="1"), a_node("fine")],
            [([], ["fine"]), ([RESOURCES], ["small"])],
            id="nodes that would take the pod come first",
        ),
        pytest.param(
            a_pod(cpu="8"),
            [a_node("far", cpu="1"), a_node("near", cpu="7"), a_node("middle", cpu="4")],
            [([RESOURCES], ["near", "middle", "far"])],
            id="within a set the smallest shortfall comes first",
        ),
        pytest.param(
            a_pod(cpu="8", memory="16Gi"),
            [a_node("lacks-both", cpu="6", memory="8Gi"), a_node("lacks-memory", cpu="8", memory="8Gi")],
            [([RESOURCES], ["lacks-memory"]), ([RESOURCES, RESOURCES], ["lacks-both"])],
            id="two resources are one filter, but at an equal shortfall one is nearer",
        ),
        pytest.param(
            a_pod(cpu="8"),
            [a_node("both", cpu="7", taints=TAINT), a_node("one", cpu="1")],
            [([RESOURCES], ["one"]), ([TAINTED, RESOURCES], ["both"])],
            id="fewer failing filters are nearer than a smaller shortfall",
        ),
        pytest.param(
            a_pod(cpu="8"),
            [a_node("tainted", cpu="8", taints=TAINT), a_node("short", cpu="7")],
            [([RESOURCES], ["short"]), ([TAINTED], ["tainted"])],
            id="a part missing is nearer than a filter that fails altogether",
        ),
        pytest.param(
            a_pod(cpu="2"),
            [a_node("shut", cordoned=True), a_node("a", taints=TAINT), a_node("b", taints=TAINT)],
            [([TAINTED], ["a", "b"]), ([CORDONED], ["shut"])],
            id="equally near sets go by size",
        ),
        pytest.param(a_pod(cpu="2"), [], [], id="no nodes are no misses"),
    ],
)
def test_nodes_are_sorted_by_what_refuses_them(pod: Pod, nodes: list[Node], expected: list[object]) -> None:
    assert the_misses(pod, *nodes) == expected


def test_taints_of_other_names_are_other_misses() -> None:
    found = the_misses(a_pod(cpu="2"), a_node("a", taints=TAINT), a_node("b", taints=["gpu=false"]))
    assert sorted(names for _, names in found) == [["a"], ["b"]]


def test_the_detail_is_that_of_the_nearest_node() -> None:
    placer = Placer(Trial(view_of([a_node("far", cpu="1"), a_node("near", cpu="2500m")], [])))
    (miss,) = near_misses(placer, a_pod(cpu="4").cls, slice(0, 2))
    assert [one.detail for one in miss.rejections] == ["needs 4 cpu, 2.5 free"]
    assert miss.distance == (1, 1.5 / 4)


def test_added_nodes_count_and_removed_ones_do_not() -> None:
    trial = Trial(view_of([a_node("gone"), a_node("here", cpu="1")], []))
    trial.remove(0)
    trial.add(Template(a_node("template")), 2, "upcoming-")
    placer = Placer(trial)
    fits, short = near_misses(placer, a_pod(cpu="2").cls, slice(0, trial.count))
    assert _names(placer, fits) == ["template-upcoming-0", "template-upcoming-1"]
    assert _names(placer, short) == ["here"]
