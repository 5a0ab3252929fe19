"""Explains a node group: its state, its options, and why it grew or did not."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from autoscaler.config.tree import Config
from autoscaler.explain.answer import (
    EXAMPLES,
    BackoffForm,
    GroupExplanation,
    GroupVerdict,
    LeftOut,
    Offer,
    RejectedPods,
    Sizes,
    owner_of,
)
from autoscaler.explain.options import offers
from autoscaler.explain.pod import left_out
from autoscaler.explain.remedies.groups import chosen_instead, held_group, paused
from autoscaler.explain.remedies.passes import ended_early, held_back, next_pass
from autoscaler.explain.remedies.pods import into_group, shortlist, waiting_remedies
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.pod import PodClass
from autoscaler.observe.reason_table import TABLE
from autoscaler.reasons import ScaleUpResult, Skipped
from autoscaler.registry.backoff import backed_off
from autoscaler.registry.buckets import Buckets
from autoscaler.scaleup.plan import Resized, ScaleUpPlan
from autoscaler.snapshot.groups import Group


def explain_group(target: str, group: Group, p: EndedPass, config: Config) -> GroupExplanation:
    """Explain one node group of the view."""
    report, plan = p.report, p.report.scale_up.plan
    tried = [one for one in report.increases if one.group == group.id]
    increase = sum(one.after - one.before for one in tried)
    error = next((one.error.message for one in tried if one.error is not None), "")
    offered = offers(plan, lambda option: option.group.id == group.id)
    rounds = {one.round for one in offered}
    rivals = [one for one in offers(plan, lambda option: option.group.id != group.id) if one.round in rounds]
    unused = None if plan is None else next((one for one in plan.skipped if one.group == group.id), None)
    skipped = left_out(unused)
    rejected = [] if plan is None else _rejected(plan, group.id)
    entry = p.memory.templates.entries.get(group.id)
    sizes = _sizes(p, group, tried)
    verdict = _verdict(increase, error, offered, skipped, rejected)
    remedies = shortlist(_remedies(verdict, group, error, unused, p, config))
    return GroupExplanation(
        target=target,
        verdict=verdict,
        message=_message(verdict, sizes, increase, error, offered, skipped, p),
        sizes=sizes,
        healthy=None if report.registry is None else report.registry.groups[group.id].healthy,
        backoff=_backoff(p, group.id),
        template_source=None if entry is None else entry.source,
        template_fault=p.memory.templates.faults.get(group.id, ""),
        increase=increase,
        error=error,
        skipped=skipped,
        offers=offered,
        rivals=rivals,
        rejected=rejected,
        remedy=remedies[0] if remedies else None,
        alternatives=remedies[1:],
    )


def _remedies(
    verdict: GroupVerdict, group: Group, error: str, skipped: Skipped | None, p: EndedPass, config: Config
) -> Iterator[Remedy]:
    """Yield what would have the group grow."""
    plan = p.report.scale_up.plan
    match verdict:
        case GroupVerdict.FAILED:
            yield paused(Obstacle.INCREASE_FAILED, group.id, p, error)
        case GroupVerdict.LEFT_OUT if skipped is not None:
            yield held_group(skipped, p, config)
        case GroupVerdict.NO_POD_FITS if plan is not None:
            pods = {pod.cls: pod for pod in plan.remaining}
            found = [one for pod in pods.values() if (one := into_group(pod, group.id, None, p, config)) is not None]
            yield from sorted(found, key=lambda one: len(one.changes))
            if not found:
                text = "no pod can be changed so that it fits; none needs such a node"
                reason = next(iter(plan.rejected.values()))[group.id][0].reason
                yield remedy(Obstacle(reason.value), CulpritKind.GROUP, group.id, text)
        case GroupVerdict.NOT_CHOSEN if plan is not None:
            rounds = [each for each in plan.rounds if any(one.group.id == group.id for one in each.options)]
            if rounds[0].chosen is not None and rounds[0].chosen.group.id == group.id:
                yield held_back(p, config) or next_pass(
                    Obstacle.NEXT_PASS, "limits allow none of its nodes now; that is tried again", p, config
                )
            else:
                yield chosen_instead(group.id, rounds[0].options, config)
        case GroupVerdict.NOT_ASKED:
            yield from _unasked(p, config)
        case _:
            return


def _unasked(p: EndedPass, config: Config) -> Iterator[Remedy]:
    """Yield what kept the pass from asking any group; nothing where no pod needs a node."""
    early = ended_early(p, config)
    if early is not None:
        yield early
    elif p.report.pods.unschedulable:
        back = held_back(p, config)
        if back is not None:
            yield back
        for pod in p.report.pods.unschedulable[:1]:
            reason = p.report.pods.waiting.get(pod.key)
            if reason is not None:
                yield from waiting_remedies(pod, reason, p, config, ())


def _verdict(
    increase: int, error: str, offers: list[Offer], skipped: LeftOut | None, rejected: list[RejectedPods]
) -> GroupVerdict:
    if increase > 0:
        return GroupVerdict.GROWS
    if error:
        return GroupVerdict.FAILED
    if offers:
        return GroupVerdict.NOT_CHOSEN
    if skipped is not None:
        return GroupVerdict.LEFT_OUT
    return GroupVerdict.NO_POD_FITS if rejected else GroupVerdict.NOT_ASKED


def _message(
    verdict: GroupVerdict,
    sizes: Sizes,
    increase: int,
    error: str,
    offers: list[Offer],
    skipped: LeftOut | None,
    p: EndedPass,
) -> str:
    match verdict:
        case GroupVerdict.GROWS:
            return f"grows by {increase} to {sizes.target} of {sizes.max}"
        case GroupVerdict.FAILED:
            return f"could not grow: {error}"
        case GroupVerdict.NOT_CHOSEN:
            outcome = "chosen, but limits allow none of them" if any(one.chosen for one in offers) else "not chosen"
            return f"nodes offered: {offers[0].nodes}, for pods: {offers[0].pods}; {outcome}"
        case GroupVerdict.LEFT_OUT if skipped is not None:
            return f"{skipped.message} ({skipped.detail})" if skipped.detail else skipped.message
        case GroupVerdict.NO_POD_FITS:
            return "a new node would take none of the pods that need one"
        case _:
            result = p.report.scale_up.result or ScaleUpResult.NOT_TRIED
            return p.report.error or TABLE[ScaleUpResult][result].text


def _sizes(p: EndedPass, group: Group, tried: Sequence[Resized]) -> Sizes:
    state = None if p.report.registry is None else p.report.registry.groups[group.id]
    buckets = Buckets() if state is None else state.buckets
    before = group.target_size if state is None else state.acceptable.target
    return Sizes(
        target=tried[-1].after if tried else before,
        min=group.min_size,
        max=group.max_size,
        ready=len(buckets.ready),
        not_started=len(buckets.not_started),
        unready=len(buckets.unready) + len(buckets.suspended),
        being_deleted=len(buckets.deleted),
        unregistered=len(buckets.unregistered) + len(buckets.long_unregistered),
        upcoming=0 if state is None else state.upcoming,
    )


def _backoff(p: EndedPass, group_id: str) -> BackoffForm | None:
    now = p.report.now
    pause = backed_off(p.memory.registry.backoffs, group_id, now)
    if pause is None:
        return None
    left_s = pause.until.mono - now.mono
    return BackoffForm(
        until=rfc3339(now.wall + left_s), left_s=round(left_s, 3), code=pause.error.code, message=pause.error.message
    )


def _rejected(plan: ScaleUpPlan, group_id: str) -> list[RejectedPods]:
    pods: dict[PodClass, list[str]] = defaultdict(list)
    for pod in plan.remaining:
        if group_id in plan.rejected.get(pod.cls, {}):
            pods[pod.cls].append(pod.key)
    return [
        RejectedPods(
            owner=owner_of(cls),
            count=len(keys),
            examples=sorted(keys)[:EXAMPLES],
            rejections=list(plan.rejected[cls][group_id]),
        )
        for cls, keys in pods.items()
    ]
