"""Simulates the removal of single nodes in sequence, each after the previous ones.

A removal works when no pod keeps the node and every pod that must move finds room on another node. Pods stay where the
simulation put them, so a node removed later moves them again. Source: Cluster Autoscaler's `simulator/cluster.go`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import UnremovableNode, UnremovableReason
from autoscaler.scaledown.arrivals import Arrivals
from autoscaler.scaledown.drain import BlockingPod, DrainContext, DrainJudge, NodeDrain, departure
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.plan import ScaleDownContext
from autoscaler.scaledown.room import Room
from autoscaler.scaledown.running_gangs import SpareMembers
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.hints import Hints, identity


class Removals:
    """The removals of one pass, and the cluster that they leave."""

    def __init__(
        self, placer: Placer, situation: ScaleDownContext, arrivals: Arrivals, leaving: Mask, hints: Hints
    ) -> None:
        """`arrivals` is what the trial has placed so far; nodes that are `leaving` are no destinations."""
        trial = placer.trial
        related = trial.view.related
        self._view = trial.view
        self._rules = situation.rules
        self._budgets = RemainingPdbTracker(related.budgets.values())
        self._terms = DrainContext(
            options=situation.drain,
            rules=situation.rules,
            wall=situation.now.wall,
            related=related,
            budgets=self._budgets,
            gangs=SpareMembers(situation.gangs),
        )
        self._judge = DrainJudge(self._terms)
        self._placer = placer
        self._room = Room(placer, trial.alive[: trial.base] & ~leaving)
        self._arrived: defaultdict[int, list[Pod]] = defaultdict(list)
        for position, pods in arrivals.pods.items():
            self._arrived[position] += pods
        self._hints = hints
        self._leaving: dict[PodClass, PodClass] = {}
        self._places: dict[str, str] = {}

    @property
    def hints(self) -> Hints:
        """What to try first in the next pass."""
        return self._hints.updated(self._places)

    def simulate(self, position: int) -> NodeDrain | UnremovableNode:
        """Remove a node, or say why that is impossible; then nothing has changed."""
        pods = self._pods_on(position)
        leaving = departure(pods, self._judge.judge)
        name = self._view.nodes[position].name
        if isinstance(leaving, BlockingPod):
            pod, verdict = leaving.pod, leaving.verdict
            return UnremovableNode(name, UnremovableReason.BLOCKED_BY_POD, verdict.detail, pod.key, verdict.reason)
        unplaced = self._move(position, pods, leaving.move)
        if unplaced is not None:
            aside = self._placer.has_too_many_constraints(unplaced.cls)
            detail = (
                "it has too many constraints to be tried elsewhere" if aside else "no other node has a place for it"
            )
            return UnremovableNode(name, UnremovableReason.NO_PLACE, detail, unplaced.key)
        return leaving

    def all_at_once(self, leaving: NodeDrain) -> bool:
        """Whether budgets, as they are before `take`, allow to evict the pods of a node together."""
        return self._budgets.allow_at_once(leaving.move)

    def take(self, leaving: NodeDrain) -> None:
        """Charge the pods of a removed node to their budgets and gangs."""
        self._terms.take(leaving.move)

    def _pods_on(self, position: int) -> Sequence[Pod]:
        own, more = self._view.pods[position], self._arrived.get(position)
        return (*own, *more) if more else own

    def _move(self, position: int, pods: Sequence[Pod], moving: Sequence[Pod]) -> Pod | None:
        """Find a place for all pods; return the first that has none, with nothing changed."""
        ghost = self._rules.ghost_node_in_removal
        self._room.leave(position, [self._class_of(pod) for pod in (pods if ghost else moving)])
        places: list[int] = []
        ordered = self._in_order(moving)
        for pod, hint in ordered:
            place = self._room.place(self._class_of(pod), hint)
            if place is None:
                self._room.undo()
                return pod
            places.append(place)
            self._places[identity(pod)] = self._view.nodes[place].name
        self._room.commit(gone=ghost)
        self._arrived.pop(position, None)
        for (pod, _), place in zip(ordered, places, strict=True):
            self._arrived[place].append(pod)
        return None

    def _class_of(self, pod: Pod) -> PodClass:
        """Return the class that a pod is simulated as: one of its own where it is on its way out already."""
        if pod.deleted is None:
            return pod.cls
        known = self._leaving.get(pod.cls)
        if known is None:
            known = self._leaving[pod.cls] = msgspec.structs.replace(pod.cls, leaving=pod.cls)
        return known

    def _in_order(self, moving: Iterable[Pod]) -> list[tuple[Pod, int | None]]:
        pairs = [(pod, self._hint(pod)) for pod in moving]
        if self._rules.hints_by_priority:
            pairs.sort(key=lambda pair: (-(pair[0].cls.priority or 0), pair[1] is None))
        return pairs

    def _hint(self, pod: Pod) -> int | None:
        name = self._places.get(identity(pod)) or self._hints.get(pod)
        return None if name is None else self._view.positions.get(name)
