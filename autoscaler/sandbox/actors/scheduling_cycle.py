"""One scheduling round on an immutable view: where each pod in turn would go."""

from collections.abc import Iterator

import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.node import Node, Taint, TaintEffect
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.sandbox.actors import preemption
from autoscaler.sandbox.actors.preemption import Preemption
from autoscaler.sandbox.actors.scheduling_queue import priority_of
from autoscaler.scheduling.fit_error import unschedulable
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import Amounts
from autoscaler.snapshot.overlay import Positions, Trial

_MOST = 100
"""Best score of a resource, as in the scheduler's plug-ins: scores are whole numbers."""


class SchedulingCycle:
    """Places pods one after the other on a trial. Room that is promised to pods that preempted is kept for them."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.placer = Placer(Trial(view))
        self._all = slice(0, len(view.nodes))
        self._no_room: dict[PodClass, str] = {}
        nominated = (pod for pod in view.pending if pod.nominated_node in view.positions)
        self._promises = sorted(nominated, key=priority_of)
        self._kept: dict[str, tuple[PodClass, int]] = {}
        self._lowest = min((cls.priority or 0 for cls in view.classes), default=0)
        self._no_victims: set[PodClass] = set()
        asking = ((position, tuple(_asking(node))) for position, node in enumerate(view.nodes))
        self._asking = [(position, taints) for position, taints in asking if taints]
        self._disliked: dict[PodClass, Amounts] = {}

    def find(self, pod: Pod) -> str | None:
        """Return the node for a pod, which is then on it; None: there is none. Ask in descending priority."""
        self._keep_promises(priority_of(pod))
        kept = self._kept.pop(pod.key, None)
        if kept is None:
            return None if pod.cls in self._no_room else self._search(pod.cls)
        cls, position = kept
        self.placer.trial.lift(cls, position)
        if self.placer.fits(pod.cls, position):
            return self._put(pod.cls, position)
        found = self._search(pod.cls)
        if found is None:
            self.promise(pod, self._view.nodes[position].name)
        return found

    def preempt(self, pod: Pod) -> Preemption | None:
        """Return what must go so that the pod fits somewhere; the room is then kept for it."""
        if priority_of(pod) <= self._lowest or pod.cls in self._no_victims or self._awaits_victims(pod):
            return None
        found = preemption.find(self.placer, pod)
        if found is None:
            self._no_victims.add(pod.cls)
        else:
            self.promise(pod, found.node)
        return found

    def why_not(self, pod: Pod) -> str:
        """Return why the pod found no node, in the scheduler's words."""
        if self._awaits_victims(pod):
            return unschedulable(self.placer, pod.cls, awaits_victims=True)
        message = self._no_room.get(pod.cls)
        if message is None:
            message = self._no_room[pod.cls] = unschedulable(self.placer, pod.cls)
        return message

    def promise(self, pod: Pod, node: str) -> None:
        """Keep room on the node for a pod that preempts, or preempted, others there."""
        position = self._view.positions[node]
        self._kept[pod.key] = pod.cls, position
        self.placer.place(pod.cls, position)

    def _awaits_victims(self, pod: Pod) -> bool:
        """Whether pods that it preempted are still on their way out."""
        there = self._view.pods_on(pod.nominated_node or "")
        return any(other.deleted is not None and priority_of(other) < priority_of(pod) for other in there)

    def _keep_promises(self, priority: int) -> None:
        """Set room aside for nominated pods that are at least this important."""
        while self._promises and priority_of(self._promises[-1]) >= priority:
            pod = self._promises.pop()
            if pod.key not in self._kept and pod.nominated_node is not None:
                self.promise(pod, pod.nominated_node)

    def _search(self, cls: PodClass) -> str | None:
        mask = self.placer.passing(cls, self._all)
        return self._put(cls, self._best(cls, np.flatnonzero(mask))) if mask.any() else None

    def _put(self, cls: PodClass, position: int) -> str:
        self.placer.place(cls, position)
        return self._view.nodes[position].name

    def _best(self, cls: PodClass, positions: Positions) -> int:
        """The node with the fewest taints that ask pods to stay away, then the least allocated, then by name."""
        scores = (self._least_allocated(cls) - self._dislike(cls))[positions]
        best: list[int] = positions[scores == scores.max()].tolist()
        return min(best, key=lambda position: self._view.nodes[position].name)

    def _dislike(self, cls: PodClass) -> Amounts:
        """A malus for each such taint that outweighs every other score."""
        known = self._disliked.get(cls)
        if known is None:
            known = self._disliked[cls] = np.zeros(len(self._view.nodes), dtype=np.int64)
            for position, taints in self._asking:
                minded = sum(not any(toleration.tolerates(taint) for toleration in cls.tolerations) for taint in taints)
                known[position] = 2 * _MOST * minded
        return known

    def _least_allocated(self, cls: PodClass) -> Amounts:
        trial = self.placer.trial
        vector = trial.vocabulary.vector(cls)
        total: Amounts = np.zeros(len(self._view.nodes), dtype=np.int64)
        for resource in (quantity.CPU, quantity.MEMORY):
            row = trial.vocabulary.rows[resource]
            capacity = self._view.columns.allocatable[row]
            left = np.maximum(trial.free[row, self._all] - vector[row], 0)
            total += left * _MOST // np.maximum(capacity, 1)
        total //= 2
        return total


def _asking(node: Node) -> Iterator[Taint]:
    """Taints that do not forbid."""
    return (taint for taint in node.taints if taint.effect == TaintEffect.PREFER_NO_SCHEDULE)
