"""Finds what would help a pod that needs a new node."""

from collections.abc import Iterator, Sequence

import msgspec

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.causes import cause_of
from autoscaler.explain.remedies.changes import (
    AddGroup,
    AddToleration,
    AllowSkew,
    AnyChange,
    CreateClaim,
    CreateStorageClass,
    DropFromPod,
    LimitRequest,
    PodField,
    Uncordon,
    joined,
    resource_name,
    sentence,
    told,
)
from autoscaler.explain.remedies.effort import best_first
from autoscaler.explain.remedies.filters import avoided_keys, changes_to_fit, told_for_node
from autoscaler.explain.remedies.gangs import gang_remedy
from autoscaler.explain.remedies.groups import chosen_instead, held_group, more_nodes, paused
from autoscaler.explain.remedies.labels import foreign_groups, in_another, misspelt, wanted_labels
from autoscaler.explain.remedies.passes import ended_early, held_back, next_pass
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy, together
from autoscaler.explain.remedies.spot import Spot
from autoscaler.explain.remedies.storage import storage_labels, storage_trouble
from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import NoFit, PodVerdict, Rejection, ScaleUpResult, Skipped, Waiting
from autoscaler.registry.backoff import backed_off
from autoscaler.scaleup.estimator import estimate, pod_groups
from autoscaler.scaleup.next_zone import verdict
from autoscaler.snapshot.template import Template

_MOST_GROUPS = 12
_MOST_NODES = 5
"""How many groups and nodes are looked at, nearest miss first."""
_BY_LABELS = frozenset((NoFit.NODE_AFFINITY, NoFit.VOLUME_BINDING, NoFit.VOLUME_ZONE))
"""Filters that require only labels of the node."""


class Reach(msgspec.Struct, frozen=True):
    """The groups and nodes that might take a pod, nearest miss first."""

    groups: Sequence[tuple[str, Skipped | None]] = ()
    """Ids of groups, and why each may not grow; None if it may."""
    nodes: Sequence[int] = ()
    """Positions of nodes."""


def unschedulable_remedies(pod: Pod, outcome: str, ended: ExplainedPass, reach: Reach) -> Iterator[Remedy]:
    """Yield what would help a pod that needs a node; `outcome` is the verdict of its status."""
    if outcome == PodVerdict.HELPED:
        return
    if (early := ended_early(ended)) is not None:
        yield early
        return
    match outcome:
        case PodVerdict.NEXT_PASS:
            cause = "fits some group, and this pass handles others first"
            yield next_pass(PodVerdict.NEXT_PASS, cause, ended)
        case PodVerdict.NOT_CHOSEN:
            yield _not_chosen(pod, ended)
        case PodVerdict.GANG_TOO_LARGE | PodVerdict.GANG_INCOMPLETE:
            yield gang_remedy(pod, ended)
        case PodVerdict.NO_GROUP_FITS:
            yield from _fits(pod, ended, reach)
        case ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
            growing = [group for group, skipped in reach.groups if skipped is None]
            yield more_nodes(_nodes_for(pod, ended, growing), ended)
        case ScaleUpResult.ERROR if ended.report.refused:
            yield from _refused(ended)
        case _:
            cause = "had nothing decided for it in this pass"
            yield held_back(ended) or next_pass(PodVerdict.NEXT_PASS, cause, ended)


def _not_chosen(pod: Pod, ended: ExplainedPass) -> Remedy:
    """Return what would make the expander choose a group for a pod, if the offers are known."""
    plan = ended.report.scale_up.plan
    rounds = () if plan is None or not plan.rounds or plan.rounds[0].chosen is not None else plan.rounds
    for round_ in rounds:
        for option in round_.options:
            if any(other.key == pod.key for other in option.pods):
                return chosen_instead(option.group.id, round_, ended.config)
    return next_pass(PodVerdict.NOT_CHOSEN, "fits some group, and the expander chose none", ended)


def _nodes_for(pod: Pod, ended: ExplainedPass, groups: Sequence[str]) -> int:
    """Return how many more nodes the pod needs to get a place, including nodes for the pods before it."""
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
    """Yield when the autoscaler tries each failed group again, soonest first."""
    backoffs, now = ended.memory.registry.backoffs, ended.report.now
    failed = {resized.group: resized.error.message for resized in ended.report.increases if resized.error is not None}
    pauses = {group: backed_off(backoffs, group, now) for group in failed}
    ends = {group: now.mono if pause is None else pause.until.mono for group, pause in pauses.items()}
    for group in sorted(failed, key=ends.__getitem__):
        yield paused(Obstacle.INCREASE_FAILED, group, ended, failed[group])


