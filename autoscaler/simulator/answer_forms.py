"""Fills the forms of `simulator.answer` from a finished pass."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from autoscaler.explain.answer import owner_of
from autoscaler.explain.time_left import time_left_s, unneeded_since
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects import quantity
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.observe.gang_summary import gang_statuses
from autoscaler.observe.pod_summary import pod_statuses
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import Advice
from autoscaler.reasons import PodVerdict, ScaleDownResult, ScaleUpResult, Waiting
from autoscaler.sandbox.recorded_cloud import CloudCall, CloudVerb
from autoscaler.scaledown.plan import Removal
from autoscaler.scaledown.replacement import Replacement
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scheduling.deferred_resizes import DeferredResize
from autoscaler.simulator.answer import (
    CloudDelete,
    Cost,
    GangAnswer,
    HeldPods,
    HelpedPods,
    LeavingNode,
    NotHelped,
    OptionForm,
    PreferredGroup,
    Reasons,
    ReplacementAnswer,
    RunAnswer,
    SizeChange,
    StatusForm,
    StayingNode,
    StuckPods,
    UnneededNode,
    WaitingPods,
    WaitingResize,
)


def run_answer(run: int, ended: EndedPass, calls: Sequence[CloudCall], targets: Mapping[str, int]) -> RunAnswer:
    """Return the answer of one run. `calls` are the calls of its pass; `targets` are the sizes after them."""
    report = ended.report
    plan = report.scale_up.plan
    played = None if plan is None or not plan.rounds else plan.rounds[0]
    options = [] if plan is None else [option for round_ in plan.rounds for option in round_.options]
    return RunAnswer(
        run=run,
        at=rfc3339(report.now.wall),
        end=report.end.value,
        error=report.error,
        scale_up_error=report.scale_up.error,
        pods_needing_scale_up=_keys(report.pods.unschedulable),
        scale_up_options=[_option(option) for option in options],
        chosen_option="" if played is None or played.chosen is None else played.chosen.group.id,
        scale_ups=_changes(calls, CloudVerb.INCREASE),
        target_decreases=_changes(calls, CloudVerb.DECREASE_TARGET),
        scale_up_result=_result(report, report.scale_up.result, ScaleUpResult.NOT_TRIED),
        pods_triggered_scale_up=[] if plan is None else _keys(plan.triggered),
        pods_remain_unschedulable=[] if plan is None else _keys(plan.remaining),
        pods_await_evaluation=[] if plan is None else _keys(plan.awaiting),
        no_scale_up_reasons={} if plan is None else _messages(plan),
        unneeded_nodes=sorted(removal.node.name for removal in report.scale_down.unneeded),
        unremovable={
            name: msgspec.convert(unremovable, StayingNode, from_attributes=True)
            for name, unremovable in sorted(report.scale_down.unremovable.items())
        },
        scale_down_result=_result(report, report.scale_down.result, ScaleDownResult.NOT_TRIED),
        deleted_empty=_leaving(report.scale_down.deletions.empty),
        deleted_drain=_leaving(report.scale_down.deletions.drained),
        replacements=[_replacement(replacement) for replacement in report.replacements.all],
        deferred_resizes=[_resize(resize) for resize in report.deferred_resizes],
        target_sizes=dict(targets),
        expander_answers=[] if plan is None else list(plan.answers),
        conditions_set=[
            StatusForm(
                kind=change.kind,
                object=change.key,
                type=condition.type,
                status=condition.status,
                reason=condition.reason,
                message=condition.message,
            )
            for change in report.status_changes
            for condition in change.conditions
        ],
        gangs=[
            msgspec.convert(gang, GangAnswer, from_attributes=True)
            for gang in (gang_statuses(report, pod_statuses(report)) if report.gangs else ())
        ],
        reasons=_reasons(ended),
        cost=_cost(report, targets),
        timings=dict(report.timings),
    )


def _resize(resize: DeferredResize) -> WaitingResize:
    lacks = {resource: quantity.text(resource, amount) for resource, amount in sorted(resize.lacks.items())}
    return WaitingResize(pod=resize.pod.key, node=resize.node, lacks=lacks)


def _replacement(replacement: Replacement) -> ReplacementAnswer:
    return ReplacementAnswer(
        nodes=list(replacement.nodes),
        trigger=replacement.trigger,
        stage=replacement.stage,
        bought={purchase.group: purchase.count for purchase in replacement.bought},
        hold=replacement.hold,
        detail=replacement.detail,
        price_before=replacement.price_before,
        price_after=replacement.price_after,
        disturbance=replacement.disturbance,
    )


def deletes_in(calls: Iterable[CloudCall], but_for: Collection[str] = ()) -> list[CloudDelete]:
    """Return the deletions among the calls that took effect, except those of the nodes in `but_for`."""
    deletes = [
        CloudDelete(group=call.group, id=node.provider_id)
        for call in calls
        if call.verb is CloudVerb.DELETE and call.delta < 0
        for node in call.nodes
        if node.name not in but_for
    ]
    return sorted(deletes, key=lambda delete: (delete.group, delete.id))


def _result(report: PassReport, result: ScaleUpResult | ScaleDownResult | None, not_tried: str) -> str:
    """Return the result as Cluster Autoscaler's status has it; none if the pass ended before it had one."""
    if result is not None:
        return result.value
    return "" if report.registry is None else not_tried


