"""Classifies the pending pods on a simulated cluster: they fit, they wait, or they need nodes."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from autoscaler.config.tree import Config
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.stages import Observed, PodsSorted, Simulated, next_stage, remember
from autoscaler.objects import quantity
from autoscaler.objects.capacity import consumed_request
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.observe.report import PendingPods
from autoscaler.reasons import ScaleUpResult, Waiting
from autoscaler.scaledown.displaced_pods import pods_of_removed_nodes
from autoscaler.scaleup.fake_placement import place_where_fits
from autoscaler.scaleup.gangs import GangCensus
from autoscaler.scaleup.pause_pods import filter_yielding
from autoscaler.scaleup.pending import UnschedulablePods, all_new, expendable, sort_pending, too_new_until, too_young
from autoscaler.scaleup.pods_to_come import pods_to_come, within_limit
from autoscaler.scaleup.room_for_resizes import room_for_resizes
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import Profile, profile_of
from autoscaler.snapshot.merging import merged
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import UPCOMING

_FITTING = (Waiting.FITS, Waiting.TAKES_HEADROOM)


class FilteredPods(msgspec.Struct, frozen=True):
    """Pods that fit nowhere; the simulated cluster holds all other pods and all bookings."""

    pods: UnschedulablePods
    displaced_placed: frozenset[str]
    """Keys of pods on nodes being removed that have found room on nodes that stay."""
    stranded: frozenset[str] = frozenset()
    """Keys of pods that would fit, and hold no room because their gang cannot start with that."""


def merge(stage: Observed, interner: PodInterner) -> Observed:
    """Return the stage with pending pods of one class where nothing that decides tells them apart."""
    templates = (pod.cls for template in stage.templates.values() for pod in template.pods)
    others = dict.fromkeys((*templates, *(pod.cls for pod in stage.fake_pods)))
    return replace(stage, view=merged(stage.view, others, interner))


def simulate(stage: Observed) -> Simulated:
    """Return the stage with a simulated cluster that includes the upcoming nodes; no pod has moved yet."""
    return next_stage(stage, Simulated, placer=simulated_cluster(stage))


def simulated_cluster(stage: Observed) -> Placer:
    """Return the cluster with its upcoming nodes. A node that has registered but not started counts only once."""
    trial = Trial(stage.view)
    for group_id, count in stage.registry.upcoming.items():
        template = stage.templates.get(group_id)
        if template is None:
            continue
        for name in stage.registry.upcoming_registered.get(group_id, ()):
            trial.remove(stage.view.positions[name])
        trial.add(template, count, UPCOMING, numbered=0)
    return Placer(trial, _profile(stage.config))


def idle_upcoming(stage: Simulated) -> Mapping[str, Sequence[int]]:
    """Return the positions of upcoming nodes that have not registered and that no pod is to use, by group."""
    trial, position = stage.placer.trial, stage.placer.trial.base
    idle: dict[str, list[int]] = {}
    for group_id, count in stage.registry.upcoming.items():
        template = stage.templates.get(group_id)
        if template is None:
            continue
        with trial.fork():
            added = trial.add(template, 1)[0]
            fresh = trial.free[:, added].copy()
        positions = range(position, position + count)
        position += count
        unused = [place for place in positions if trial.alive[place] and (trial.free[:, place] == fresh).all()]
        registered = len(stage.registry.upcoming_registered.get(group_id, ()))
        idle[group_id] = unused[: max(0, count - registered)]
    return idle


def _profile(config: Config) -> Profile:
    profile = profile_of(config.scheduler, config.rules, device_claims=config.device_claims_count)
    return replace(profile, most_work=config.pods.max_pod_evaluation_work)


def filter_pods(stage: Simulated) -> FilteredPods:
    """Place what fits on the simulated cluster, then the pods of bookings; return what fits nowhere.

    Gangs that cannot start with what fits hold no room: the scheduler gives it to others. All their pods need nodes.
    """
    candidates = (*stage.view.pending, *stage.fake_pods) if stage.config.gangs_count else ()
    if all(pod.cls.gang is None for pod in candidates):
        return _filtered(stage, frozenset())
    trial = stage.placer.trial
    with trial.fork() as fork:
        filtered = _filtered(stage, frozenset())
        stranded = GangCensus(candidates, stage.view, trial).stranded()
        if not stranded:
            fork.keep()
            return filtered
    fits = frozenset(key for key, why in filtered.pods.waiting.items() if why in _FITTING)
    return replace(_filtered(stage, stranded), stranded=fits)


def _filtered(stage: Simulated, stranded: Collection[str]) -> FilteredPods:
    """Do as `filter_pods`; no pod of the gangs that are `stranded` is placed."""
    config, placer = stage.config, stage.placer
    classified = sort_pending(stage.view, config.pods, config.rules)
    for pod in classified.nominated:
        position = stage.view.positions.get(pod.nominated_node or "")
        if position is not None and not expendable(pod, config.pods.expendable_pods_priority_cutoff):
            placer.place(pod.cls, position)
    moving = _displaced(stage)
    pods = (*classified.unschedulable, *classified.unprocessed, *moving, *stage.fake_pods)
    apart = [pod for pod in pods if _is_apart(pod, stranded, stage)] if stranded else []
    pods = tuple(pod for pod in pods if not _is_apart(pod, stranded, stage)) if stranded else pods
    filtered = filter_yielding(placer, pods, config.pods, stage.memory.hints, config.rules, stage.now)
    filtered = replace(filtered, pods=(*filtered.pods, *apart))
    nominated = {pod.key: Waiting.NOMINATED for pod in classified.nominated}
    keys = {pod.key for pod in moving}
    verdicts = {key: reason for key, reason in filtered.waiting.items() if key not in keys}
    for booked in stage.bookings:
        place_where_fits(placer, booked)
    return FilteredPods(
        pods=replace(filtered, waiting={**classified.waiting, **nominated, **verdicts}),
        displaced_placed=_placed(moving, filtered, stage.tracked_deletions.nodes),
    )


def _is_apart(pod: Pod, stranded: Collection[str], stage: Simulated) -> bool:
    """Whether a pod of a gang is not placed, though there is room for it."""
    if pod.node is not None or pod.cls.gang is None or pod.cls.gang.key not in stranded or pod.cls.daemonset:
        return False
    if pod.nominated_node in stage.view.positions:
        return False
    return not expendable(pod, stage.config.pods.expendable_pods_priority_cutoff)


def _displaced(stage: Simulated) -> tuple[Pod, ...]:
    """Return the pods of nodes being removed, except those of replaced nodes, which already have room bought for
    them.
    """
    memory = stage.memory.replacements
    replaced = () if memory is None else memory.in_progress
    names = stage.tracked_deletions.nodes - {name for replacement in replaced for name in replacement.nodes}
    return pods_of_removed_nodes(stage.view, names, stage.now.wall, stage.config.rules)


def _placed(moving: Sequence[Pod], filtered: UnschedulablePods, leaving: Collection[str]) -> frozenset[str]:
    return frozenset(
        pod.key
        for pod in moving
        if filtered.waiting.get(pod.key) in _FITTING and filtered.hints.get(pod) not in leaving
    )


def _awaiting(stage: Simulated, needing: UnschedulablePods) -> Mapping[str, str]:
    """Return the group of the upcoming node that a pending pod fits on, by key of the pod."""
    if not stage.registry.upcoming:
        return {}
    templates = ((group, stage.templates.get(group)) for group in stage.registry.upcoming)
    groups = {template.node.name: group for group, template in templates if template is not None}
    nodes = ((pod.key, needing.hints.get(pod) or "") for pod in stage.view.pending if pod.key in needing.waiting)
    upcoming = ((key, node.rpartition(f"-{UPCOMING}")[0]) for key, node in nodes)
    return {key: groups[name] for key, name in upcoming if name in groups}


def _ordinary(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods without those that reserve headroom."""
    return [pod for pod in pods if pod.cls.headroom is None]


