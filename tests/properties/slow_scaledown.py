"""Scale-down as plain definitions: the slow twin of utilisation and of the simulation of removals.

One node and one pod at a time, on the slow scheduler; no columns, no marks, nothing that is told late.
"""

from collections.abc import Sequence
from typing import NamedTuple

from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import UnremovableReason
from autoscaler.scaledown.drain import BlockingPod, DrainContext, departure, judge
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.plan import ScaleDownContext
from autoscaler.snapshot.cluster import ClusterView
from tests.properties.random_clusters import slow_twin


def slow_utilization(
    node: Node,
    pods: Sequence[Pod],
    wall: float,
    *,
    daemonsets: bool,
    mirrors: bool,
    gpu_label: str,
    gpus: Sequence[str],
) -> float | None:
    """Requested / allocatable of one node; None where it does not say what it has."""

    def share(resource: str) -> float:
        requested, allocatable = 0, node.allocatable.get(resource, 0)
        for pod in pods:
            amount = pod.cls.requests.get(resource, 0)
            if (daemonsets and pod.cls.daemonset) or (mirrors and pod.cls.mirror):
                allocatable -= amount
            elif pod.deleted is None or pod.deleted + pod.cls.grace_s + 30 >= wall:
                requested += amount
        if allocatable == 0:
            return 1.0 if requested else 0.0
        return requested / allocatable if allocatable > 0 else 0.0

    found = next((resource for resource in gpus if node.allocatable.get(resource, 0) > 0), None)
    if found is not None:
        return share(found)
    if gpu_label in node.labels:
        return 0.0
    if not node.allocatable.get("cpu") or not node.allocatable.get("memory"):
        return None
    return max(share("cpu"), share("memory"))


class SlowPlan(NamedTuple):
    """Unneeded nodes in order, each with the pods that move, and why other nodes stay."""

    unneeded: list[tuple[str, list[str]]]
    kept: dict[str, UnremovableReason]


def slow_removals(view: ClusterView, situation: ScaleDownContext, order: Sequence[int]) -> SlowPlan:
    """Simulate removals in this order, each on what the others left."""
    twin = slow_twin(view)
    pods = {at: list(on_node) for at, on_node in enumerate(view.pods)}
    destinations = {at for at, node in enumerate(view.nodes) if not node.unschedulable}
    budgets = RemainingPdbTracker(view.related.budgets.values())
    terms = DrainContext(
        options=situation.drain,
        rules=situation.rules,
        wall=situation.now.wall,
        related=view.related,
        budgets=budgets,
    )
    ghost, hinted = situation.rules.ghost_node_in_removal, set[str]()
    plan = SlowPlan([], {})
    for at in order:
        name = view.nodes[at].name
        leaving = departure(pods[at], lambda pod: judge(pod, terms))
        if isinstance(leaving, BlockingPod):
            plan.kept[name] = UnremovableReason.BLOCKED_BY_POD
            continue
        moving = list(leaving.move)
        if situation.rules.hints_by_priority:
            moving.sort(key=lambda pod: (-(pod.cls.priority or 0), pod.uid not in hinted))
        before = list(twin.placed)
        for pod in pods[at] if ghost else moving:
            twin.lift(pod.cls, at, terminating=pod.deleted is not None)
        places: list[int] = []
        for pod in moving:
            place = twin.search(pod.cls, lambda other, at=at: other != at and other in destinations)  # type: ignore[misc]
            if place is None:
                break
            twin.place(pod.cls, place, terminating=pod.deleted is not None)
            hinted.add(pod.uid)
            places.append(place)
        if len(places) < len(moving):
            twin.placed[:] = before
            plan.kept[name] = UnremovableReason.NO_PLACE
            continue
        destinations.discard(at)
        if ghost:
            twin.remove(at)
        for pod, place in zip(moving, places, strict=True):
            pods[place].append(pod)
        budgets.take(leaving.move)
        plan.unneeded.append((name, [pod.name for pod in leaving.move]))
    return plan