def _leaving(removals: Iterable[Removal]) -> list[LeavingNode]:
    return [
        LeavingNode(node=removal.node.name, group=removal.group, evicted_pods=_keys(removal.pods))
        for removal in _by_node(removals)
    ]


def _by_node(removals: Iterable[Removal]) -> list[Removal]:
    return sorted(removals, key=lambda removal: removal.node.name)


def _changes(calls: Iterable[CloudCall], verb: CloudVerb) -> list[SizeChange]:
    by_group: dict[str, int] = defaultdict(int)
    for call in calls:
        if call.verb is verb and call.delta:
            by_group[call.group] += call.delta
    return [SizeChange(group=group, increase=delta) for group, delta in sorted(by_group.items())]


def _option(option: Option) -> OptionForm:
    return OptionForm(
        group=option.group.id,
        node_count=option.nodes,
        pods=_keys(option.pods),
        similar_groups=sorted(option.similar),
    )


def _messages(plan: ScaleUpPlan) -> dict[str, NotHelped]:
    skipped = {skip.group: [skip.message] for skip in plan.skipped}
    by_class = {
        cls: NotHelped(
            rejected={group: [rejection.message for rejection in rejections] for group, rejections in groups.items()},
            skipped=skipped,
        )
        for cls, groups in plan.rejected.items()
    }
    nothing = NotHelped(skipped=skipped)
    return {pod.key: by_class.get(pod.cls, nothing) for pod in plan.remaining}


