"""One scheduling round on an immutable view: where each pod in turn would go."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.sandbox.actors import preemption
from autoscaler.sandbox.actors.gangs import GangToPlace
from autoscaler.sandbox.actors.preemption import Preemption
from autoscaler.sandbox.actors.scheduling_queue import priority_of
from autoscaler.scheduling.device_allocation import Chosen
from autoscaler.scheduling.fit_error import unschedulable
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.preferences import MOST_POINTS, weighted
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import Amounts, Mask
from autoscaler.snapshot.overlay import Positions, Trial


class SchedulingCycle:
    """Places pods one after the other on a trial. It keeps the room that preempting pods were promised."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.placer = Placer(Trial(view))
        self._all = slice(0, len(view.nodes))
        self._fit_errors: dict[PodClass, str] = {}
        nominated = (pod for pod in view.pending if pod.nominated_node in view.positions)
        self._nominated = sorted(nominated, key=priority_of)
        self._reserved: dict[str, tuple[PodClass, int]] = {}
        self._lowest = min((cls.priority or 0 for cls in view.classes), default=0)
        self._no_victims: set[PodClass] = set()
        self._bare: dict[PodClass, PodClass] = {}
        """Classes that claim devices, as they reserve room."""
        self.granted: Sequence[tuple[str, Chosen]] = ()
        """The devices that claims of the pod that was placed last get, as `Placer.granted` has them."""
        self._among: Mask | None = None

    def find(self, pod: Pod) -> str | None:
        """Return the node on which it placed a pod; None if there is none. Call it in order of descending priority."""
        self._reserve_nominated(priority_of(pod))
        reserved = self._reserved.pop(pod.key, None)
        if reserved is None:
            return None if pod.cls in self._fit_errors else self._search(pod.cls)
        cls, position = reserved
        self.placer.trial.lift(cls, position)
        if self.placer.fits(pod.cls, position):
            return self._place(pod.cls, position)
        node = self._search(pod.cls)
        if node is None:
            self.reserve(pod, self._view.nodes[position].name)
        return node

    def find_together(self, gang: GangToPlace) -> dict[str, tuple[str, Sequence[tuple[str, Chosen]]]]:
        """Return the nodes on which it placed pods of a gang, and the devices that each gets, by key of the pod: enough
        for the gang to start, or none.

        Of several domains of its topology, the first with room is taken, by name.
        """
        for among in self._domains(gang):
            with self.placer.trial.fork() as fork:
                self._among = among
                found = ((pod, self.find(pod)) for pod in gang.pods)
                places = {pod.key: (node, self.granted) for pod, node in found if node is not None}
                self._among = None
                if len(places) >= max(1, gang.lacking):
                    fork.keep()
                    return places
        return {}

    def _domains(self, gang: GangToPlace) -> Iterator[Mask | None]:
        if not gang.topology_key:
            yield None
            return
        labels = [node.labels.get(gang.topology_key) for node in self._view.nodes]
        values = {value for value in labels if value is not None} if gang.home is None else {gang.home}
        for value in sorted(values):
            yield np.array([label == value for label in labels], dtype=np.bool_)

    def preempt(self, pod: Pod) -> Preemption | None:
        """Return what must go so that the pod fits somewhere; the room is then kept for it."""
        if priority_of(pod) <= self._lowest or pod.cls in self._no_victims or self._waits_for_victims(pod):
            return None
        chosen = preemption.find(self.placer, pod)
        if chosen is None:
            self._no_victims.add(pod.cls)
        else:
            self.reserve(pod, chosen.node)
        return chosen

    def fit_error(self, pod: Pod) -> str:
        """Return why the pod found no node, in the scheduler's words."""
        if self._waits_for_victims(pod):
            return unschedulable(self.placer, pod.cls, awaits_victims=True)
        message = self._fit_errors.get(pod.cls)
        if message is None:
            message = self._fit_errors[pod.cls] = unschedulable(self.placer, pod.cls)
        return message

    def reserve(self, pod: Pod, node: str) -> None:
        """Keep room on the node for a pod that preempts, or preempted, others there; like the scheduler no devices."""
        position = self._view.positions[node]
        cls = self._without_devices(pod.cls)
        self._reserved[pod.key] = cls, position
        self.placer.place(cls, position)

    def _without_devices(self, cls: PodClass) -> PodClass:
        if not self.placer.claims_devices(cls):
            return cls
        if cls not in self._bare:
            requests = {name: amount for name, amount in cls.requests.items() if "/" not in name}
            self._bare[cls] = msgspec.structs.replace(cls, resource_claims=(), requests=requests)
        return self._bare[cls]

    def _waits_for_victims(self, pod: Pod) -> bool:
        """Whether pods that it preempted are still on their way out."""
        there = self._view.pods_on(pod.nominated_node or "")
        return any(other.deleted is not None and priority_of(other) < priority_of(pod) for other in there)

    def _reserve_nominated(self, priority: int) -> None:
        """Set room aside for nominated pods that are at least this important."""
        while self._nominated and priority_of(self._nominated[-1]) >= priority:
            pod = self._nominated.pop()
            if pod.key not in self._reserved and pod.nominated_node is not None:
                self.reserve(pod, pod.nominated_node)

    def _search(self, cls: PodClass) -> str | None:
        mask = self.placer.passing(cls, self._all)
        mask = mask if self._among is None else mask & self._among
        return self._place(cls, self._best_node(cls, np.flatnonzero(mask))) if mask.any() else None

    def _place(self, cls: PodClass, position: int) -> str:
        self.granted = self.placer.granted(cls, position)
        self.placer.place(cls, position)
        return self._view.nodes[position].name

    def _best_node(self, cls: PodClass, positions: Positions) -> int:
        """The node that most suits what pods and nodes prefer and that is the least allocated, then by name."""
        scores = self._least_allocated(cls)[positions] + weighted(self.placer.preferences.points(cls, positions))
        best: list[int] = positions[scores == scores.max()].tolist()
        return min(best, key=lambda position: self._view.nodes[position].name)

    def _least_allocated(self, cls: PodClass) -> Amounts:
        trial = self.placer.trial
        vector = trial.vocabulary.vector(cls)
        total: Amounts = np.zeros(len(self._view.nodes), dtype=np.int64)
        for resource in (quantity.CPU, quantity.MEMORY):
            row = trial.vocabulary.rows[resource]
            capacity = self._view.columns.allocatable[row]
            left = np.maximum(trial.free[row, self._all] - vector[row], 0)
            total += left * MOST_POINTS // np.maximum(capacity, 1)
        total //= 2
        return total
