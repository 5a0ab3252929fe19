"""Finds the pods whose resize in place waits because their node is full.

The kubelet says that it waits. What the node lacks follows from what its pods reserve: of a pod that is being resized
the larger of what it holds and what it asks for, as for the scheduler.
"""

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.requests import DEFERRED, Requests
from autoscaler.snapshot.cluster import ClusterView


class DeferredResize(msgspec.Struct, frozen=True):
    """A pod that waits for room to grow."""

    pod: Pod
    node: str
    lacks: Requests
    """What the node has too little of, for all its pods together; empty: the kubelet can begin at its next attempt."""

    @property
    def shortage(self) -> str:
        """What the node lacks, for people; empty if nothing."""
        amounts = sorted(self.lacks.items())
        return ", ".join(f"{quantity.readable(name, amount, up=True)} {name}" for name, amount in amounts)


def deferred_resizes(view: ClusterView) -> tuple[DeferredResize, ...]:
    """Return the pods whose resize is deferred, in the order of their nodes."""
    if not any(map(_is_deferred, view.classes)):
        return ()
    return tuple(
        DeferredResize(pod, node.name, _lacks(view, position, pod.cls))
        for position, node in enumerate(view.nodes)
        for pod in view.pods[position]
        if _is_deferred(pod.cls)
    )


def _is_deferred(cls: PodClass) -> bool:
    return cls.resize_pending == DEFERRED


def _lacks(view: ClusterView, position: int, cls: PodClass) -> Requests:
    columns = view.columns
    rows = {resource: columns.vocabulary.rows.get(resource, columns.counted) for resource in cls.held_for_resize}
    free = {
        resource: int(columns.allocatable[row, position] - columns.used[row, position])
        for resource, row in rows.items()
        if row < columns.counted
    }
    return {resource: -amount for resource, amount in free.items() if amount < 0}