def _fits(pod: Pod, ended: ExplainedPass, reach: Reach) -> Iterator[Remedy]:
    """Yield what would make groups take the pod or, if no group can, nodes; at least one remedy."""
    foreign = foreign_groups(pod.cls, ended)
    ways: list[Remedy] = []
    for far in (False, True):
        groups = [(group, skipped) for group, skipped in reach.groups if (group in foreign) is far]
        if not any(way.changes for way in ways):
            ways.extend(_into_any(pod, groups[:_MOST_GROUPS], ended))
    helped = any(way.changes for way in ways)
    for way in onto_nodes(pod, ended, reach.nodes):
        if not helped or all(isinstance(change, Uncordon) for change in way.changes):
            ways.append(way)
    yield from best_first(ways)
    if not ways:
        yield _no_way(pod, ended, reach)


def _into_any(pod: Pod, groups: Sequence[tuple[str, Skipped | None]], ended: ExplainedPass) -> Iterator[Remedy]:
    into = (into_group(pod, group, skipped, ended) for group, skipped in groups)
    yield from (way for way in (*into, _like_a_group(pod, groups, ended)) if way is not None)


def _no_way(pod: Pod, ended: ExplainedPass, reach: Reach) -> Remedy:
    """Return what keeps the pod off the nearest group, if no known change helps."""
    text = "Add a group whose nodes suit it; no change of the pod or of a group's sizes helps."
    culprit = CulpritKind.POD, pod.key
    if not reach.groups:
        return remedy(Obstacle.NO_GROUPS, culprit, text, cause="needs a machine, and there is no node group")
    group_id, skipped = reach.groups[0]
    if skipped is not None:
        why = f"needs a machine of group {group_id}, which may not grow: {skipped.detail or skipped.message}"
        return remedy(skipped.reason, culprit, text, cause=why)
    trial = ended.simulated.trial
    with trial.fork():
        spot = Spot(ended, pod, trial.add(ended.report.templates[group_id], 1)[0], group_id)
        rejections = spot.placer.why(pod.cls, spot.position)
        trouble = storage_trouble(spot)
        if trouble is not None:
            return remedy(NoFit.VOLUME_BINDING, culprit, trouble[1], cause=trouble[0])
        return remedy(rejections[0].reason, culprit, text, cause=cause_of(rejections, spot))


def into_group(pod: Pod, group_id: str, skipped: Skipped | None, ended: ExplainedPass) -> Remedy | None:
    """Return all changes that a group needs to grow for the pod; None if they are unknown."""
    ended.check()
    placer, template = ended.simulated, ended.report.templates.get(group_id)
    first = None if skipped is None else held_group(skipped, ended, _nodes_for_all_like(pod, template, ended))
    if template is None or (first is not None and not first.changes):
        return first
    with placer.trial.fork():
        spot = Spot(ended, pod, placer.trial.add(template, 1)[0], group_id)
        reasons = placer.why(pod.cls, spot.position)
        changes = changes_to_fit(spot)
        cause, another = cause_of(reasons, spot), _or_another_group(changes or (), spot)
    by_zone = verdict(placer, pod.cls, template, reasons)
    if first is None and by_zone != reasons:
        cause = f"needs another zone than the next machine's: {by_zone[0].detail}"
        text = f"Wait, or use one group per zone in place of {group_id}, so that the zone can be chosen."
        return remedy(by_zone[0].reason, (CulpritKind.GROUP, group_id), text, cause=cause)
    if changes is None or not (changes or first):
        return None
    if first is None:
        return remedy(reasons[0].reason, (CulpritKind.POD, pod.key), _to_take(changes, spot, another), changes, cause)
    return first if not changes else _held_besides(first, changes, pod, cause)


def _nodes_for_all_like(pod: Pod, template: Template | None, ended: ExplainedPass) -> int:
    """Return how many nodes of a group the waiting pods of the pod's class need; at least 1."""
    plan = ended.report.scale_up.plan
    waiting = () if plan is None else (*plan.remaining, *plan.awaiting)
    pods = [other for other in waiting if other.cls is pod.cls]
    if template is None or not pods:
        return 1
    return max(1, estimate(ended.simulated, template, pod_groups(pods), len(pods), topology_fallback=True).nodes)


def _held_besides(first: Remedy, changes: Sequence[AnyChange], pod: Pod, cause: str) -> Remedy:
    """Return what makes a group take a pod that it rejects while it may not grow either; the pod's own fault leads."""
    text = f"{sentence(told(changes, pod.key))} {first.text}"
    culprit = first.culprit.kind, first.culprit.name
    return remedy(first.code, culprit, text, (*first.changes, *changes), cause)


