"""Finds what would get a pending pod onto a node."""

from collections.abc import Iterator, Sequence

from autoscaler.config.tree import Config
from autoscaler.explain.remedies.changes import (
    AnnotatableKind,
    Annotate,
    AnyChange,
    DropFromPod,
    PodField,
    SetFlag,
    SetPriority,
    Wait,
    spelled,
)
from autoscaler.explain.remedies.filters import changes_to_fit
from autoscaler.explain.remedies.groups import chosen_instead, held_group, more_nodes, paused
from autoscaler.explain.remedies.passes import ended_early, held_back, next_pass
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy, together
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.capacity import CONSUMES, CONSUMES_FORMERLY, consumed_request
from autoscaler.objects.pod import SCALE_UP_DELAY, Pod
from autoscaler.reasons import NoFit, PodVerdict, ScaleUpResult, Skipped, Waiting
from autoscaler.registry.backoff import backed_off
from autoscaler.scaleup.estimator import estimate, pod_groups
from autoscaler.scaleup.next_zone import verdict
from autoscaler.scaleup.pending import scale_up_delay_s

_NEAREST = 5
"""So many groups, and so many nodes, are looked at, nearest miss first."""
_MOST = 4


def waiting_remedies(pod: Pod, reason: Waiting, p: EndedPass, config: Config, nodes: Sequence[int]) -> Iterator[Remedy]:
    """Yield what would have a pod take part that the pass left alone; nothing where that is as it should be."""
    key, options = pod.key, config.pods
    match reason:
        case Waiting.TOO_YOUNG:
            yield from _older(pod, p, config)
        case Waiting.EXPENDABLE:
            cutoff = options.expendable_pods_priority_cutoff
            raise_it = SetPriority(pod=key, priority=cutoff)
            text = f"its priority is {pod.cls.priority}; it counts with {raise_it}"
            yield remedy(Obstacle.EXPENDABLE, CulpritKind.POD, key, text, [raise_it])
            flag = SetFlag(flag="expendable-pods-priority-cutoff", value=str(pod.cls.priority))
            yield remedy(Obstacle.EXPENDABLE, CulpritKind.FLAG, flag.flag, f"it counts with {flag}", [flag])
        case Waiting.GATED:
            gates = DropFromPod(pod=key, field=PodField.SCHEDULING_GATES)
            yield remedy(Obstacle.GATED, CulpritKind.POD, key, f"it takes part once {gates}", [gates])
        case Waiting.FOREIGN_SCHEDULER:
            names = [*options.allowed_scheduler_names, pod.cls.scheduler_name]
            flag = SetFlag(flag="allowed-scheduler-names", value=",".join(names))
            yield remedy(Obstacle.FOREIGN_SCHEDULER, CulpritKind.FLAG, flag.flag, f"it takes part with {flag}", [flag])
        case Waiting.NOT_JUDGED:
            names = [*options.bypassed_scheduler_names, pod.cls.scheduler_name]
            flag = SetFlag(flag="bypassed-scheduler-names", value=",".join(names))
            text = f"it takes part once scheduler {pod.cls.scheduler_name} has tried to place it, or with {flag}"
            yield remedy(Obstacle.NOT_JUDGED, CulpritKind.FLAG, flag.flag, text, [flag])
        case Waiting.CONSUMES_REQUEST:
            names = [name for name in (CONSUMES, CONSUMES_FORMERLY) if name in pod.cls.annotations]
            drop = [Annotate(kind=AnnotatableKind.POD, name=key, key=name, value=None) for name in names]
            request = consumed_request(pod.cls.annotations)
            text = f"ProvisioningRequest {request} buys nodes for it; the pod itself does once {spelled(drop)}"
            yield remedy(Obstacle.CONSUMES_REQUEST, CulpritKind.POD, key, text, drop)
        case Waiting.DAEMONSET:
            found = tuple(_onto_nodes(pod, p, nodes, Obstacle.DAEMONSET))
            text = "it runs once its own node has room; no other node and no change of the pod helps"
            yield from found or (remedy(Obstacle.DAEMONSET, CulpritKind.POD, key, text),)
        case Waiting.TERMINATING:
            yield remedy(
                Obstacle.TERMINATING,
                CulpritKind.POD,
                key,
                "it is being deleted; its controller creates another if needed",
            )
        case Waiting.FITS | Waiting.NOMINATED | Waiting.TAKES_HEADROOM:
            return


