"""Pause pods give way to pods that wait, and count as pending themselves in the same pass."""

from typing import Any

from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.config.headroom import MANAGED_BY, MANAGER, POOL
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Pods
from autoscaler.objects.pod import Pod
from autoscaler.reasons import Waiting
from autoscaler.scaleup.pause_pods import filter_yielding
from autoscaler.scaleup.pending import UnschedulablePods
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.hints import Hints
from autoscaler.snapshot.overlay import Trial
from tests.builders import a_node, a_pod

NOW = Instant(1000.0, 1000.0)


def a_pause(name: str, **fields: Any) -> Pod:
    fields = {"cpu": "1", "priority": -10, "labels": {MANAGED_BY: MANAGER, POOL: "ci"}, **fields}
    return a_pod(name, **fields)


def waiting(name: str, cpu: str = "2", created: float = 990.0, **fields: Any) -> Pod:
    return replace(a_pod(name, cpu=cpu, created=created, unschedulable=True, **fields), unscheduled=None)


def filtered(pods: list[Pod], placed: list[Pod], nodes: int = 1) -> tuple[list[str], UnschedulablePods]:
    names = [f"n{number}" for number in range(1, nodes + 1)]
    view = view_of([a_node(name, cpu="4") for name in names], placed)
    needy = filter_yielding(Placer(Trial(view)), pods, Pods(), Hints(), Rules(), NOW)
    return [pod.name for pod in needy.pods], needy


def full(node: str = "n1") -> list[Pod]:
    return [
        a_pod(f"work-{node}", cpu="2", node=node),
        a_pause(f"pause-{node}-1", node=node),
        a_pause(f"pause-{node}-2", node=node),
    ]


def test_the_pause_pods_that_go_are_pending_instead() -> None:
    names, needy = filtered([waiting("new")], full())
    assert names == ["pause-n1-1", "pause-n1-2"]
    assert needy.waiting == {"default/new": Waiting.TAKES_HEADROOM}


def test_no_more_go_than_have_to() -> None:
    assert filtered([waiting("new", cpu="1")], full())[0] == ["pause-n1-2"]


def test_those_that_fit_elsewhere_need_nothing() -> None:
    names, needy = filtered([waiting("new", cpu="4")], [a_pause("p", node="n1"), a_pod("w", cpu="2", node="n2")], 2)
    assert names == []
    assert needy.waiting == {"default/new": Waiting.TAKES_HEADROOM}


def test_room_is_given_once() -> None:
    assert filtered([waiting("a"), waiting("b")], full())[0] == ["b", "pause-n1-1", "pause-n1-2"]


def test_pause_pods_come_after_pods_of_any_priority() -> None:
    pending = [a_pause("later", unschedulable=True), waiting("first", cpu="4", priority=-10)]
    names, needy = filtered(pending, [])
    assert names == ["later"]
    assert needy.waiting == {"default/first": Waiting.FITS}


def test_pods_that_do_not_evict_need_a_node() -> None:
    for pod in (
        waiting("never", spec={"preemptionPolicy": "Never"}),
        waiting("as low", priority=-10),
        waiting("old", created=900.0),
        waiting("too large", cpu="3"),
    ):
        assert filtered([pod], full())[0] == [pod.name], pod.name


def test_pause_pods_that_are_going_have_no_room_to_give() -> None:
    leaving = [replace(pod, deleted=995.0) if pod.cls.headroom else pod for pod in full()]
    assert filtered([waiting("new")], leaving)[0] == ["new"]
