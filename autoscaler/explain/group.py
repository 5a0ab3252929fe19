"""Explains a node group: its state, its options, and why it grew or did not."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from autoscaler.explain.answer import (
    EXAMPLES,
    BackoffForm,
    GroupExplanation,
    GroupVerdict,
    Offer,
    RejectedPods,
    Sizes,
    owner_of,
)
from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.options import offers
from autoscaler.explain.pod import left_out
from autoscaler.explain.remedies.effort import shortlist
from autoscaler.explain.remedies.groups import chosen_instead, held_group, paused
from autoscaler.explain.remedies.passes import ended_early, held_back, next_pass
from autoscaler.explain.remedies.pods import into_group
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy
from autoscaler.explain.remedies.waiting import waiting_remedies
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.pod import PodClass
from autoscaler.observe.reason_table import TABLE
from autoscaler.reasons import PodVerdict, ScaleUpResult, Skipped
from autoscaler.registry.backoff import backed_off
from autoscaler.registry.buckets import Buckets
from autoscaler.scaleup.plan import Resized, ScaleUpPlan
from autoscaler.snapshot.groups import Group


def explain_group(target: str, group: Group, ended: ExplainedPass) -> GroupExplanation:
    """Explain one node group of the view."""
    report, plan, memory = ended.report, ended.report.scale_up.plan, ended.memory
    case = _case(group, ended)
    rounds = {offer.round for offer in case.offers}
    rivals = [offer for offer in offers(plan, lambda option: option.group.id != group.id) if offer.round in rounds]
    template = memory.templates.entries.get(group.id)
    sizes = _sizes(ended, group, case.increases)
    remedies = shortlist(_remedies(case, ended))
    return GroupExplanation(
        target=target,
        verdict=case.verdict,
        message=_message(case, sizes, ended),
        sizes=sizes,
        healthy=None if report.registry is None else report.registry.groups[group.id].healthy,
        backoff=_backoff(ended, group.id),
        template_source=None if template is None else template.source,
        template_fault=memory.templates.faults.get(group.id, ""),
        increase=case.increase,
        error=case.error,
        skipped=left_out(case.skipped),
        offers=case.offers,
        rivals=rivals,
        rejected=case.rejected,
        remedy=remedies[0] if remedies else None,
        alternatives=remedies[1:],
    )


class _GroupCase(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions of a pass about one group."""

    group: Group
    increases: list[Resized]
    skipped: Skipped | None
    """Why the group may not grow."""
    offers: list[Offer]
    rejected: list[RejectedPods]

    @property
    def increase(self) -> int:
        """The number of machines requested successfully."""
        return sum(resized.after - resized.before for resized in self.increases)

    @property
    def error(self) -> str:
        """Why the resize of the group failed."""
        return next((resized.error.message for resized in self.increases if resized.error is not None), "")

    @property
    def verdict(self) -> GroupVerdict:
        """The outcome of the scale-up for the group."""
        if self.increase > 0:
            return GroupVerdict.GROWS
        if self.error:
            return GroupVerdict.FAILED
        if self.offers:
            return GroupVerdict.NOT_CHOSEN
        if self.skipped is not None:
            return GroupVerdict.LEFT_OUT
        return GroupVerdict.NO_POD_FITS if self.rejected else GroupVerdict.NOT_ASKED


def _case(group: Group, ended: ExplainedPass) -> _GroupCase:
    plan = ended.report.scale_up.plan
    skipped = () if plan is None else plan.skipped
    return _GroupCase(
        group=group,
        increases=[resized for resized in ended.report.increases if resized.group == group.id],
        skipped=next((skip for skip in skipped if skip.group == group.id), None),
        offers=offers(plan, lambda option: option.group.id == group.id),
        rejected=[] if plan is None else _rejected(plan, group.id),
    )