def _older(pod: Pod, p: EndedPass, config: Config) -> Iterator[Remedy]:
    delay_s = scale_up_delay_s(pod.cls, config.pods)
    wait = Wait(seconds=max(0.0, delay_s - (p.report.now.wall - pod.created)))
    own = delay_s > config.pods.new_pod_scale_up_delay_s
    flag = "new-pod-scale-up-delay"
    kind, name = (CulpritKind.POD, pod.key) if own else (CulpritKind.FLAG, flag)
    yield remedy(Obstacle.TOO_YOUNG, kind, name, f"it causes a scale-up {wait}", [wait])
    at_once = Annotate(kind=AnnotatableKind.POD, name=pod.key, key=SCALE_UP_DELAY, value=None)
    change: AnyChange = at_once if own else SetFlag(flag=flag, value="0s")
    yield remedy(Obstacle.TOO_YOUNG, kind, name, f"it causes one now if {change}", [change])


def needy_remedies(
    pod: Pod,
    verdict: str,
    p: EndedPass,
    config: Config,
    groups: Sequence[tuple[str, Skipped | None]],
    nodes: Sequence[int],
) -> Iterator[Remedy]:
    """Yield what would help a pod that needs a node: `groups` and `nodes` are nearest miss first."""
    early = ended_early(p, config)
    if early is not None and verdict != PodVerdict.HELPED:
        yield early
        return
    match verdict:
        case PodVerdict.HELPED:
            return
        case PodVerdict.NEXT_PASS:
            text = "some group could take it, but this pass handles others first; it gets its turn"
            yield next_pass(Obstacle.NEXT_PASS, text, p, config)
        case PodVerdict.NOT_CHOSEN:
            yield _not_chosen(pod, p, config)
        case PodVerdict.NO_GROUP_FITS:
            yield from _fits(pod, p, config, groups, nodes)
        case ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
            yield more_nodes(_nodes_for(pod, p, [group for group, skipped in groups if skipped is None]), p, config)
        case ScaleUpResult.ERROR if p.report.refused:
            yield from _refused(p)
        case _:
            back = held_back(p, config)
            yield back or next_pass(
                Obstacle.NEXT_PASS, "nothing was decided for it; the autoscaler tries again", p, config
            )


def _not_chosen(pod: Pod, p: EndedPass, config: Config) -> Remedy:
    """Return how the expander would take a group for a pod, if what it was offered is known."""
    rounds = () if p.report.scale_up.plan is None else p.report.scale_up.plan.rounds
    for each in rounds if rounds and rounds[0].chosen is None else ():
        for option in each.options:
            if any(one.key == pod.key for one in option.pods):
                return chosen_instead(option.group.id, each.options, config)
    return next_pass(Obstacle.NOT_CHOSEN, "the expander selected no group for it; it is asked again", p, config)


def _nodes_for(pod: Pod, p: EndedPass, groups: Sequence[str]) -> int:
    """Return how many more nodes it takes until a pod has its place, others before it included."""
    held = {} if p.report.scale_up.plan is None else p.report.scale_up.plan.held
    keys = [one.key for one in p.report.pods.unschedulable]
    before = keys[: keys.index(pod.key)] if pod.key in keys else []
    limited = {key for key in before if held.get(key) is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL}
    pods = [*(one for one in p.report.pods.unschedulable if one.key in limited), pod]
    if p.placer is None or not groups:
        return 1
    template = p.report.templates[groups[0]]
    return max(1, estimate(p.placer, template, pod_groups(pods), len(pods), topology_fallback=True).nodes)


def _refused(p: EndedPass) -> Iterator[Remedy]:
    """Yield when each group that could not grow is tried again, soonest first."""
    backoffs, now = p.memory.registry.backoffs, p.report.now
    failed = {one.group: one.error.message for one in p.report.increases if one.error is not None}
    pauses = {group: backed_off(backoffs, group, now) for group in failed}
    for group in sorted(failed, key=lambda one: now.mono if (found := pauses[one]) is None else found.until.mono):
        yield paused(Obstacle.INCREASE_FAILED, group, p, failed[group])