def _to_take(changes: Sequence[AnyChange], spot: Spot, another: str) -> str:
    """Return the instruction that makes a group take a pod, and names another group that would do as well."""
    words = told(changes, spot.pod.key)
    if all(isinstance(change, CreateClaim | CreateStorageClass) for change in changes):
        return sentence(words)
    return sentence(f"{words} so that {spot.place} takes it{another}")


def _or_another_group(changes: Sequence[AnyChange], spot: Spot) -> str:
    if not changes:
        return ""
    limits = [change for change in changes if isinstance(change, LimitRequest)]
    if len(limits) == len(changes):
        absent = [resource_name(limit.resource) for limit in limits if limit.drops]
        return f", or add a group that has {joined(absent)}" if absent else ", or add a group with larger machines"
    if all(isinstance(change, AddToleration) for change in changes):
        return f", or add a group without th{'is taint' if len(changes) == 1 else 'ese taints'}"
    keys = {change.topology_key for change in changes if isinstance(change, AllowSkew)}
    keys |= {key for key in avoided_keys(spot) if _only_apart(changes)}
    return f", or add a group {in_another(keys.pop())}" if len(keys) == len(changes) == 1 else ""


def _only_apart(changes: Sequence[AnyChange]) -> bool:
    return all(isinstance(change, DropFromPod) and change.field is PodField.POD_ANTI_AFFINITY for change in changes)


def _like_a_group(pod: Pod, groups: Sequence[tuple[str, Skipped | None]], ended: ExplainedPass) -> Remedy | None:
    """Return the nearest group that lacks only the labels which the pod or its volume requires."""
    trial = ended.simulated.trial
    for group_id, skipped in groups:
        template = ended.report.templates.get(group_id)
        if template is None or skipped is not None:
            continue
        ended.check()
        with trial.fork():
            spot = Spot(ended, pod, trial.add(template, 1)[0], group_id)
            reasons = spot.placer.why(pod.cls, spot.position)
            labels = _labels_to_have(spot, reasons)
            cause = cause_of(reasons, spot) if labels else ""
        if labels and _takes(
            msgspec.structs.replace(template.node, labels={**template.node.labels, **labels}), pod, ended
        ):
            change = AddGroup(like=group_id, labels=labels)
            text, culprit = sentence(change.told()), (CulpritKind.POD, pod.key)
            return remedy(reasons[0].reason, culprit, text, [change], cause)
    return None


def _labels_to_have(spot: Spot, reasons: Sequence[Rejection]) -> dict[str, str]:
    """Return the labels that the pod and its volumes require and the node lacks; none if another filter fails too."""
    if not {rejection.reason for rejection in reasons} <= _BY_LABELS or misspelt(spot.cls, spot.ended):
        return {}
    stored = storage_labels(spot)
    labels = spot.node.labels
    asked = {
        label.key: label.values[0] for label in wanted_labels(spot.cls) if labels.get(label.key) not in label.values
    }
    asked |= {} if stored is None else stored[1]
    if HOSTNAME in asked:
        return {}
    return {key: value for key, value in asked.items() if labels.get(key) != value}


def _takes(node: Node, pod: Pod, ended: ExplainedPass) -> bool:
    trial = ended.simulated.trial
    with trial.fork():
        return ended.simulated.fits(pod.cls, trial.add(Template(node), 1)[0])


def onto_nodes(pod: Pod, ended: ExplainedPass, nodes: Sequence[int], code: str | None = None) -> Iterator[Remedy]:
    """Yield the changes that existing nodes need to take the pod; with `code` None, why each node rejects it."""
    for position in nodes[:_MOST_NODES]:
        ended.check()
        spot = Spot(ended, pod, position)
        changes = changes_to_fit(spot)
        if changes:
            rejections = spot.placer.why(pod.cls, position)
            reason, name = rejections[0].reason, spot.trial.name(position)
            culprit = (CulpritKind.NODE, name) if reason is NoFit.UNSCHEDULABLE else (CulpritKind.POD, pod.key)
            text = told_for_node(changes, spot, pod.key)
            yield remedy(code or reason, culprit, text, changes, cause_of(rejections, spot))


def beyond(remedies: Iterator[Remedy], pod: Pod, ended: ExplainedPass, reach: Reach) -> Iterator[Remedy]:
    """Yield the remedies together with a remedy for room: the pod fits no node and no group yet."""
    nearest = next(_fits(pod, ended, reach))
    for first in remedies:
        alone = first.code == Waiting.DAEMONSET or not first.changes or first.changes == nearest.changes
        yield first if alone else together([nearest], first)
