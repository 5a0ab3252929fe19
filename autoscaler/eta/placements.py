"""Finds the planned places of pending pods in the results of a pass, and places the pods that the pass skipped.

The results of a pass contain its simulated cluster, the place of each pod, the nodes to buy and their pods, and why
other pods get no node. This module tries only two kinds of pods on that cluster: pods that the pass held back (too
young, not judged yet), and hypothetical pods.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from autoscaler.eta.capacity import ClusterCapacity
from autoscaler.eta.estimate import PodPlacement, StartEstimate, WaitLevel, unknown
from autoscaler.eta.ratio import CpuTotals, RatioConstants, ratio_start
from autoscaler.eta.samples import WORST, quantile
from autoscaler.objects import quantity
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import PodVerdict, ScaleUpResult, Skip, UnknownStart, Waiting
from autoscaler.registry.state import Registry
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scheduling.placement import Placer, accepts
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.hints import Hints
from autoscaler.snapshot.template import Template

_SKIPPED = {
    Skip.MAX_SIZE: UnknownStart.MAX_SIZE,
    Skip.LIMIT: UnknownStart.RESOURCE_LIMIT,
    Skip.ATOMIC_LIMIT: UnknownStart.RESOURCE_LIMIT,
    Skip.BACKED_OFF: UnknownStart.BACKOFF,
    Skip.NOT_READY: UnknownStart.BACKOFF,
    Skip.PAUSED: UnknownStart.PAUSED,
}
_WORST_FIRST = (UnknownStart.MAX_SIZE, UnknownStart.RESOURCE_LIMIT, UnknownStart.PAUSED, UnknownStart.BACKOFF)
_OF_GANGS = (PodVerdict.GANG_TOO_LARGE, PodVerdict.GANG_INCOMPLETE)
_TRIED = (Waiting.TOO_YOUNG, Waiting.NOT_JUDGED)
"""Pods that the pass leaves alone for now, and that the scheduler places like any other pod."""


class PassOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a pass that estimates depend on."""

    view: ClusterView
    registry: Registry
    placer: Placer | None
    templates: Mapping[str, Template]
    hints: Hints
    waiting: Mapping[str, Waiting]
    plan: ScaleUpPlan | None
    result: ScaleUpResult | None
    grown: frozenset[str] = frozenset()
    """Ids of the groups that the pass resized."""
    ages: Mapping[str, Sequence[float]] = {}
    """Seconds since the upcoming nodes were requested, by group, oldest first."""
    capacity: ClusterCapacity
    next_pass_s: float
    ratio: RatioConstants = RatioConstants()
    runs: Sequence[float] = ()
    """Run times of completed pods, sorted."""


