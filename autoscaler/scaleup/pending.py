"""Finds the pending pods that need new nodes.

Once per pass the pods without a node are sorted: those the scheduler has not judged, those that may be ignored, those
that fit on nodes that exist or are on their way, those that are too young. What is left is what the planner helps.
Every pod that drops out has a reason.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Pods
from autoscaler.current_step import in_hand
from autoscaler.objects.node import TO_BE_DELETED
from autoscaler.objects.pod import SCALE_UP_DELAY, Pod, PodClass
from autoscaler.reasons import Waiting
from autoscaler.scaleup.affinity_followers import place_followers
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.hints import Hints, identity
from cloudprovider.duration import parse_duration_s

NVIDIA_GPU = "nvidia.com/gpu"
_YOUNG_S = 2.0
_YOUNG_GPU_S = 30.0


class ClassifiedPods(msgspec.Struct, frozen=True):
    """Pods without a node, sorted by what the scheduler said of them."""

    unschedulable: tuple[Pod, ...] = ()
    """Judged: no node fits."""
    unprocessed: tuple[Pod, ...] = ()
    """Of bypassed schedulers, not judged yet."""
    nominated: tuple[Pod, ...] = ()
    """Expected on a node that exists: victims of preemption are leaving, or the scheduler is about to bind the pod."""
    waiting: Mapping[str, Waiting] = {}
    """Why each other pod is left alone, by key."""


def sort_pending(view: ClusterView, options: Pods, rules: Rules) -> ClassifiedPods:
    """Sort the pods without a node into classes; the first matching rule wins.

    Source: Cluster Autoscaler's pod lister (`utils/kubernetes/listers.go`).
    """
    unschedulable: list[Pod] = []
    unprocessed: list[Pod] = []
    nominated: list[Pod] = []
    waiting: dict[str, Waiting] = {}
    for pod in view.pending:
        scheduler = pod.cls.scheduler_name
        if options.allowed_scheduler_names and scheduler not in options.allowed_scheduler_names:
            waiting[pod.key] = Waiting.FOREIGN_SCHEDULER
        elif pod.deleted is not None:
            waiting[pod.key] = Waiting.TERMINATING
        elif rules.nominated_pods_are_placed and _is_expected(pod, view, rules):
            nominated.append(pod)
        elif pod.unscheduled is not None and pod.unscheduled.reason == "Unschedulable":
            unschedulable.append(pod)
        elif scheduler in options.bypassed_scheduler_names and (pod.unscheduled is None or not pod.unscheduled.reason):
            unprocessed.append(pod)
        elif pod.unscheduled is not None and pod.unscheduled.reason == "SchedulingGated":
            waiting[pod.key] = Waiting.GATED
        else:
            waiting[pod.key] = Waiting.NOT_JUDGED
    return ClassifiedPods(tuple(unschedulable), tuple(unprocessed), tuple(nominated), waiting)


def _is_expected(pod: Pod, view: ClusterView, rules: Rules) -> bool:
    """Whether the pod is nominated to a node that can still take it."""
    if pod.nominated_node is None or not rules.stale_nominations_end:
        return pod.nominated_node is not None
    node = view.node(pod.nominated_node)
    return node is not None and node.taint(TO_BE_DELETED) is None


class UnschedulablePods(msgspec.Struct, frozen=True):
    """Pods that need a scale-up, and why the others do not."""

    pods: tuple[Pod, ...]
    waiting: Mapping[str, Waiting]
    hints: Hints


def filter_schedulable(
    placer: Placer, pods: Sequence[Pod], options: Pods, hints: Hints, rules: Rules
) -> UnschedulablePods:
    """Drop expendable pods, those that fit on the trial's nodes, and DaemonSet pods.

    Pods that fit are placed and stay: their room is taken for the rest of the pass. Highest priority first; equal
    ones as given. Source: Cluster Autoscaler's `core/podlistprocessor`.
    """
    waiting: dict[str, Waiting] = {}
    important: list[Pod] = []
    for pod in pods:
        if expendable(pod, options.expendable_pods_priority_cutoff):
            waiting[pod.key] = Waiting.EXPENDABLE
        elif not rules.nominated_pods_are_placed and pod.nominated_node in placer.trial.view.positions:
            placer.place(pod.cls, placer.trial.view.positions[pod.nominated_node or ""])
            waiting[pod.key] = Waiting.NOMINATED
        else:
            important.append(pod)
    placed = _place_by_priority(placer, important, hints, hints_first=rules.hints_by_priority)
    if rules.pods_wait_for_affinity:
        placed_before = [pod.cls for pod in important if pod.key in placed]
        left = [pod for pod in important if pod.key not in placed]
        placed |= {
            pod.key: placer.trial.name(position) for pod, position in place_followers(placer, left, placed_before)
        }
    unschedulable: list[Pod] = []
    for pod in important:
        if pod.key in placed:
            waiting[pod.key] = Waiting.FITS
        elif pod.cls.daemonset:
            waiting[pod.key] = Waiting.DAEMONSET
        else:
            unschedulable.append(pod)
    places = {identity(pod): placed[pod.key] for pod in important if pod.key in placed}
    return UnschedulablePods(tuple(unschedulable), waiting, hints.updated(places))


def planned(hints: Hints, plan: ScaleUpPlan) -> Hints:
    """Add the upcoming nodes for which a plan means its pods, so that the next pass finds them room there again."""
    places = {
        identity(pod): name
        for plan_round in plan.rounds
        for pod, name in zip(plan_round.helped, plan_round.places, strict=False)
    }
    return msgspec.structs.replace(hints, newer={**hints.newer, **places})


def expendable(pod: Pod, cutoff: int) -> bool:
    """Whether a pod may go without: its priority is set, and below the cut-off."""
    return pod.cls.priority is not None and pod.cls.priority < cutoff


def _place_by_priority(placer: Placer, pods: Sequence[Pod], hints: Hints, *, hints_first: bool) -> dict[str, str]:
    """Place what fits; return node names by pod key.

    A controller's pod that fitted nowhere speaks for its equals. So does any pod without guards: room only shrinks.
    """
    trial = placer.trial
    everywhere = slice(0, trial.count)
    upcoming = {trial.name(position): position for position in range(trial.base, trial.count)}
    placed: dict[str, str] = {}
    hopeless: set[PodClass] = set()
    start = 0
    for pod, hint in _attempts(pods, hints, hints_first=hints_first):
        cls = pod.cls
        if pod.key in placed:
            continue
        in_hand("pod", pod.key)
        if hint is not None:
            position = trial.view.positions.get(hint, upcoming.get(hint))
            if position is None or not placer.fits(cls, position):
                continue
        elif cls in hopeless:
            continue
        elif (position := placer.first(cls, everywhere, start)) is not None:
            start = (position + 1) % trial.count
        else:
            if (cls.owner is not None and not cls.daemonset) or not placer.guards(cls):
                hopeless.add(cls)
            continue
        placer.place(cls, position)
        placed[pod.key] = trial.name(position)
    return placed


def _attempts(pods: Sequence[Pod], hints: Hints, *, hints_first: bool) -> Iterator[tuple[Pod, str | None]]:
    """Yield what to try in turn: a pod on the node of its hint, or (None) on any node.

    `hints_first`: of equal priority, all hints are tried before any search.
    """
    ordered = sorted(pods, key=_urgency)
    for _, equals in groupby(ordered, key=_urgency) if hints_first else ((0, [pod]) for pod in ordered):
        members = list(equals)
        yield from ((pod, hint) for pod in members if (hint := hints.get(pod)) is not None)
        yield from ((pod, None) for pod in members)


def _urgency(pod: Pod) -> int:
    return -(pod.cls.priority or 0)


def too_young(pod: Pod, options: Pods, now: Instant) -> bool:
    """Whether a pod has to wait for its scale-up delay."""
    return now.wall - pod.created <= scale_up_delay_s(pod.cls, options)


def scale_up_delay_s(cls: PodClass, options: Pods) -> float:
    """Return how old a pod of a class must be to cause a scale-up: the longer of the flag and its annotation.

    An annotation that is shorter than the flag, or no duration, is ignored.
    """
    delay = options.new_pod_scale_up_delay_s
    own = cls.annotations.get(SCALE_UP_DELAY)
    if own is not None:
        with contextlib.suppress(ValueError):
            delay = max(delay, parse_duration_s(own))
    return delay


def too_new_until(new: Sequence[Pod], young: Iterable[Pod], options: Pods, now: Instant) -> float | None:
    """Return the wall second at which the first of these pods may cause a scale-up; None if there are no pods.

    `new`: pods that are all new; `young`: those that have to wait for their scale-up delay.
    """
    ends = [now.wall + new_for_s(new, now)] if new else []
    ends += [max(pod.created + scale_up_delay_s(pod.cls, options), now.wall + new_for_s([pod], now)) for pod in young]
    return min(ends, default=None)


def all_new(pods: Sequence[Pod], now: Instant) -> bool:
    """Whether every pod appeared so recently that more of the same burst are likely: under 2 s, with GPUs 30 s."""
    return new_for_s(pods, now) > 0


def new_for_s(pods: Sequence[Pod], now: Instant) -> float:
    """Return for how long the pods will still be so new; 0: they are not."""
    ends = [min(pod.created for pod in pods) + _YOUNG_S] if pods else []
    wanting_gpu = [pod.created for pod in pods if pod.cls.requests.get(NVIDIA_GPU, 0) > 0]
    ends += [min(wanting_gpu) + _YOUNG_GPU_S] if wanting_gpu else []
    return max(0.0, max(ends, default=now.wall) - now.wall)
