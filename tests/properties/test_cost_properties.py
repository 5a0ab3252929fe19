"""What the author of a pod writes costs a pass work and memory in proportion to its length, and no more than so much.

Work is counted in lines of Python that run, so that the figures are the same on every machine.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from autoscaler.explain.explain import parse_targets
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.reasons import NoFit, UnremovableReason
from autoscaler.recording.pass_file import record
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play_and_explain, play_and_look
from tests.properties.hostile_pods import DISTINCT, HOSTILE, Hostile, Json, a_cluster, a_hostile_pod, a_plain_pod

SIZES = 50, 100, 200
GROWTH = 2.3
"""Twice the size may add so much times what the doubling before added: 2 is linear, 4 is quadratic."""
SLACK = 2000
"""Lines that are no matter of size."""
MOST_LINES = 1500
"""For each entry of the list in question."""


def lines_of(action: Callable[[], object]) -> int:
    """Return how many lines of Python an action runs."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return lines


def peak_bytes(action: Callable[[], object]) -> int:
    """Return how much memory an action has at most."""
    gc.collect()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def look_at(body: bytes) -> EndedPass:
    """Run a pass over a scenario, and record it."""
    scenario, seen = decode(body, "hostile.json"), []
    play_and_look(scenario, lambda run, p: seen.append(p))
    record(seen[-1], scenario.config, "hostile")
    return seen[-1]


def crowd(hostile: Hostile, size: int) -> list[Json]:
    """Return hostile pods that wait for room that is there, that need a new node, and that run; and pods of others."""
    body = hostile(size)
    return [
        a_plain_pod("shop"),
        a_plain_pod("large", cpu="3500m"),
        a_plain_pod("running", node="node-1"),
        a_hostile_pod("small", body),
        a_hostile_pod("tall", body, cpu="3900m"),
        a_hostile_pod("bound", body, node="node-0"),
    ]


def check_growth(figures: Sequence[int], slack: int) -> None:
    """Fail where figures for sizes that double grow by more than sizes do."""
    first, second, third = figures
    assert third - second <= GROWTH * max(0, second - first) + slack, figures


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_pass_takes_work_in_proportion_to_a_pod(kind: str) -> None:
    look_at(a_cluster(*crowd(HOSTILE[kind], 3)))  # what is imported or cached at the first use
    bodies = [a_cluster(*crowd(HOSTILE[kind], size)) for size in SIZES]
    figures = [lines_of(lambda body=body: look_at(body)) for body in bodies]  # type: ignore[misc]
    check_growth(figures, SLACK)
    assert figures[-1] < 200 * SLACK + MOST_LINES * SIZES[-1], figures


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_pass_takes_memory_in_proportion_to_a_pod(kind: str) -> None:
    look_at(a_cluster(*crowd(HOSTILE[kind], 3)))  # what is imported or cached at the first use
    bodies = [a_cluster(*crowd(HOSTILE[kind], size)) for size in (25, 50, 100)]
    figures = [peak_bytes(lambda body=body: look_at(body)) for body in bodies]  # type: ignore[misc]
    check_growth(figures, 100_000)


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_explanation_takes_work_in_proportion_to_a_pod(kind: str) -> None:
    targets = parse_targets(["pod/default/tall", "pod/default/bound", "node/node-0"])

    def explained(size: int) -> int:
        scenario = decode(a_cluster(*crowd(HOSTILE[kind], size)), "hostile.json")
        return lines_of(lambda: play_and_explain(scenario, targets))

    explained(3)
    check_growth([explained(size) for size in (15, 30, 60)], 10 * SLACK)