class PlacementFinder:
    """Answers where pods go, as of one pass. Threads must not share it, because it tries pods on the pass's cluster."""

    def __init__(self, outcome: PassOutcome) -> None:
        self._outcome = outcome
        self._upcoming = _upcoming(outcome)
        self._planned = _planned(outcome.plan)
        self._tried: dict[PodClass, PodPlacement] = {}
        self._stuck: dict[PodClass, PodPlacement] = {}

    def of(self, pod: Pod) -> PodPlacement:
        """Return the place of a pending pod of the view."""
        outcome = self._outcome
        waiting = outcome.waiting.get(pod.key)
        if waiting is Waiting.NOMINATED:
            return self._nominated(pod)
        if waiting is Waiting.FITS:
            place = self._on_node(outcome.hints.newer.get(pod.uid or pod.key), pod)
            return place or self.new(pod)
        if waiting is Waiting.TAKES_HEADROOM:
            return PodPlacement(level=WaitLevel.PREEMPTION)
        if waiting is not None:
            return (
                self.new(pod)
                if waiting in _TRIED
                else PodPlacement(level=WaitLevel.UNKNOWN, reason=UnknownStart.NOT_CONSIDERED)
            )
        groups = self._planned.get(pod.key)
        if groups is not None:
            grown = next((group for group in groups if group in outcome.grown), None)
            if grown is None:
                return self._queued(pod.cls, UnknownStart.BACKOFF)
            return PodPlacement(level=WaitLevel.PLANNED, group=grown)
        if outcome.plan is None and outcome.result is ScaleUpResult.IN_COOLDOWN:
            return self.new(pod)
        if outcome.plan is not None and outcome.plan.held.get(pod.key) in _OF_GANGS:
            return PodPlacement(level=WaitLevel.UNKNOWN, reason=UnknownStart.GANG)
        return self._without_help(pod.cls)

    def new(self, pod: Pod, checkpoint: Callable[[], None] = lambda: None) -> PodPlacement:
        """Return the place of a pod that the pass does not know.

        `checkpoint` is called between steps of work, and may raise to end it.
        """
        known = self._tried.get(pod.cls)
        if known is None:
            known = self._tried[pod.cls] = self._try(pod, checkpoint)
        return known

    def _try(self, pod: Pod, checkpoint: Callable[[], None]) -> PodPlacement:
        outcome, placer, cls = self._outcome, self._outcome.placer, pod.cls
        if placer is None:
            return PodPlacement(level=WaitLevel.UNKNOWN, reason=UnknownStart.NOT_CONSIDERED)
        position = placer.first(cls, slice(0, placer.trial.count), 0)
        if position is not None:
            return self._on_node(placer.trial.name(position), pod) or PodPlacement(
                level=WaitLevel.PLANNED, wait_s=outcome.next_pass_s
            )
        capped = outcome.result is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
        for group_id, template in {} if capped else outcome.templates.items():
            group, state = outcome.view.groups.get(group_id), outcome.registry.groups.get(group_id)
            if group is None or state is None or not state.may_scale_up or group.max_size <= state.acceptable.target:
                continue
            checkpoint()
            with placer.trial.fork():
                fresh = placer.trial.add(template, 1)
                if placer.fits(cls, fresh.start):
                    return PodPlacement(level=WaitLevel.PLANNED, group=group_id, wait_s=outcome.next_pass_s)
        checkpoint()
        return self._without_help(cls)

    def _on_node(self, name: str | None, pod: Pod) -> PodPlacement | None:
        if name is None:
            return None
        if name in self._upcoming:
            group, age_s = self._upcoming[name]
            return PodPlacement(level=WaitLevel.UPCOMING, node=name, group=group, age_s=age_s)
        view = self._outcome.view
        if name not in view.positions:
            return None
        return PodPlacement(
            level=WaitLevel.ROOM, node=name, group=view.groups.of_node.get(name), cold=not has_image(view, name, pod)
        )

    def _nominated(self, pod: Pod) -> PodPlacement:
        """Return the node on which the scheduler makes room: its victims have been evicted."""
        view, name = self._outcome.view, pod.nominated_node or ""
        leaving = [pod.cls.grace_s for pod in view.pods_on(name) if pod.deleted is not None]
        return PodPlacement(
            level=WaitLevel.PREEMPTION,
            node=name,
            group=view.groups.of_node.get(name),
            cold=not has_image(view, name, pod),
            grace_s=float(max(leaving, default=0)),
        )

    def _without_help(self, cls: PodClass) -> PodPlacement:
        known = self._stuck.get(cls)
        if known is None:
            known = self._stuck[cls] = self._queued(cls, self._why(cls))
        return known

    def _why(self, cls: PodClass) -> UnknownStart:
        """Return why no node can be added for a class, by the groups whose nodes would suit it."""
        outcome, plan = self._outcome, self._outcome.plan
        limited = outcome.result is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
        if limited or (plan is not None and plan.capped_by_nodes_total):
            return UnknownStart.MAX_NODES_TOTAL
        reasons = set()
        skipped = {skip.group: _SKIPPED.get(skip.reason) for skip in plan.skipped} if plan is not None else {}
        for group_id, template in outcome.templates.items():
            if not suits(cls, template):
                continue
            group, state = outcome.view.groups.get(group_id), outcome.registry.groups.get(group_id)
            if group_id in skipped:
                reasons.add(skipped[group_id])
            elif group is not None and state is not None and group.max_size <= state.acceptable.target:
                reasons.add(UnknownStart.MAX_SIZE)
            elif state is not None and not state.may_scale_up:
                reasons.add(UnknownStart.BACKOFF)
        return next((reason for reason in _WORST_FIRST if reason in reasons), UnknownStart.NO_GROUP_FITS)

    def _queued(self, cls: PodClass, reason: UnknownStart) -> PodPlacement:
        """Return the wait for pods that will complete and free enough room for the class, if there are any."""
        outcome = self._outcome
        if reason is not UnknownStart.NO_GROUP_FITS and self._may_inherit(cls):
            ratio = outcome.ratio
            if outcome.runs:
                ratio = msgspec.structs.replace(ratio, run_s=quantile(outcome.runs, WORST))
            seconds = ratio_start(cpu_totals(outcome.capacity), cls.requests.get(quantity.CPU, 0), ratio)
            if seconds is not None:
                return PodPlacement(level=WaitLevel.QUEUE, queue=seconds)
        return PodPlacement(level=WaitLevel.UNKNOWN, reason=reason)

    def _may_inherit(self, cls: PodClass) -> bool:
        view, placer = self._outcome.view, self._outcome.placer
        codes = [code for code, pod_class in enumerate(view.classes) if finite(pod_class)]
        if placer is None or not codes or not view.nodes:
            return False
        vocabulary, wanted = placer.trial.vocabulary, placer.need(cls)
        of_finite = np.isin(view.pod_classes, codes)
        room = placer.trial.free[:, : placer.trial.base].copy()
        vectors = np.zeros((len(room), len(view.classes)), dtype=np.int64)
        for code in codes:
            vector = vocabulary.vector(view.classes[code])
            vectors[: len(vector), code] = vector
        nodes, classes = view.pod_nodes[of_finite], view.pod_classes[of_finite]
        for row in range(len(room)):
            np.add.at(room[row], nodes, vectors[row, classes])
        holding = np.zeros(placer.trial.base, dtype=np.bool_)
        holding[nodes] = True
        window = slice(0, placer.trial.base)
        able = holding & placer.trial.open(window) & placer.accepted(cls, window)
        rows = len(wanted)
        return bool((able & (room[:rows] >= wanted[:, None]).all(axis=0)).any())


