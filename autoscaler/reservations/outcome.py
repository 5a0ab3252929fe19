"""Finds out why a pass found no room for fake pods of reservations."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import ScaleUpResult, Skip, Unplaceable, Waiting
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.groups import Groups
from autoscaler.snapshot.template import Template

_SKIPS = {
    Skip.MAX_SIZE: Unplaceable.MAX_SIZE,
    Skip.BACKED_OFF: Unplaceable.BACKED_OFF,
    Skip.LIMIT: Unplaceable.LIMIT,
    Skip.ATOMIC_LIMIT: Unplaceable.LIMIT,
    Skip.NOT_READY: Unplaceable.NOT_READY,
    Skip.PAUSED: Unplaceable.HELD_BACK,
}
_RESULTS = {
    ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL: Unplaceable.MAX_NODES_TOTAL,
    ScaleUpResult.IN_COOLDOWN: Unplaceable.HELD_BACK,
    ScaleUpResult.NOT_TRIED: Unplaceable.HELD_BACK,
    ScaleUpResult.ERROR: Unplaceable.ERROR,
}
_ORDER = tuple(Unplaceable)


def unplaced(pods: Sequence[Pod], waiting: Mapping[str, Waiting], plan: ScaleUpPlan | None) -> list[Pod]:
    """Return the pods that neither fit now nor get an upcoming node."""
    coming: Collection[str] = () if plan is None else {pod.key for pod in plan.triggered}
    return [pod for pod in pods if pod.key not in coming and waiting.get(pod.key) is not Waiting.FITS]


def why(
    cls: PodClass,
    placer: Placer,
    groups: Groups,
    templates: Mapping[str, Template],
    result: ScaleUpResult | None,
    plan: ScaleUpPlan | None,
) -> Unplaceable:
    """Return why the groups that fit pods of a class do not grow; `groups` have the sizes before the pass."""
    if result in _RESULTS:
        return _RESULTS[result]
    if plan is not None and plan.capped_by_nodes_total:
        return Unplaceable.MAX_NODES_TOTAL
    skipped = {} if plan is None else {skip.group: skip.reason for skip in plan.skipped}
    grown = Counter[str]() if plan is None else Counter({increase.group: increase.delta for increase in plan.increases})
    reasons: set[Unplaceable] = set()
    for group in groups.all:
        template = templates.get(group.id)
        if template is None or not _fits(cls, placer, template):
            continue
        if group.target_size + grown[group.id] >= group.max_size:
            reasons.add(Unplaceable.MAX_SIZE)
        else:
            skip = skipped.get(group.id)
            reasons.add(Unplaceable.NOT_CHOSEN if skip is None else _SKIPS.get(skip, Unplaceable.NOT_CHOSEN))
    return min(reasons, key=_ORDER.index, default=Unplaceable.NO_FIT)


def _fits(cls: PodClass, placer: Placer, template: Template) -> bool:
    with placer.trial.fork():
        return placer.fits(cls, placer.trial.add(template, 1)[0])