@pytest.mark.parametrize(
    "kind", ["affinity terms", "anti-affinity terms", "spread constraints", "containers", "labels", "host ports"]
)
def test_many_hostile_pods_take_work_in_proportion_to_their_number(kind: str) -> None:
    def of(count: int) -> bytes:
        bodies = [HOSTILE[kind](10 + number % 7) for number in range(count)]
        waiting = [a_hostile_pod(f"waiting-{number}", body) for number, body in enumerate(bodies)]
        bound = [a_hostile_pod(f"bound-{number}", body, node="node-0") for number, body in enumerate(bodies)]
        return a_cluster(a_plain_pod("shop"), *waiting, *bound)

    look_at(of(2))
    check_growth([lines_of(lambda count=count: look_at(of(count))) for count in (8, 16, 32)], 10 * SLACK)  # type: ignore[misc]


@pytest.mark.parametrize("kind", DISTINCT)
def test_many_pods_none_of_which_is_like_another_take_work_in_proportion_to_their_number(kind: str) -> None:
    def of(count: int) -> bytes:
        waiting = [a_hostile_pod(f"waiting-{at}", DISTINCT[kind](2 * at), cpu="1m") for at in range(count)]
        running = [
            a_hostile_pod(f"running-{at}", DISTINCT[kind](2 * at + 1), node=f"node-{at % 8}", cpu="1m")
            for at in range(count)
        ]
        return a_cluster(a_plain_pod("shop"), *waiting, *running, nodes=8)

    look_at(of(10))
    figures = [lines_of(lambda count=count: look_at(of(count))) for count in (80, 160, 320)]  # type: ignore[misc]
    check_growth(figures, 10 * SLACK)


def test_selectors_of_all_pods_together_are_held_to_a_limit_and_pods_with_few_of_them_come_first() -> None:
    greedy = [a_hostile_pod(f"greedy-{at}", DISTINCT["wide affinity"](at)) for at in range(50)]
    modest = a_hostile_pod("modest", HOSTILE["affinity terms about everybody"](1))
    plain = a_plain_pod("shop")
    report = look_at(a_cluster(*greedy, modest, plain, options={"max-pod-evaluation-work": "40"})).report
    assert report.pods.waiting.keys() >= {"default/modest", "default/shop"}
    assert report.pods.waiting
    assert 10 < len(report.pods.unschedulable) < 50


def limited(*pods: Json) -> EndedPass:
    """Run a pass over one node with these pods, where constraints are few."""
    return look_at(a_cluster(*pods, nodes=1, options={"max-pod-evaluation-work": "300"}))


def test_a_pod_with_too_many_constraints_is_put_aside_and_others_are_served() -> None:
    hostile = HOSTILE["anti-affinity terms about everybody"](200)
    running = a_hostile_pod("running", {}, node="node-0", cpu="200m")
    p = limited(running, a_hostile_pod("greedy", hostile), a_hostile_pod("large", {}, cpu="3900m"))
    plan = p.report.scale_up.plan
    assert plan is not None
    assert [pod.name for pod in plan.triggered] == ["large"]
    assert [pod.name for pod in plan.remaining] == ["greedy"]
    (reasons,) = plan.rejected[plan.remaining[0].cls].values()
    assert [reason.reason for reason in reasons] == [NoFit.TOO_MUCH_WORK]


def test_a_node_stays_that_a_pod_with_too_many_constraints_would_have_to_leave() -> None:
    hostile = HOSTILE["affinity terms"](200)
    p = limited(a_hostile_pod("greedy", hostile, node="node-0"))
    kept = {one.node: one for one in p.report.scale_down.unremovable.values()}
    assert (kept["node-0"].reason, kept["node-0"].pod) == (UnremovableReason.NO_PLACE, "default/greedy")
    assert "too many constraints" in kept["node-0"].detail


def test_anti_affinity_that_is_too_much_keeps_everybody_away() -> None:
    hostile = HOSTILE["anti-affinity terms"](400)
    pods = [a_hostile_pod("greedy", hostile, node="node-0"), a_hostile_pod("plain", {}, cpu="10m")]
    near = look_at(a_cluster(*pods, nodes=1))
    assert near.report.pods.waiting == {"default/plain": "FitsOnExistingOrUpcomingNode"}
    assert [pod.name for pod in limited(*pods).report.pods.unschedulable] == ["plain"]
