"""Simulates replacements: the pods of old nodes move to existing or upcoming nodes.

Which pods may go is judged by the rules of `drain`, which nodes by `eligibility.barred`, where pods fit by the
scheduling filters. Pods stay where the simulation put them and old nodes stay gone, so that pending pods and other
removals rely neither on room that is reserved nor on nodes that leave.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.pod import Pod
from autoscaler.reasons import PauseScope, ReplacementTrigger, UnremovableNode, UnremovableReason
from autoscaler.scaledown.drain import (
    BlockingPod,
    DrainContext,
    DrainJudge,
    NodeDrain,
    departure,
    judge_at_end,
    long_terminating,
    without_budgets,
)
from autoscaler.scaledown.eligibility import gone_blocker, replacement_blocker
from autoscaler.scaledown.pause import kept_by_pause, scope_of
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.plan import Removal, ScaleDownContext
from autoscaler.scaledown.replacement import (
    Purchase,
    Replacement,
    ReplacementForecast,
    place_on,
    place_on_new,
)
from autoscaler.scaledown.replacement_cause import Cause
from autoscaler.scaledown.running_gangs import SpareMembers
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.template import UPCOMING, Template

_CLOCKS_APART_S = 2.0
"""By how much the API server's clock may be behind ours."""


class Relocations:
    """The moves of one pass, each on what those before it left. Changes the placer's trial."""

    def __init__(
        self,
        placer: Placer,
        situation: ScaleDownContext,
        templates: Mapping[str, Template],
        upcoming: Mapping[str, int],
        avoided: Collection[str] = (),
        causes: Iterable[Cause] = (),
    ) -> None:
        """`upcoming` counts the trial's upcoming nodes by group; no pod is put on nodes named in `avoided`."""
        self._causes = {cause.node.name: cause for cause in causes}
        self._deadlines = {name: cause.deadline for name, cause in self._causes.items() if cause.deadline is not None}
        trial = placer.trial
        self._placer = placer
        self._trial = trial
        self._situation = situation
        self._templates = templates
        self._upcoming = upcoming
        self._budgets = RemainingPdbTracker(trial.view.related.budgets.values())
        self._gangs = SpareMembers(situation.gangs)
        self._terms = DrainContext(
            options=situation.drain,
            rules=situation.rules,
            wall=situation.now.wall,
            related=trial.view.related,
            budgets=self._budgets,
            gangs=self._gangs,
        )
        self._judge = DrainJudge(self._terms)
        self._urgent_judge = DrainJudge(msgspec.structs.replace(self._terms, urgent=True))
        self._open = self._destinations(avoided)
        self._claimed: set[str] = set()

    def _destinations(self, avoided: Collection[str]) -> Mask:
        """Return the nodes of the view that pods may be put on: ready, and not about to go."""
        readings, positions = self._situation.readings.items, self._trial.view.positions
        ready = np.fromiter((reading.readiness.ready for reading in readings), dtype=np.bool_, count=self._trial.base)
        leaving = (*self._situation.under_way.nodes, *avoided)
        ready[[positions[name] for name in leaving if name in positions]] = False
        mask: Mask = ready & self._trial.alive[: self._trial.base]
        return mask

    @property
    def destinations(self) -> Mask:
        """The nodes of the view that pods may be put on."""
        return self._open.copy()

    def forecast(self, replacement: Replacement) -> ReplacementForecast:
        """Move the pods of a replacement's nodes, unless something keeps a node; then nothing has changed."""
        standing, leaving = self._standing(replacement)
        new, arrived = self._arrivals(replacement)
        removals: list[Removal] = []
        for name in standing:
            outcome = self.removal(name, scope_of(replacement.trigger))
            if isinstance(outcome, UnremovableNode):
                for removal in removals:
                    self._gangs.give_back(removal.pods)
                return ReplacementForecast(leaving=leaving, kept=outcome, new=new, arrived=arrived)
            self._gangs.take(outcome.pods)
            removals.append(outcome)
        # Those whose pods are hardest to place go first, while there is room to choose from.
        removals.sort(key=lambda removal: -max((_size(pod) for pod in removal.pods), default=0.0))
        self._budgets.take([pod for removal in removals for pod in removal.pods])
        short = self._short(removals)
        beyond = self._trial.count
        for group, count in short.items():
            self._trial.add(self._templates[group], count, UPCOMING, numbered=self._upcoming.get(group, 0))
        pods = [pod for removal in removals for pod in removal.pods]
        pods += [pod for name in leaving for pod in self._left_on(name)]
        places = self._moved(replacement, (*standing, *leaving), pods, new)
        awaited = [
            pod for pod, place in zip(pods, places, strict=True) if place is not None and place >= self._trial.base
        ]
        return ReplacementForecast(
            removals=tuple(removals),
            leaving=leaving,
            short=short,
            unplaced=tuple(pod for pod, place in zip(pods, places, strict=True) if place is None),
            awaited=len(awaited),
            arrived=arrived and beyond == self._trial.count,
            new=new,
        )

    def _standing(self, replacement: Replacement) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return which old nodes are still whole, and which are being removed."""
        under_way = self._situation.under_way.nodes
        there = [name for name in replacement.nodes if name in self._trial.view.positions]
        return tuple(name for name in there if name not in under_way), tuple(n for n in there if n in under_way)

    def removal(self, name: str, scope: PauseScope) -> Removal | UnremovableNode:
        """Return the removal of a node as it would be, or why it may not go; nothing changes.

        `scope` must not be paused.
        """
        position, deadline = self._trial.view.positions[name], self._deadlines.get(name)
        cause = self._causes.get(name)
        urgent = cause is not None and (deadline is not None or cause.trigger is ReplacementTrigger.UNHEALTHY)
        reason = (
            replacement_blocker(self._trial, self._situation, position, urgent=urgent)
            if deadline is None
            else gone_blocker(self._trial, self._situation, position)
        )
        reason = reason or self._paused(position, scope)
        if reason is not None:
            return reason
        judge = self._urgent_judge if urgent else self._judge
        leaving = self._departure(name, judge, overruling=cause is not None and bool(cause.overrules))
        if isinstance(leaving, UnremovableNode):
            return leaving
        reading = self._situation.readings.items[position]
        forced = cause is not None and cause.forced
        stuck = self._stuck(name) if forced else []
        return Removal(
            node=reading.node,
            group=self._situation.groups.of_node[name],
            pods=(*leaving.move, *stuck),
            daemons=leaving.daemons,
            ready=reading.readiness.ready,
            risky=not self._budgets.allow_at_once(leaving.move),
            leave_by=deadline,
            forced=forced,
            overrules="" if cause is None else cause.overrules,
            urgent=urgent,
            replaced=True,
        )

    def _stuck(self, name: str) -> list[Pod]:
        """Return the pods that come again only once the node is gone: a dead kubelet never ends them."""
        pods, wall = self._trial.view.pods_on(name), self._situation.now.wall
        return [
            pod
            for pod in pods
            if long_terminating(pod, wall) and pod.cls.owner is not None and pod.cls.owner.kind == "StatefulSet"
        ]

    def _paused(self, position: int, scope: PauseScope) -> UnremovableNode | None:
        situation, node = self._situation, self._trial.view.nodes[position]
        group = situation.groups.of_node.get(node.name, "")
        return kept_by_pause(situation.pauses, scope, node, group, situation.now.wall)

    def _departure(self, name: str, judge: DrainJudge, *, overruling: bool) -> NodeDrain | UnremovableNode:
        judge_pod = without_budgets(judge.judge) if overruling else judge.judge
        if name in self._deadlines:
            judge_pod = partial(judge_at_end, terms=self._terms)
        drain = departure(self._trial.view.pods_on(name), judge_pod)
        if isinstance(drain, BlockingPod):
            return UnremovableNode(
                name, UnremovableReason.BLOCKED_BY_POD, drain.verdict.detail, drain.pod.key, drain.verdict.reason
            )
        if drain.wait_for:
            return UnremovableNode(
                name, UnremovableReason.ON_COMPLETION, "it has to run to its end first", drain.wait_for[0].key
            )
        return drain

    def _left_on(self, name: str) -> list[Pod]:
        """Return the pods still on a node that is being drained; the others have been recreated, or will be."""
        pods = [pod for pod in self._trial.view.pods_on(name) if pod.deleted is None and not pod.cls.mirror]
        return [pod for pod in pods if not pod.cls.daemonset]

    def _short(self, removals: Sequence[Removal]) -> Mapping[str, int]:
        """Return how many machines each group lacks to stay at its minimum without these nodes."""
        groups, short = self._situation.groups, {}
        for group_id in dict.fromkeys(removal.group for removal in removals):
            group = groups.by_id[group_id]
            size = group.target_size - self._situation.under_way.count_in(group_id)
            lacking = group.min_size - (size - sum(removal.group == group_id for removal in removals))
            if lacking > 0 and group_id in self._templates:
                short[group_id] = lacking
        return short

    def _arrivals(self, replacement: Replacement) -> tuple[tuple[str, ...], bool]:
        """Return the new nodes that came for a replacement, and whether no more are to come.

        Nodes of a group are all alike: the first that joined since the replacement began, and that no other claims.
        """
        new: list[str] = []
        complete = True
        for purchase in replacement.bought:
            names = [name for name in self._fresh(purchase, replacement.began.wall) if name not in self._claimed]
            names = names[: purchase.count]
            self._claimed.update(names)
            new += names
            ready = [name for name in names if self._open[self._trial.view.positions[name]]]
            complete = complete and (len(ready) == purchase.count or not self._upcoming.get(purchase.group, 0))
        return tuple(new), complete

    def _fresh(self, purchase: Purchase, since_wall: float) -> list[str]:
        owners = self._situation.groups.of_node
        nodes = [
            node
            for node in self._trial.view.nodes
            if node.created >= since_wall - _CLOCKS_APART_S and owners.get(node.name) == purchase.group
        ]
        return [node.name for node in sorted(nodes, key=lambda node: (node.created, node.name))]

    def _moved(
        self, replacement: Replacement, old: Sequence[str], pods: Sequence[Pod], new: Sequence[str]
    ) -> list[int | None]:
        """Empty the old nodes and take them away; return where each pod goes."""
        positions = [self._trial.view.positions[name] for name in old]
        self._open[positions] = False
        for position in positions:
            for pod in self._trial.view.pods[position]:
                if pod.deleted is None:
                    self._trial.lift(pod.cls, position)
        targets = self._targets(replacement, new)
        best: list[int | None] = []
        for snug in (False, True):
            with self._trial.fork() as fork:
                best = self._placed(replacement, pods, targets, snug=snug)
                if None not in best or snug:
                    fork.keep()
                    break
        for position in positions:
            self._trial.remove(position)
        return best

    def _targets(self, replacement: Replacement, new: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes that a plan's places name, by place: new ones that have come first, then upcoming ones."""
        view, owners = self._trial.view, self._situation.groups.of_node
        planned = set(replacement.places.values())
        targets = {place_on(name): view.positions[name] for name in view.positions if place_on(name) in planned}
        for purchase in replacement.bought:
            present = [view.positions[name] for name in new if owners.get(name) == purchase.group]
            # Of the nodes on their way, the last ones are the latest bought.
            missing = max(0, purchase.count - len(present))
            coming = list(self._coming(purchase.group))[-missing:] if missing else []
            for number, position in enumerate([*present, *coming]):
                targets[place_on_new(purchase.group, number)] = position
        return targets

    def _coming(self, group: str) -> Iterator[int]:
        template = self._templates.get(group)
        for position in range(self._trial.base, self._trial.count):
            if self._trial.template(position) is template:
                yield position

    def _placed(
        self, replacement: Replacement, pods: Sequence[Pod], targets: Mapping[str, int], *, snug: bool
    ) -> list[int | None]:
        """Place pods, those with a planned place first, then the largest first."""
        places: list[int | None] = [None] * len(pods)
        rest: list[int] = []
        for number, pod in enumerate(pods):
            planned = targets.get(replacement.places.get(pod.uid, ""))
            if planned is not None and self._may_take(planned) and self._placer.fits(pod.cls, planned):
                self._placer.place(pod.cls, planned)
                places[number] = planned
            else:
                rest.append(number)
        for number in sorted(rest, key=lambda number: -_size(pods[number])):
            place = self._place_of(pods[number], snug=snug)
            if place is not None:
                self._placer.place(pods[number].cls, place)
            places[number] = place
        return places

    def _may_take(self, position: int) -> bool:
        return position >= self._trial.base or bool(self._open[position])

    def _place_of(self, pod: Pod, *, snug: bool) -> int | None:
        """Return the first node with room, those that are there before those on their way; `snug`: the fullest."""
        base, count = self._trial.base, self._trial.count
        if not snug:
            position = self._placer.first(pod.cls, slice(0, base), 0, self._open)
            if position is not None or count == base:
                return position
            return self._placer.first(pod.cls, slice(base, count), base)
        everywhere = slice(0, count)
        mask = self._placer.passing(pod.cls, everywhere)
        mask[:base] &= self._open
        fitting = np.flatnonzero(mask)
        if not len(fitting):
            return None
        free = self._trial.free[self._trial.vocabulary.rows[quantity.CPU], fitting]
        return int(fitting[np.lexsort((fitting, free))[0]])


def _size(pod: Pod) -> float:
    """Return how hard a pod is to place: by CPU, with a GiB of memory as good as a quarter of a core."""
    requests = pod.cls.requests
    return requests.get(quantity.CPU, 0) + requests.get(quantity.MEMORY, 0) / (4 * 1024**3) * 1000
