"""Finds what would get a pod that needs a new node onto one."""

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.changes import spelled
from autoscaler.explain.remedies.filters import changes_to_fit
from autoscaler.explain.remedies.groups import chosen_instead, held_group, more_nodes, paused
from autoscaler.explain.remedies.passes import ended_early, held_back, next_pass
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy, together
from autoscaler.objects.pod import Pod
from autoscaler.reasons import NoFit, PodVerdict, ScaleUpResult, Skipped, Waiting
from autoscaler.registry.backoff import backed_off
from autoscaler.scaleup.estimator import estimate, pod_groups
from autoscaler.scaleup.next_zone import verdict

_NEAREST = 5
"""So many groups, and so many nodes, are looked at, nearest miss first."""
_MOST = 4


class Reach(msgspec.Struct, frozen=True):
    """What there is that could take a pod, nearest miss first."""

    groups: Sequence[tuple[str, Skipped | None]] = ()
    """Ids, and why a group may not grow."""
    nodes: Sequence[int] = ()
    """Positions."""


def unschedulable_remedies(pod: Pod, outcome: str, ended: ExplainedPass, reach: Reach) -> Iterator[Remedy]:
    """Yield what would help a pod that needs a node; `outcome` is the verdict of its status."""
    if outcome == PodVerdict.HELPED:
        return
    if (early := ended_early(ended)) is not None:
        yield early
        return
    match outcome:
        case PodVerdict.NEXT_PASS:
            text = "some group could take it, but this pass handles others first; it gets its turn"
            yield next_pass(PodVerdict.NEXT_PASS, text, ended)
        case PodVerdict.NOT_CHOSEN:
            yield _not_chosen(pod, ended)
        case PodVerdict.NO_GROUP_FITS:
            yield from _fits(pod, ended, reach)
        case ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
            growing = [group for group, skipped in reach.groups if skipped is None]
            yield more_nodes(_nodes_for(pod, ended, growing), ended)
        case ScaleUpResult.ERROR if ended.report.refused:
            yield from _refused(ended)
        case _:
            text = "nothing was decided for it; the autoscaler tries again"
            yield held_back(ended) or next_pass(PodVerdict.NEXT_PASS, text, ended)


def _not_chosen(pod: Pod, ended: ExplainedPass) -> Remedy:
    """Return how the expander would take a group for a pod, if what it was offered is known."""
    plan = ended.report.scale_up.plan
    rounds = () if plan is None or not plan.rounds or plan.rounds[0].chosen is not None else plan.rounds
    for round_ in rounds:
        for option in round_.options:
            if any(other.key == pod.key for other in option.pods):
                return chosen_instead(option.group.id, round_.options, ended.config)
    return next_pass(PodVerdict.NOT_CHOSEN, "the expander selected no group for it; it is asked again", ended)


def _nodes_for(pod: Pod, ended: ExplainedPass, groups: Sequence[str]) -> int:
    """Return how many more nodes it takes until a pod has its place, others before it included."""
    plan, unschedulable = ended.report.scale_up.plan, ended.report.pods.unschedulable
    held = {} if plan is None else plan.held
    keys = [other.key for other in unschedulable]
    before = keys[: keys.index(pod.key)] if pod.key in keys else []
    limited = {key for key in before if held.get(key) is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL}
    pods = [*(other for other in unschedulable if other.key in limited), pod]
    if ended.placer is None or not groups:
        return 1
    template = ended.report.templates[groups[0]]
    return max(1, estimate(ended.placer, template, pod_groups(pods), len(pods), topology_fallback=True).nodes)


def _refused(ended: ExplainedPass) -> Iterator[Remedy]:
    """Yield when each group that could not grow is tried again, soonest first."""
    backoffs, now = ended.memory.registry.backoffs, ended.report.now
    failed = {resized.group: resized.error.message for resized in ended.report.increases if resized.error is not None}
    pauses = {group: backed_off(backoffs, group, now) for group in failed}
    ends = {group: now.mono if pause is None else pause.until.mono for group, pause in pauses.items()}
    for group in sorted(failed, key=ends.__getitem__):
        yield paused(Obstacle.INCREASE_FAILED, group, ended, failed[group])


