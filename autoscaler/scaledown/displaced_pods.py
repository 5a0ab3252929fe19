"""Pods displaced by removals under way: the room that they will need elsewhere counts as taken.

They are pods on nodes that are being removed, and evicted pods that their controllers have not recreated. The former
look for room together with pending pods (`pods_of_removed_nodes`); scale-down places the rest.
Source: Cluster Autoscaler's `core/podlistprocessor` (nodes being drained) and `core/scaledown/planner` (evicted pods).
"""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from autoscaler.config.rules import Rules
from autoscaler.objects.meta import OwnerReference
from autoscaler.objects.node import TO_BE_DELETED
from autoscaler.objects.pod import Pod, Unscheduled
from autoscaler.scaledown.plan import ScaleDownContext
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Trial


def leaving_nodes(trial: Trial, situation: ScaleDownContext) -> Mask:
    """Return which nodes of the view are being removed."""
    leaving = np.zeros(trial.base, dtype=np.bool_)
    positions = trial.view.positions
    leaving[[positions[name] for name in situation.under_way.nodes if name in positions]] = True
    return leaving


def place_displaced_pods(placer: Placer, situation: ScaleDownContext, leaving: Mask) -> None:
    """Place displaced pods where they fit, upcoming nodes included; those that fit nowhere are left out."""
    trial, start = placer.trial, 0
    among = np.ones(trial.count, dtype=np.bool_)
    among[: trial.base] = ~leaving
    for pod in displaced_pods(trial.view, situation, leaving):
        position = placer.first(pod.cls, slice(0, trial.count), start, among)
        if position is not None:
            placer.place(pod.cls, position)
            start = (position + 1) % trial.count


def pods_of_removed_nodes(view: ClusterView, names: Iterable[str], wall: float, rules: Rules) -> tuple[Pod, ...]:
    """Return the pods that are expected to come again from nodes being removed, as pending pods.

    Only nodes that carry the taint count: on others the pods would find their old place.
    """
    positions = (view.positions[name] for name in sorted(names) if name in view.positions)
    gone = [position for position in positions if view.nodes[position].taint(TO_BE_DELETED) is not None]
    unscheduled = Unscheduled("Unschedulable", wall)
    return tuple(
        msgspec.structs.replace(pod, node=None, nominated_node=None, unscheduled=unscheduled)
        for position in gone
        for pod in view.pods[position]
        if pod.deleted is None and _recreatable(pod, rules)
    )


def displaced_pods(view: ClusterView, situation: ScaleDownContext, leaving: Mask) -> Iterator[Pod]:
    """Yield pods that are expected to come again and have no place yet; those not evicted yet come first."""
    for position in np.flatnonzero(leaving).tolist():
        here = (pod for pod in view.pods[position] if pod.key not in situation.displaced_placed)
        yield from (pod for pod in here if pod.deleted is None and _recreatable(pod, situation.rules))
    if situation.rules.evicted_pods_need_room:
        yield from _awaited(view, situation)


def _recreatable(pod: Pod, rules: Rules) -> bool:
    cls = pod.cls
    return (cls.owner is not None or rules.bare_pods_are_expected) and not (cls.mirror or cls.static or cls.daemonset)


def _awaited(view: ClusterView, situation: ScaleDownContext) -> Iterator[Pod]:
    """Yield evicted pods that are missing; all of those of a controller that does not say how many it wants."""
    missing: dict[tuple[str, OwnerReference | None], int | None] = {}
    for pod in situation.under_way.evicted:
        if not _recreatable(pod, situation.rules):
            continue
        key = pod.namespace, pod.cls.owner
        if key not in missing:
            wanted = _wanted_replicas(view, pod)
            missing[key] = None if wanted is None else wanted - _present(view, pod)
        left = missing[key]
        if left is None:
            yield pod
        elif left > 0:
            missing[key] = left - 1
            yield pod


def _wanted_replicas(view: ClusterView, pod: Pod) -> int | None:
    owner, related = pod.cls.owner, view.related
    if owner is None:
        return None
    name = f"{pod.namespace}/{owner.name}"
    if owner.kind == "Job":
        job = related.jobs.get(name)
        return None if job is None else 1 if job.spec.parallelism is None else job.spec.parallelism
    by_kind = {
        "ReplicaSet": related.replica_sets,
        "ReplicationController": related.replication_controllers,
        "StatefulSet": related.stateful_sets,
    }
    workload = by_kind.get(owner.kind, {}).get(name)
    return None if workload is None else workload.replicas


def _present(view: ClusterView, pod: Pod) -> int:
    """Count the pods of the same controller that are not on their way out."""

    def sibling(other: Pod) -> bool:
        return other.namespace == pod.namespace and other.cls.owner == pod.cls.owner

    own = [cls.namespace == pod.namespace and cls.owner == pod.cls.owner for cls in view.classes]
    placed = int(np.array(own, dtype=np.bool_)[view.pod_classes].sum()) if own else 0
    going = sum(1 for other in view.terminating if sibling(other) and other.node in view.positions)
    return placed - going + sum(1 for other in view.pending if other.deleted is None and sibling(other))