def _reasons(ended: EndedPass) -> Reasons:
    report = ended.report
    waiting: dict[Waiting, list[str]] = defaultdict(list)
    for key, reason in report.pods.waiting.items():
        waiting[reason].append(key)
    plan = report.scale_up.plan
    statuses = {f"{status.namespace}/{status.name}": status for status in pod_statuses(report)}
    held: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, status in statuses.items():
        if key not in report.pods.waiting and status.verdict not in (PodVerdict.HELPED, PodVerdict.NO_GROUP_FITS):
            held[status.verdict, status.detail].append(key)
    elsewhere = {key for keys in held.values() for key in keys}
    full = {} if plan is None else {key: why for key, why in plan.held.items() if why is PodVerdict.NO_GROUP_FITS}
    stuck = () if plan is None else (*plan.remaining, *(pod for pod in report.pods.unschedulable if pod.key in full))
    owner_by_pod = {} if report.view is None else {pod.key: owner_of(pod.cls) for pod in report.view.pending}

    def owners(keys: Iterable[str]) -> dict[str, int]:
        # Room that is kept free has pods of its own. They have no owner.
        return dict(sorted(Counter(owner_by_pod.get(key) or key for key in keys).items()))

    return Reasons(
        waiting=[
            WaitingPods(reason=reason, pods=sorted(keys), owners=owners(keys))
            for reason, keys in sorted(waiting.items())
        ],
        helped=[] if plan is None else _helped(plan, elsewhere),
        unschedulable=[]
        if plan is None
        else _stuck(plan, [pod for pod in stuck if pod.key not in elsewhere], report.advice),
        held=[
            HeldPods(
                reason=why,
                detail=detail,
                pods=sorted(keys),
                owners=owners(keys),
                advice=next((statuses[key].advice for key in sorted(keys)), None),
            )
            for (why, detail), keys in sorted(held.items())
        ],
        skipped_groups=[] if plan is None else list(plan.skipped),
        preferred=[] if plan is None else _preferred(plan),
        unneeded=[_unneeded(removal, ended) for removal in _by_node(report.scale_down.unneeded)],
    )


def _preferred(plan: ScaleUpPlan) -> list[PreferredGroup]:
    """Return the groups that grow because pods prefer them, each once for every reason."""
    whys = {
        (step.preference.group, step.preference.text): None
        for round_ in plan.rounds
        for step in round_.steps
        if step.preference is not None and round_.chosen is not None
        if step.preference.group == round_.chosen.group.id
    }
    return [PreferredGroup(group=group, why=why) for group, why in whys]


def _unneeded(removal: Removal, ended: EndedPass) -> UnneededNode:
    name, now = removal.node.name, ended.report.now
    since = unneeded_since(ended, name) or now
    group = ended.view.groups.get(removal.group)
    return UnneededNode(
        node=name,
        group=removal.group,
        since=rfc3339(now.wall - (now.mono - since.mono)),
        time_left_s=time_left_s(ended, removal, None, group, name),
        utilization=removal.utilization,
        pods_to_move=_keys(removal.pods),
    )


def _cost(report: PassReport, targets: Mapping[str, int]) -> Cost | None:
    groups = () if report.view is None else report.view.groups.all
    prices = {group.id: group.node_price for group in groups if group.node_price is not None}
    if not prices:
        return None
    before = {group.id: group.target_size for group in groups}
    return Cost(
        per_hour_before=_priced(prices, before),
        per_hour_after=_priced(prices, targets),
        unpriced_groups=sorted(before.keys() - prices.keys()),
    )


def _priced(prices: Mapping[str, float], sizes: Mapping[str, int]) -> float:
    return round(math.fsum(price * sizes.get(group, 0) for group, price in prices.items()), 6)


def _helped(plan: ScaleUpPlan, elsewhere: Collection[str]) -> list[HelpedPods]:
    return [
        HelpedPods(owner=owner_of(cls), groups=[increase.group for increase in round_.increases], pods=_keys(pods))
        for round_ in plan.rounds
        for cls, pods in _by_class(pod for pod in round_.helped if pod.key not in elsewhere).items()
    ]


def _stuck(plan: ScaleUpPlan, stuck: Iterable[Pod], advice: Mapping[PodClass, Advice]) -> list[StuckPods]:
    return [
        StuckPods(
            owner=owner_of(cls),
            pods=_keys(pods),
            rejected={group: list(reasons) for group, reasons in plan.rejected.get(cls, {}).items()},
            advice=advice.get(cls),
        )
        for cls, pods in _by_class(stuck).items()
    ]


def _by_class(pods: Iterable[Pod]) -> dict[PodClass, list[Pod]]:
    by_class: dict[PodClass, list[Pod]] = defaultdict(list)
    for pod in pods:
        by_class[pod.cls].append(pod)
    return by_class


def _keys(pods: Iterable[Pod]) -> list[str]:
    return sorted(pod.key for pod in pods)