def _fits(
    pod: Pod, p: EndedPass, config: Config, groups: Sequence[tuple[str, Skipped | None]], nodes: Sequence[int]
) -> Iterator[Remedy]:
    assert p.placer is not None
    found = 0
    for group_id, skipped in groups[:_NEAREST]:
        one = into_group(pod, group_id, skipped, p, config)
        if one is not None:
            found += 1
            yield one
    for one in _onto_nodes(pod, p, nodes, None):
        found += 1
        yield one
    if not found:
        text = "no change of the pod or of a group's bounds helps; add a group whose nodes suit it"
        code = Obstacle.NO_GROUPS if not groups else _stuck_on(pod, groups[0][0], groups[0][1], p)
        yield remedy(code, CulpritKind.POD, pod.key, text)


def _stuck_on(pod: Pod, group_id: str, skipped: Skipped | None, p: EndedPass) -> Obstacle:
    """Return what keeps the pod off the nearest group."""
    if skipped is not None:
        return Obstacle(skipped.reason.value)
    assert p.placer is not None
    with p.placer.trial.fork():
        at = p.placer.trial.add(p.report.templates[group_id], 1)[0]
        return Obstacle(p.placer.why(pod.cls, at)[0].reason.value)


def into_group(pod: Pod, group_id: str, skipped: Skipped | None, p: EndedPass, config: Config) -> Remedy | None:
    """Return all that must change for a group to grow for the pod; None where that cannot be told."""
    placer, template = p.placer, p.report.templates.get(group_id)
    assert placer is not None
    first = None if skipped is None else held_group(skipped, p, config)
    if template is None or (first is not None and not first.changes):
        return first
    with placer.trial.fork():
        at = placer.trial.add(template, 1)[0]
        reasons = placer.why(pod.cls, at)
        changes = changes_to_fit(placer, pod, at)
    found = verdict(placer, pod.cls, template, reasons)
    if first is None and found != reasons:
        text = f"{found[0].detail}; with one group per zone in place of {group_id} the zone could be chosen"
        return remedy(Obstacle(found[0].reason.value), CulpritKind.GROUP, group_id, text)
    if changes is None or not (changes or first):
        return None
    if first is None:
        text = f"fits group {group_id} if {spelled(changes)}"
        return remedy(Obstacle(reasons[0].reason.value), CulpritKind.POD, pod.key, text, changes)
    if not changes:
        return remedy(
            first.code, first.culprit.kind, first.culprit.name, f"fits group {group_id}: {first.text}", first.changes
        )
    every = (*first.changes, *changes)
    text = f"fits group {group_id} if {spelled(changes)}; {first.text}"
    return remedy(first.code, first.culprit.kind, first.culprit.name, text, every)


def _onto_nodes(pod: Pod, p: EndedPass, nodes: Sequence[int], code: Obstacle | None) -> Iterator[Remedy]:
    """Yield what must change for nodes that exist to take the pod."""
    placer = p.placer
    assert placer is not None
    for position in nodes[:_NEAREST]:
        changes = changes_to_fit(placer, pod, position)
        if changes:
            reason = placer.why(pod.cls, position)[0].reason
            told = code or Obstacle(reason.value)
            culprit = (CulpritKind.NODE, placer.trial.name(position)) if reason is NoFit.UNSCHEDULABLE else None
            kind, name = culprit or (CulpritKind.POD, pod.key)
            yield remedy(told, kind, name, f"fits node {placer.trial.name(position)} if {spelled(changes)}", changes)


def beyond(
    remedies: Iterator[Remedy],
    pod: Pod,
    p: EndedPass,
    config: Config,
    groups: Sequence[tuple[str, Skipped | None]],
    nodes: Sequence[int],
) -> Iterator[Remedy]:
    """Yield the remedies with what else it takes: once the pod takes part, no node and no group would take it yet."""
    nearest = next(_fits(pod, p, config, groups, nodes))
    for one in remedies:
        alone = one.code is Obstacle.DAEMONSET or not one.changes or one.changes == nearest.changes
        yield one if alone else together([nearest], one)


def shortlist(remedies: Iterator[Remedy]) -> list[Remedy]:
    """Return the first few remedies, those that name a change before those that do not, each once."""
    found: list[Remedy] = []
    for one in remedies:
        if not any(one.changes == other.changes for other in found):
            found.append(one)
    return sorted(found, key=lambda one: not one.changes)[:_MOST]