def with_pods_to_come(stage: Simulated, interner: PodInterner) -> Simulated:
    """Return the stage with the pods that controllers have yet to create, as far as the configuration counts them."""
    options = stage.config.pods
    if options.room_for_deferred_resizes:
        resized = room_for_resizes(stage.view, options.pod_injection_limit, interner)
        stage = replace(stage, fake_pods=(*stage.fake_pods, *resized))
    if not options.enable_proactive_scaleup:
        return stage
    trial = stage.placer.trial
    slots = trial.vocabulary.rows.get(quantity.PODS)
    room = 0 if slots is None else int(trial.free[slots].clip(min=0).sum())
    pods = pods_to_come(stage.view, options.pod_injection_limit + room, interner)
    return replace(stage, fake_pods=(*stage.fake_pods, *pods))


class PodSorting:
    """Sorts pods, and decides whether pods or ProvisioningRequests take this turn."""

    def __init__(self, events: PassEventWriter) -> None:
        self._events = events

    def run(self, stage: Simulated) -> PodsSorted:
        """Return the stage with pods sorted, and with the candidates of a scale-up."""
        config, now = stage.config, stage.now
        with stage.time.phase("filter_schedulable"):
            filtered = filter_pods(stage)
            needing = filtered.pods
            if config.pods.enable_proactive_scaleup:
                needing = replace(needing, pods=within_limit(needing.pods, config.pods.pod_injection_limit))
            if config.features.enable_provisioning_requests:
                needing = self._without_consumers(needing)
        young = {pod.key: pod for pod in needing.pods if too_young(pod, config.pods, now)}
        candidates = tuple(pod for pod in needing.pods if pod.key not in young)
        represented = tuple(pod for accepted in stage.accepted for pod in accepted.pods)
        held_back = self._held_back(stage, candidates)
        requests = stage.accepted
        if requests and not config.rules.requests_force_scale_up:
            held_back = self._held_back(stage, (*candidates, *represented))
            requests = requests if held_back is None else ()
        new = _ordinary(candidates) if held_back is ScaleUpResult.IN_COOLDOWN else []
        # Requests and pods alternate if both wait.
        pods_first = held_back is None and bool(candidates) and stage.memory.requests.pods_next
        return next_stage(
            remember(stage, hints=needing.hints),
            PodsSorted,
            pods=PendingPods(
                unschedulable=(*needing.pods, *represented),
                waiting={**needing.waiting, **dict.fromkeys(young, Waiting.TOO_YOUNG)},
                awaiting=_awaiting(stage, needing),
                too_new_until=too_new_until(new, young.values(), config.pods, now),
            ),
            candidates=candidates,
            displaced_placed=filtered.displaced_placed,
            served_now=() if pods_first else requests,
            held_back=held_back,
        )

    def _without_consumers(self, needing: UnschedulablePods) -> UnschedulablePods:
        """Return the pods that need nodes, without those that use a request's capacity."""
        consumers = [pod for pod in needing.pods if consumed_request(pod.cls.annotations)]
        if not consumers:
            return needing
        self._events.consume_requests(consumers)
        waiting = {pod.key: Waiting.CONSUMES_REQUEST for pod in consumers}
        pods = tuple(pod for pod in needing.pods if pod.key not in waiting)
        return replace(needing, pods=pods, waiting={**needing.waiting, **waiting})

    def _held_back(self, stage: Simulated, pods: Sequence[Pod]) -> ScaleUpResult | None:
        """Return why no scale-up is tried; None if one is."""
        config = stage.config
        if not pods:
            return ScaleUpResult.NOT_NEEDED
        ready = sum(1 for _ in stage.registry.readings.ready())
        if 0 < config.limits.max_nodes_total <= ready:
            if not config.rules.max_nodes_total_result_limited:
                return ScaleUpResult.NO_OPTIONS
            self._events.no_more_nodes(pods, config.limits.max_nodes_total)
            return ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
        if not config.pods.bypassed_scheduler_names and all_new(_ordinary(pods), stage.now):
            return ScaleUpResult.IN_COOLDOWN
        return None
