"""Summarises the outcome of every pending pod in one pass: a typed verdict, and reasons per group if no group helps.

Pods of one class share their reasons: the very same tuple, so that ten thousand replicas cost one explanation.
"""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.pod import PodClass
from autoscaler.observe import reason_table
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.observe.status import GroupReason, PodStatus
from autoscaler.reasons import PodVerdict, Rejection, ScaleUpResult, Skipped, Waiting
from autoscaler.scaleup.plan import Resized, Round, ScaleUpPlan


class PodOutcome(msgspec.Struct, frozen=True):
    """What pods of one fate have in common."""

    verdict: str
    """A `Waiting`, a `PodVerdict`, or a `ScaleUpResult` where the pass did not come to judge single pods."""
    detail: str = ""
    reasons: tuple[GroupReason, ...] = ()
    planned_group: str | None = None


_WAITING = {reason: PodOutcome(reason.value, reason_table.TABLE[Waiting][reason].text) for reason in Waiting}
_HELD = {
    why: PodOutcome(why.value, reason_table.TABLE[type(why)][why].text)
    for why in (PodVerdict.NEXT_PASS, PodVerdict.NOT_CHOSEN, ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL)
}


def pod_statuses(report: PassReport, expected: Mapping[str, float] | None = None) -> tuple[PodStatus, ...]:
    """Return one status for each pod of the view that has no node, in the view's order.

    `expected` has seconds until pods are ready, by pod key, as far as that is known.
    """
    expected = expected or {}
    view, plan = report.view, report.scale_up.plan
    if view is None:
        return ()
    planned = {} if plan is None else _planned(report, plan)
    stuck: dict[PodClass, PodOutcome] = {}
    remaining = {} if plan is None else {pod.key: pod.cls for pod in plan.remaining}
    hopeless = set(remaining.values())
    held = {} if plan is None else plan.held
    otherwise = _otherwise(report)
    owners: dict[PodClass, str | None] = {}
    statuses = []
    for pod in view.pending:
        key, cls = pod.key, pod.cls
        if (waiting := report.pods.waiting.get(key)) is not None:
            outcome = _WAITING[waiting]
        elif plan is not None and (key in remaining or held.get(key) is PodVerdict.NO_GROUP_FITS):
            if cls not in stuck:
                stuck[cls] = _stuck(plan, cls, plan.skipped if cls in hopeless else plan.full)
            outcome = stuck[cls]
        elif (why := held.get(key)) is not None:
            outcome = _HELD[why]
        else:
            outcome = planned.get(key, otherwise)
        if cls not in owners:
            owners[cls] = None if cls.owner is None else f"{cls.owner.kind} {cls.owner.name}"
        statuses.append(
            PodStatus(
                namespace=cls.namespace,
                name=pod.name,
                pending_since_at=pod.created,
                verdict=outcome.verdict,
                detail=outcome.detail,
                owner=owners[cls],
                reasons=outcome.reasons,
                planned_group=outcome.planned_group,
                eta_s=expected.get(key),
            )
        )
    return tuple(statuses)


def _planned(report: PassReport, plan: ScaleUpPlan) -> Mapping[str, PodOutcome]:
    """Return what became of the pods that the planned nodes are for, by pod key."""
    done: dict[str, Resized] = {}
    for one in report.increases:
        if one.after > one.before or one.group not in done:
            done[one.group] = one
    outcomes: dict[str, PodOutcome] = {}
    for each in plan.rounds:
        if each.chosen is not None and each.increases:
            outcomes.update(
                dict.fromkeys((pod.key for pod in each.helped), _of_round(each, each.chosen.group.id, done))
            )
    return outcomes


def _of_round(each: Round, chosen: str, done: Mapping[str, Resized]) -> PodOutcome:
    groups = [chosen, *(one.group for one in each.increases if one.group != chosen)]
    tried = [done[group] for group in groups if group in done]
    grown = next((one.group for one in tried if one.error is None or one.after > one.before), None)
    if grown is not None:
        return PodOutcome(PodVerdict.HELPED.value, planned_group=grown)
    error = next((one.error for one in tried if one.error is not None), None)
    if error is not None:
        return PodOutcome(ScaleUpResult.ERROR.value, error.message)
    return PodOutcome(ScaleUpResult.NOT_TRIED.value, "the increase of another group failed before")


def _stuck(plan: ScaleUpPlan, cls: PodClass, left_out: Sequence[Skipped]) -> PodOutcome:
    rejected = (
        GroupReason(group, found[0].reason.value, "; ".join(_sentence(one) for one in found))
        for group, found in plan.rejected.get(cls, {}).items()
        if found
    )
    skipped = (GroupReason(one.group, one.reason.value, one.detail or one.message) for one in left_out)
    reasons = (*rejected, *skipped)
    if plan.error and not reasons:
        return PodOutcome(ScaleUpResult.ERROR.value, plan.error)
    asked = ", ".join(f"{name} {quantity.text(name, value)}" for name, value in cls.requests.items() if value)
    return PodOutcome(PodVerdict.NO_GROUP_FITS.value, f"requests {asked}" if asked else "", reasons)


def _sentence(one: Rejection) -> str:
    return f"{one.message} ({one.detail})" if one.detail else one.message


def _otherwise(report: PassReport) -> PodOutcome:
    """Return what became of pods about which the pass says nothing."""
    plan = report.scale_up.plan
    if plan is not None and plan.capped_by_nodes_total:
        return _HELD[ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL]
    if plan is not None and plan.error:
        return PodOutcome(ScaleUpResult.ERROR.value, plan.error)
    if plan is not None:
        return _HELD[PodVerdict.NEXT_PASS]
    if report.end is not PassEnd.COMPLETE:
        return PodOutcome(ScaleUpResult.NOT_TRIED.value, report.error or f"the pass ended early: {report.end}")
    result = report.scale_up.result or ScaleUpResult.NOT_TRIED
    if result is ScaleUpResult.NO_OPTIONS:  # without a plan: what the rules of 1.31 call a cluster that is full
        return _HELD[ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL]
    return PodOutcome(result.value, reason_table.TABLE[ScaleUpResult][result].text)
