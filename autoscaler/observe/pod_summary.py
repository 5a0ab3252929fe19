"""Summarises the outcome of every pending pod in one pass: a typed verdict, and reasons per group if no group helps.

Pods of one class share their reasons: the very same tuple, so that ten thousand replicas cost one explanation.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.observe import reason_table
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.observe.status import Advice, GroupReason, PodState, PodStatus
from autoscaler.reasons import PodVerdict, Rejection, ScaleUpResult, Skipped, Waiting
from autoscaler.scaleup.plan import Resized, Round, ScaleUpPlan


class PodOutcome(msgspec.Struct, frozen=True):
    """The common outcome of several pods."""

    verdict: str
    """A `Waiting` or a `PodVerdict`; a `ScaleUpResult` if the pass ended before it judged single pods."""
    detail: str = ""
    reasons: tuple[GroupReason, ...] = ()
    planned_group: str | None = None

    @property
    def stuck(self) -> bool:
        """Whether the pods stay pending until something changes."""
        return self.verdict in _STUCK


_WAITING = {reason: PodOutcome(reason.value, reason_table.TABLE[Waiting][reason].text) for reason in Waiting}
_HELD_BACK = {
    held_reason: PodOutcome(held_reason.value, reason_table.TABLE[type(held_reason)][held_reason].text)
    for held_reason in (PodVerdict.NEXT_PASS, PodVerdict.NOT_CHOSEN, ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL)
}


_TEMPLATE_HASH = "pod-template-hash"
_ON_THEIR_WAY = frozenset((Waiting.FITS, Waiting.NOMINATED, Waiting.TAKES_HEADROOM, PodVerdict.HELPED))
_STUCK = frozenset(
    (
        Waiting.DAEMONSET,
        PodVerdict.NO_GROUP_FITS,
        PodVerdict.NOT_CHOSEN,
        PodVerdict.GANG_TOO_LARGE,
        ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL,
        ScaleUpResult.NO_OPTIONS,
        ScaleUpResult.ERROR,
    )
)


def pod_statuses(report: PassReport, etas: Mapping[str, float] | None = None) -> tuple[PodStatus, ...]:
    """Return one status per pod of the view without a node, in the view's order.

    `etas` holds the known seconds until pods are ready, by pod key.
    """
    etas = etas or {}
    owners: dict[PodClass, str | None] = {}
    workloads: dict[PodClass, str | None] = {}
    statuses = []
    for pod, outcome in pod_outcomes(report):
        key, cls = pod.key, pod.cls
        if cls not in owners:
            owners[cls] = None if cls.owner is None else f"{cls.owner.kind} {cls.owner.name}"
            workloads[cls] = workload_of(cls)
        advice = report.advice.get(cls) if outcome.stuck else None
        statuses.append(
            PodStatus(
                namespace=cls.namespace,
                name=pod.name,
                pending_since_at=pod.created,
                verdict=outcome.verdict,
                state=_state(outcome, advice),
                detail=outcome.detail,
                owner=owners[cls],
                workload=workloads[cls],
                reasons=outcome.reasons,
                advice=advice,
                planned_group=outcome.planned_group or report.pods.awaiting.get(key),
                eta_s=etas.get(key),
            )
        )
    return tuple(statuses)


def workload_of(cls: PodClass) -> str | None:
    """Return kind and name of the workload by which people know the pods of a class; None for pods without a
    controller.
    """
    if cls.owner is None:
        return None
    kind, name, template = cls.owner.kind, cls.owner.name, cls.labels.get(_TEMPLATE_HASH)
    if kind == "ReplicaSet" and template and name.endswith(f"-{template}"):
        return f"Deployment {name.removesuffix(f'-{template}')}"
    return f"{kind} {name}"


def _state(outcome: PodOutcome, advice: Advice | None) -> PodState:
    if outcome.stuck:
        return PodState.WAITING if advice is not None and advice.waits else PodState.STUCK
    return PodState.ON_ITS_WAY if outcome.verdict in _ON_THEIR_WAY else PodState.WAITING


def pod_outcomes(report: PassReport) -> Iterator[tuple[Pod, PodOutcome]]:
    """Yield each pod of the view without a node, with its outcome, in the view's order.

    Pods of a class share their outcome if no group helps them.
    """
    view, plan = report.view, report.scale_up.plan
    if view is None:
        return
    planned = {} if plan is None else _planned(report, plan)
    rejected: dict[PodClass, PodOutcome] = {}
    remaining = {} if plan is None else {pod.key: pod.cls for pod in plan.remaining}
    remaining_classes = set(remaining.values())
    held = {} if plan is None else plan.held
    short = () if plan is None else plan.short_gangs
    gangs = {gang.name: PodOutcome(gang.reason.value, str(gang)) for gang in short}
    default_outcome = _default_outcome(report)
    for pod in view.pending:
        key, cls = pod.key, pod.cls
        if (waiting := report.pods.waiting.get(key)) is not None:
            outcome = _WAITING[waiting]
        elif plan is not None and (key in remaining or held.get(key) is PodVerdict.NO_GROUP_FITS):
            if cls not in rejected:
                rejected[cls] = _rejected(plan, cls, plan.skipped if cls in remaining_classes else plan.full)
            outcome = rejected[cls]
        elif (held_reason := held.get(key)) is not None:
            outcome = gangs.get(cls.gang.key if cls.gang else "") or _HELD_BACK[held_reason]
        else:
            outcome = planned.get(key, default_outcome)
        yield pod, outcome


def _planned(report: PassReport, plan: ScaleUpPlan) -> Mapping[str, PodOutcome]:
    """Return the outcome of the pods for which nodes are planned, by pod key."""
    by_group: dict[str, Resized] = {}
    for increase in report.increases:
        if increase.after > increase.before or increase.group not in by_group:
            by_group[increase.group] = increase
    outcomes: dict[str, PodOutcome] = {}
    for round_ in plan.rounds:
        if round_.chosen is not None and round_.increases:
            outcomes.update(
                dict.fromkeys(
                    (pod.key for pod in round_.helped), _round_outcome(round_, round_.chosen.group.id, by_group)
                )
            )
    return outcomes


def _round_outcome(round_: Round, chosen: str, increases: Mapping[str, Resized]) -> PodOutcome:
    groups = [chosen, *(increase.group for increase in round_.increases if increase.group != chosen)]
    tried = [increases[group] for group in groups if group in increases]
    grown_group = next(
        (resized.group for resized in tried if resized.error is None or resized.after > resized.before), None
    )
    if grown_group is not None:
        return PodOutcome(PodVerdict.HELPED.value, planned_group=grown_group)
    error = next((resized.error for resized in tried if resized.error is not None), None)
    if error is not None:
        return PodOutcome(ScaleUpResult.ERROR.value, error.message)
    return PodOutcome(ScaleUpResult.NOT_TRIED.value, "the increase of another group failed before")


def _rejected(plan: ScaleUpPlan, cls: PodClass, skipped_groups: Sequence[Skipped]) -> PodOutcome:
    rejected = (
        GroupReason(group, rejections[0].reason.value, "; ".join(map(_rejection_text, rejections)))
        for group, rejections in plan.rejected.get(cls, {}).items()
        if rejections
    )
    skipped = (GroupReason(group.group, group.reason.value, group.detail or group.message) for group in skipped_groups)
    reasons = (*rejected, *skipped)
    if plan.error and not reasons:
        return PodOutcome(ScaleUpResult.ERROR.value, plan.error)
    requests = ", ".join(f"{name} {quantity.text(name, value)}" for name, value in cls.requests.items() if value)
    return PodOutcome(PodVerdict.NO_GROUP_FITS.value, f"requests {requests}" if requests else "", reasons)


def _rejection_text(rejection: Rejection) -> str:
    return f"{rejection.message} ({rejection.detail})" if rejection.detail else rejection.message


def _default_outcome(report: PassReport) -> PodOutcome:
    """Return the outcome of pods that the pass does not mention."""
    plan = report.scale_up.plan
    if plan is not None and plan.capped_by_nodes_total:
        return _HELD_BACK[ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL]
    if plan is not None and plan.error:
        return PodOutcome(ScaleUpResult.ERROR.value, plan.error)
    if plan is not None:
        return _HELD_BACK[PodVerdict.NEXT_PASS]
    if report.end is not PassEnd.COMPLETE:
        return PodOutcome(ScaleUpResult.NOT_TRIED.value, report.error or f"the pass ended early: {report.end}")
    result = report.scale_up.result or ScaleUpResult.NOT_TRIED
    if result is ScaleUpResult.NO_OPTIONS:  # without a plan: the rules of 1.31 call this a full cluster
        return _HELD_BACK[ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL]
    return PodOutcome(result.value, reason_table.TABLE[ScaleUpResult][result].text)
