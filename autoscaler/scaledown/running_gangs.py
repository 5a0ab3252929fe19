"""How many pods each running gang can lose: no removal takes one below its minimum.

The minimum is the one that the gang's object or its pods state (`autoscaler/objects/gang.py`); a gang of which nothing
states one has no minimum here. No API refuses an eviction for a gang, so all its pods on one node count together.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec
import numpy as np

from autoscaler.objects.gang import MOST_PODS, GangRef, stated_minimum
from autoscaler.objects.pod import Pod
from autoscaler.snapshot.cluster import ClusterView, Related


class RunningGangs(msgspec.Struct, frozen=True):
    """The pods of gangs that run and stay, and what each gang needs of them. Gangs are named `namespace/name`."""

    minimums: Mapping[str, int] = {}
    """Of each gang with a minimum of two or more. One whose pods may only be disrupted together needs all of them."""
    running: Mapping[str, int] = {}
    on_node: Mapping[tuple[str, str], int] = {}
    """How many of these pods are on a node, by gang and node."""


def running_gangs(view: ClusterView, leaving: Collection[str]) -> RunningGangs:
    """Return the gangs that run; pods on nodes that are `leaving`, or being deleted, no longer count."""
    refs = {cls.gang.key: cls.gang for cls in view.classes if cls.gang is not None}
    minimums = {key: minimum for key, ref in refs.items() if (minimum := _minimum(ref, view.related)) > 1}
    if not minimums:
        return RunningGangs()
    wanted = np.array([cls.gang is not None and cls.gang.key in minimums for cls in view.classes], dtype=np.bool_)
    nodes = np.unique(view.pod_nodes[wanted[view.pod_classes]]).tolist()
    on_node = Counter(
        (pod.cls.gang.key, pod.node or "")
        for position in nodes
        for pod in view.pods[position]
        if pod.cls.gang is not None and pod.cls.gang.key in minimums and _stays(pod, leaving)
    )
    running: Counter[str] = Counter()
    for (key, _), count in on_node.items():
        running[key] += count
    return RunningGangs(minimums, running, on_node)


def _minimum(ref: GangRef, related: Related) -> int:
    pod_group = related.pod_groups.get(ref.key)
    minimum = stated_minimum(ref, related.pod_groups, related.workloads) or 1
    return MOST_PODS if minimum > 1 and pod_group is not None and pod_group.disrupted_together else minimum


def _stays(pod: Pod, leaving: Collection[str]) -> bool:
    return pod.deleted is None and not pod.finished and pod.node not in leaving


class SpareMembers:
    """What each running gang can still lose. Only `take` changes it. A pass makes its own."""

    def __init__(self, gangs: RunningGangs) -> None:
        self._gangs = gangs
        self._taken: Counter[str] = Counter()

    def too_few_without(self, pod: Pod) -> str:
        """Return why the gang of a pod needs those of its pods that are on the pod's node; empty: it does not."""
        ref = pod.cls.gang
        minimum = None if ref is None else self._gangs.minimums.get(ref.key)
        here = 0 if ref is None else self._gangs.on_node.get((ref.key, pod.node or ""), 0)
        if ref is None or minimum is None or here == 0:
            return ""
        running = self._gangs.running[ref.key] - self._taken[ref.key]
        if running - here >= minimum:
            return ""
        if minimum == MOST_PODS:
            return f"gang {ref.key}, whose pods may only be disrupted together"
        return f"gang {ref.key}, of which at least {minimum} pods run together ({running} run, {here} of them here)"

    def take(self, pods: Iterable[Pod]) -> None:
        """Count these pods as lost to their gangs."""
        self._taken.update(pod.cls.gang.key for pod in pods if pod.cls.gang is not None)

    def give_back(self, pods: Iterable[Pod]) -> None:
        """Undo `take`."""
        self._taken.subtract(pod.cls.gang.key for pod in pods if pod.cls.gang is not None)
