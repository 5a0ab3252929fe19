"""Explains a node group: its state, what it offered, and why it grew or did not."""

from collections import defaultdict
from collections.abc import Sequence

from autoscaler.loop.passing import Pass
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.pod import PodClass
from autoscaler.observe.reason_table import TABLE
from autoscaler.reasons import ScaleUpResult
from autoscaler.registry.backoff import backed_off
from autoscaler.registry.buckets import Buckets
from autoscaler.scaleup.plan import Resized, ScaleUpPlan
from autoscaler.simulator.answer import owner_of
from autoscaler.simulator.explain_pod import left_out
from autoscaler.simulator.explanation import (
    EXAMPLES,
    BackoffForm,
    GroupExplanation,
    GroupVerdict,
    LeftOut,
    Offer,
    RejectedPods,
    Sizes,
)
from autoscaler.snapshot.groups import Group


def explain_group(target: str, group: Group, p: Pass) -> GroupExplanation:
    """Explain one node group of the view."""
    report, plan = p.report, p.report.scale_up
    tried = [one for one in report.increases if one.group == group.id]
    increase = sum(one.after - one.before for one in tried)
    error = next((one.error.message for one in tried if one.error is not None), "")
    offers = [] if plan is None else _offers(plan, group.id)
    skipped = None if plan is None else left_out(next((one for one in plan.skipped if one.group == group.id), None))
    rejected = [] if plan is None else _rejected(plan, group.id)
    entry = p.remembered.templates.entries.get(group.id)
    sizes = _sizes(p, group, tried)
    verdict = _verdict(increase, error, offers, skipped, rejected)
    return GroupExplanation(
        target=target,
        verdict=verdict,
        message=_message(verdict, sizes, increase, error, offers, skipped, p),
        sizes=sizes,
        healthy=None if report.registry is None else report.registry.groups[group.id].healthy,
        backoff=_backoff(p, group.id),
        template_source=None if entry is None else entry.source,
        template_fault=p.remembered.templates.faults.get(group.id, ""),
        increase=increase,
        error=error,
        skipped=skipped,
        offers=offers,
        rejected=rejected,
    )


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
    p: Pass,
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
            result = p.report.scale_up_result or ScaleUpResult.NOT_TRIED
            return p.report.error or TABLE[ScaleUpResult][result].text


def _sizes(p: Pass, group: Group, tried: Sequence[Resized]) -> Sizes:
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


def _backoff(p: Pass, group_id: str) -> BackoffForm | None:
    now = p.report.now
    pause = backed_off(p.remembered.registry.backoffs, group_id, now)
    if pause is None:
        return None
    left_s = pause.until.mono - now.mono
    return BackoffForm(
        until=rfc3339(now.wall + left_s), left_s=round(left_s, 3), code=pause.error.code, message=pause.error.message
    )


def _offers(plan: ScaleUpPlan, group_id: str) -> list[Offer]:
    return [
        Offer(
            round=number,
            nodes=option.nodes,
            pods=len(option.pods),
            similar_groups=sorted(option.similar),
            chosen=each.chosen is not None and each.chosen.group.id == group_id,
        )
        for number, each in enumerate(plan.rounds)
        for option in each.options
        if option.group.id == group_id
    ]


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