def _fits(pod: Pod, ended: ExplainedPass, reach: Reach) -> Iterator[Remedy]:
    """Yield what would have the nearest groups and nodes take the pod; at least one remedy."""
    into_groups = (into_group(pod, group, skipped, ended) for group, skipped in reach.groups[:_NEAREST])
    helps = False
    for way in chain(into_groups, onto_nodes(pod, ended, reach.nodes)):
        if way is not None:
            helps = True
            yield way
    if not helps:
        text = "no change of the pod or of a group's bounds helps; add a group whose nodes suit it"
        code = _stuck_on(pod, *reach.groups[0], ended) if reach.groups else Obstacle.NO_GROUPS
        yield remedy(code, CulpritKind.POD, pod.key, text)


def _stuck_on(pod: Pod, group_id: str, skipped: Skipped | None, ended: ExplainedPass) -> str:
    """Return what keeps the pod off the nearest group."""
    if skipped is not None:
        return skipped.reason
    trial = ended.simulated.trial
    with trial.fork():
        position = trial.add(ended.report.templates[group_id], 1)[0]
        return ended.simulated.why(pod.cls, position)[0].reason


def into_group(pod: Pod, group_id: str, skipped: Skipped | None, ended: ExplainedPass) -> Remedy | None:
    """Return all that must change for a group to grow for the pod; None where that cannot be told."""
    ended.check()
    placer, template = ended.simulated, ended.report.templates.get(group_id)
    first = None if skipped is None else held_group(skipped, ended)
    if template is None or (first is not None and not first.changes):
        return first
    with placer.trial.fork():
        position = placer.trial.add(template, 1)[0]
        reasons = placer.why(pod.cls, position)
        changes = changes_to_fit(placer, pod, position)
    by_zone = verdict(placer, pod.cls, template, reasons)
    if first is None and by_zone != reasons:
        text = f"{by_zone[0].detail}; with one group per zone in place of {group_id} the zone could be chosen"
        return remedy(by_zone[0].reason, CulpritKind.GROUP, group_id, text)
    if changes is None or not (changes or first):
        return None
    text = f"fits group {group_id} if {spelled(changes)}"
    if first is None:
        return remedy(reasons[0].reason, CulpritKind.POD, pod.key, text, changes)
    text = f"{text}; {first.text}" if changes else f"fits group {group_id}: {first.text}"
    return remedy(first.code, first.culprit.kind, first.culprit.name, text, (*first.changes, *changes))


def onto_nodes(pod: Pod, ended: ExplainedPass, nodes: Sequence[int], code: str | None = None) -> Iterator[Remedy]:
    """Yield what must change for nodes that exist to take the pod; `code` None: what keeps it off each."""
    placer = ended.simulated
    for position in nodes[:_NEAREST]:
        ended.check()
        changes = changes_to_fit(placer, pod, position)
        if changes:
            node, reason = placer.trial.name(position), placer.why(pod.cls, position)[0].reason
            kind, name = (CulpritKind.NODE, node) if reason is NoFit.UNSCHEDULABLE else (CulpritKind.POD, pod.key)
            yield remedy(code or reason, kind, name, f"fits node {node} if {spelled(changes)}", changes)


def beyond(remedies: Iterator[Remedy], pod: Pod, ended: ExplainedPass, reach: Reach) -> Iterator[Remedy]:
    """Yield the remedies with what else it takes: once the pod takes part, no node and no group would take it yet."""
    nearest = next(_fits(pod, ended, reach))
    for first in remedies:
        alone = first.code == Waiting.DAEMONSET or not first.changes or first.changes == nearest.changes
        yield first if alone else together([nearest], first)


def shortlist(remedies: Iterator[Remedy]) -> list[Remedy]:
    """Return the first few remedies, those that name a change before those that do not, each once."""
    different: list[Remedy] = []
    for option in remedies:
        if not any(option.changes == other.changes for other in different):
            different.append(option)
    return sorted(different, key=lambda option: not option.changes)[:_MOST]
