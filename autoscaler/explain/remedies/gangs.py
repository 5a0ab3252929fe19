"""What would let a gang start that is bought nothing."""

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.changes import AnyChange, ResizeGroup, sentence, told
from autoscaler.explain.remedies.groups import more_nodes
from autoscaler.explain.remedies.remedy import CulpritKind, Remedy, remedy
from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import Pod
from autoscaler.reasons import PodVerdict
from autoscaler.scaleup.estimator import Estimate, estimate, pod_groups
from autoscaler.scaleup.gangs import ShortGang

_MOST_GROUPS = 20


def gang_remedy(pod: Pod, ended: ExplainedPass) -> Remedy:
    """Return what would let the gang of a pod start: more pods, or a larger group that takes all that it lacks."""
    plan = ended.report.scale_up.plan
    name = "" if pod.cls.gang is None else pod.cls.gang.key
    short = next(gang for gang in (() if plan is None else plan.short_gangs) if gang.name == name)
    cause = f"belongs to gang {short.name} ({short.figures})"
    culprit = (CulpritKind.POD, pod.key)
    if short.incomplete:
        text = "Wait until all its pods exist and none is held back, or lower the minimum of the gang."
        return remedy(PodVerdict.GANG_INCOMPLETE, culprit, text, cause=cause)
    best: tuple[int, str, list[AnyChange]] | None = None
    lacking = [other for other in ended.report.pods.unschedulable if _of(other) == name][: short.missing]
    for group in ended.view.groups.all[:_MOST_GROUPS]:
        ended.check()
        found = _alone(group.id, lacking, ended)
        if found is None or len(found.pods) < short.missing or not _in_domain(group.id, found, short, ended):
            continue
        if best is None or found.nodes < best[0]:
            best = found.nodes, group.id, _room_for(found.nodes, group.id, ended)
    if best is None or not best[2]:
        text = f"Make more of what it asks for available, or lower the minimum of the gang to {short.possible}."
        return remedy(PodVerdict.GANG_TOO_LARGE, culprit, text, cause=cause)
    _, group_id, changes = best
    return remedy(PodVerdict.GANG_TOO_LARGE, (CulpritKind.GROUP, group_id), sentence(told(changes)), changes, cause)


def _in_domain(group_id: str, found: Estimate, short: ShortGang, ended: ExplainedPass) -> bool:
    """Whether so many new nodes of a group share what the nodes of a gang have to share."""
    if not short.sharing:
        return True
    if short.sharing == HOSTNAME:
        return found.nodes == 1 and short.home is None
    template = ended.report.templates[group_id]
    value = template.node.labels.get(short.sharing)
    return value is not None and template.zones is None and short.home in (None, value)


def _of(pod: Pod) -> str:
    return "" if pod.cls.gang is None else pod.cls.gang.key


def _alone(group_id: str, pods: list[Pod], ended: ExplainedPass) -> Estimate | None:
    """Return how many nodes of a group, as many as it takes, take the pods."""
    template = ended.report.templates.get(group_id)
    if template is None:
        return None
    placer = ended.simulated
    with placer.trial.fork():
        position = placer.trial.add(template, 1)[0]
        fitting = [group for group in pod_groups(pods) if placer.fits(group.cls, position)]
    return estimate(placer, template, fitting, len(pods), topology_fallback=True) if fitting else None


def _room_for(nodes: int, group_id: str, ended: ExplainedPass) -> list[AnyChange]:
    """Return what allows a group so many more nodes."""
    group = ended.view.groups.by_id[group_id]
    target = ended.registry.targets.get(group_id, group.target_size)
    changes: list[AnyChange] = []
    if target + nodes > group.max_size:
        changes.append(ResizeGroup(group=group_id, max=target + nodes))
    limit = ended.config.limits.max_nodes_total
    flag = more_nodes(nodes, ended)
    if limit > 0 and int(getattr(flag.changes[0], "value", 0)) > limit:
        changes += flag.changes
    return changes