def finite(cls: PodClass) -> bool:
    """Whether pods of a class complete by themselves: they belong to a Job, or their restart policy is not Always."""
    return (cls.owner is not None and cls.owner.kind == "Job") or cls.restart_policy != "Always"


def suits(cls: PodClass, template: Template) -> bool:
    """Whether an empty node of a template would take a pod of the class, without regard to other pods."""
    offered = template.node.allocatable
    roomy = all(offered.get(resource, 0) >= amount for resource, amount in cls.requests.items() if amount)
    return roomy and accepts(cls, template.node)


def has_image(view: ClusterView, node: str, pod: Pod) -> bool:
    """Whether the image is on the node: another pod with it was ready there before this one came, or is ready now.

    Pods that come to a new node together all wait for the image.
    """
    came = pod.scheduled
    return any(
        other.image == pod.image
        and other.uid != pod.uid
        and other.ready is not None
        and (came is None or other.ready <= came)
        for other in view.pods_on(node)
    )


def cpu_totals(capacity: ClusterCapacity) -> CpuTotals:
    """Return the input of the ratio formula; pods that have a node count as running."""
    cluster, cpu = capacity.cluster, quantity.CPU
    running = cluster.running.get(cpu, 0) + cluster.starting.get(cpu, 0)
    return CpuTotals(cluster.nodes, cluster.capacity.get(cpu, 0), cluster.pending.get(cpu, 0), running)


def by_ratio(pod: Pod, totals: ClusterCapacity, ratio: RatioConstants, *, pending: bool) -> StartEstimate:
    """Return the estimate of the ratio formula; the request of a `pending` pod itself is subtracted from the demand."""
    cpu, own = cpu_totals(totals), pod.cls.requests.get(quantity.CPU, 0)
    if pending:
        cpu = msgspec.structs.replace(cpu, pending_milli=max(0, cpu.pending_milli - own))
    seconds = ratio_start(cpu, own, ratio)
    if seconds is None:
        return unknown(UnknownStart.NO_USABLE_CAPACITY)
    return StartEstimate(
        level=WaitLevel.QUEUE, expected_s=seconds.expected, worst_s=seconds.worst, terms={"ratio": seconds}
    )


def workload(pod: Pod) -> str:
    """Return the key of the pod's samples: its pool, its controller, or else its image."""
    owner, pool = pod.cls.owner, pod.cls.headroom
    if pool is not None:
        return pause_workload(pod.namespace, pool)
    return f"image:{pod.image}" if owner is None else f"{pod.namespace}/{owner.kind}/{owner.name}"


def pause_workload(namespace: str, pool: str) -> str:
    """Return the key of the samples of a pool's pause pods. Their controller changes with each template."""
    return f"{namespace}/headroom/{pool}"


def _upcoming(outcome: PassOutcome) -> Mapping[str, tuple[str, float]]:
    """Return group and age of each upcoming node by its name in the simulation; low numbers come first."""
    upcoming: dict[str, tuple[str, float]] = {}
    if outcome.placer is None:
        return upcoming
    trial = outcome.placer.trial
    position = trial.base
    for group, count in outcome.registry.upcoming.items():
        if group not in outcome.templates:
            continue
        ages = outcome.ages.get(group, ())
        for number in range(count):
            if position >= trial.count:
                return upcoming
            upcoming[trial.name(position)] = group, ages[number] if number < len(ages) else 0.0
            position += 1
    return upcoming


def _planned(plan: ScaleUpPlan | None) -> Mapping[str, tuple[str, ...]]:
    """Return the groups that grow for each pod, the chosen one first, by pod key."""
    groups: dict[str, tuple[str, ...]] = {}
    for plan_round in () if plan is None else plan.rounds:
        if plan_round.increases:
            chosen = () if plan_round.chosen is None else (plan_round.chosen.group.id,)
            names = tuple(dict.fromkeys((*chosen, *(increase.group for increase in plan_round.increases))))
            groups.update(dict.fromkeys((pod.key for pod in plan_round.helped), names))
    return groups


def pods_to_estimate(pending: Sequence[Pod], most: int) -> tuple[Pod, ...]:
    """Return the pods to estimate, by priority, then age, then name; the others report `not_computed`."""
    return tuple(sorted((pod for pod in pending if pod.cls.headroom is None), key=_urgency)[:most])


def _urgency(pod: Pod) -> tuple[int, float, str]:
    return -(pod.cls.priority or 0), pod.created, pod.key