def _remedies(case: _GroupCase, ended: ExplainedPass) -> Iterator[Remedy]:
    """Yield what would make the group grow."""
    plan = ended.report.scale_up.plan
    match case.verdict:
        case GroupVerdict.FAILED:
            yield paused(Obstacle.INCREASE_FAILED, case.group.id, ended, case.error)
        case GroupVerdict.LEFT_OUT if case.skipped is not None:
            yield held_group(case.skipped, ended)
        case GroupVerdict.NO_POD_FITS if plan is not None:
            yield from _fitting(case.group.id, plan, ended)
        case GroupVerdict.NOT_CHOSEN if plan is not None:
            yield _chosen(case.group.id, plan, ended)
        case GroupVerdict.NOT_ASKED:
            yield from _unasked(ended)


def _fitting(group_id: str, plan: ScaleUpPlan, ended: ExplainedPass) -> Iterator[Remedy]:
    """Yield what would make a new node take each kind of waiting pod, fewest changes first."""
    pods = {pod.cls: pod for pod in plan.remaining}.values()
    remedies = [fits for pod in pods if (fits := into_group(pod, group_id, None, ended)) is not None]
    yield from sorted(remedies, key=lambda fits: len(fits.changes))
    if not remedies:
        reason = next(iter(plan.rejected.values()))[group_id][0].reason
        text = "Nothing to do: no pod that waits needs such nodes."
        yield remedy(reason, (CulpritKind.GROUP, group_id), text, cause="suits no pod that waits")


def _chosen(group_id: str, plan: ScaleUpPlan, ended: ExplainedPass) -> Remedy:
    """Return what would make the expander choose the group's first offer."""
    first = next(round_ for round_ in plan.rounds if any(option.group.id == group_id for option in round_.options))
    if first.chosen is None or first.chosen.group.id != group_id:
        return chosen_instead(group_id, first, ended.config)
    cause = "was chosen, and limits allow none of its nodes now"
    return held_back(ended) or next_pass(PodVerdict.NEXT_PASS, cause, ended)


def _unasked(ended: ExplainedPass) -> Iterator[Remedy]:
    """Yield what kept the pass from considering any group; yields nothing if no pod needs a node."""
    early = ended_early(ended)
    if early is not None:
        yield early
    elif ended.report.pods.unschedulable:
        back = held_back(ended)
        if back is not None:
            yield back
        for pod in ended.report.pods.unschedulable[:1]:
            reason = ended.report.pods.waiting.get(pod.key)
            if reason is not None:
                yield from waiting_remedies(pod, reason, ended, ())


def _message(case: _GroupCase, sizes: Sizes, ended: ExplainedPass) -> str:
    match case.verdict:
        case GroupVerdict.GROWS:
            return f"grows by {case.increase} to {sizes.target} of {sizes.max}"
        case GroupVerdict.FAILED:
            return f"could not grow: {case.error}"
        case GroupVerdict.NOT_CHOSEN:
            first, chosen = case.offers[0], any(offer.chosen for offer in case.offers)
            outcome = "chosen, but limits allow none of them" if chosen else "not chosen"
            return f"nodes offered: {first.nodes}, for pods: {first.pods}; {outcome}"
        case GroupVerdict.LEFT_OUT if case.skipped is not None:
            skipped = case.skipped
            return f"{skipped.message} ({skipped.detail})" if skipped.detail else skipped.message
        case GroupVerdict.NO_POD_FITS:
            return "a new node would take none of the pods that need one"
        case _:
            result = ended.report.scale_up.result or ScaleUpResult.NOT_TRIED
            return ended.report.error or TABLE[ScaleUpResult][result].text


def _sizes(ended: ExplainedPass, group: Group, increases: Sequence[Resized]) -> Sizes:
    state = None if ended.report.registry is None else ended.report.registry.groups[group.id]
    buckets = Buckets() if state is None else state.buckets
    before = group.target_size if state is None else state.acceptable.target
    return Sizes(
        target=increases[-1].after if increases else before,
        min=group.min_size,
        max=group.max_size,
        ready=len(buckets.ready),
        not_started=len(buckets.not_started),
        unready=len(buckets.unready) + len(buckets.suspended),
        being_deleted=len(buckets.deleted),
        unregistered=len(buckets.unregistered) + len(buckets.long_unregistered),
        upcoming=0 if state is None else state.upcoming,
    )


def _backoff(ended: ExplainedPass, group_id: str) -> BackoffForm | None:
    now = ended.report.now
    pause = backed_off(ended.memory.registry.backoffs, group_id, now)
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
