"""Summarises the report of a pass for people; a pure function, fast for thousands of nodes and pods."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.objects import quantity
from autoscaler.observe import event_texts
from autoscaler.observe.gang_summary import gang_statuses
from autoscaler.observe.headline import headline
from autoscaler.observe.node_summary import node_statuses, unjudged_node_statuses, verdicts_of
from autoscaler.observe.pod_summary import pod_statuses
from autoscaler.observe.report import PassEnd, PassReport, RemovedInstances, ReplacementReport
from autoscaler.observe.status import (
    AutoscalerState,
    BackoffStatus,
    Capacity,
    ClusterStatus,
    Condition,
    Decision,
    DecisionKind,
    GroupStatus,
    Health,
    NodeCounts,
    PassStatus,
    PauseStatus,
    Phase,
    PodStatus,
    PublishedStatus,
    RecentEvent,
    ReplacementStatus,
    ResizeStatus,
    ScaleDownActivity,
    ScaleUpActivity,
    Scope,
    TemplateSummary,
)
from autoscaler.reasons import PodVerdict, ReplacementStage, ScaleDownResult, ScaleUpResult
from autoscaler.registry.backoff import Backoff as BackedOff
from autoscaler.registry.buckets import Buckets
from autoscaler.registry.state import GroupState, Registry
from autoscaler.scaledown.pause import Pause
from autoscaler.scaledown.plan import Removal
from autoscaler.scaleup.plan import Resized, ScaleUpPlan
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.contribution import allocatable_gpus, gpu_resources
from autoscaler.snapshot.template import Template

_MOST_WORKLOADS = 3
WHOLE_PASS = "pass"
"""The phase of a whole pass."""
_NOT_CREATED_IN_TIME = "machines that never came"
_NEVER_REGISTERED = "machines that never became nodes"
_NOT_CREATED = "machines that could not be created"


def summarise(
    report: PassReport,
    before: PublishedStatus,
    *,
    number: int,
    events: tuple[RecentEvent, ...] = (),
    rules: Rules = Rules(),  # noqa: B008  # frozen
    etas: Mapping[str, float] | None = None,
) -> PublishedStatus:
    """Return the status after pass `number`, headline included; `before` is the previous status.

    `etas` has seconds until pending pods are ready, by pod key, as far as they are known. If a pass could not observe
    cluster and cloud, their state stays as it was.
    """
    status = _summarised(report, before, number, events, rules, etas)
    return msgspec.structs.replace(status, headline=headline(status))


def _summarised(
    report: PassReport,
    before: PublishedStatus,
    number: int,
    events: tuple[RecentEvent, ...],
    rules: Rules,
    etas: Mapping[str, float] | None,
) -> PublishedStatus:
    replace = msgspec.structs.replace
    shown = replace(before, last_pass=_pass(report, number), decisions=(), events=events)
    shown = replace(
        shown,
        replacements=_replacements(report.replacements),
        disruption_budgets=report.replacements.budgets,
        deferred_resizes=tuple(ResizeStatus(one.pod.key, one.node, one.shortage) for one in report.deferred_resizes),
    )
    view, registry = report.view, report.registry
    if view is None:
        return shown
    shown = replace(shown, pauses=tuple(map(_pause, report.pauses.all)))
    pods = pod_statuses(report, etas)
    if registry is None:
        return replace(
            shown,
            state=AutoscalerState.INITIALIZING,
            message=event_texts.NO_READY_NODES if view.nodes else event_texts.NO_NODES,
            cluster=None,
            groups=(),
            nodes=unjudged_node_statuses(view),
            pods=pods,
            gangs=gang_statuses(report, pods),
        )
    candidates_checked_at = _candidates_at(report, before)
    return replace(
        shown,
        state=AutoscalerState.RUNNING,
        message=None,
        cluster=_cluster(report, view, registry, candidates_checked_at),
        groups=tuple(_groups(report, view, registry, rules, candidates_checked_at)),
        nodes=node_statuses(view, registry, verdicts_of(report, before.nodes)),
        pods=pods,
        gangs=gang_statuses(report, pods),
        decisions=tuple(_decisions(report, pods)),
    )


def _pause(pause: Pause) -> PauseStatus:
    return PauseStatus(
        name=pause.name,
        scope=pause.scope,
        groups=pause.groups,
        reason=pause.reason,
        by=pause.by,
        since_at=pause.since,
        until_at=pause.until,
        problem=pause.problem,
        text=pause.words,
    )


def _pass(report: PassReport, number: int) -> PassStatus:
    return PassStatus(
        number=number,
        started_at=report.now.wall,
        duration_s=report.timings.get(WHOLE_PASS, 0.0),
        phases=tuple(Phase(name, seconds) for name, seconds in report.timings.items() if name != WHOLE_PASS),
        scale_up=report.scale_up.result,
        scale_down_in_cooldown=report.scale_down.result is ScaleDownResult.IN_COOLDOWN,
        error=report.error or None,
    )


def _candidates_at(report: PassReport, before: PublishedStatus) -> float | None:
    """Return when the autoscaler last looked for removable nodes, or dropped what it knew about them."""
    checked = report.scale_down.result not in (None, ScaleDownResult.NOT_TRIED)
    if checked or report.end is PassEnd.UNHEALTHY:
        return report.now.wall
    return None if before.cluster is None else before.cluster.scope.scale_down.probed_at


def _cluster(
    report: PassReport, view: ClusterView, registry: Registry, candidates_checked_at: float | None
) -> ClusterStatus:
    scaling_up = any(state.scaling_up for state in registry.groups.values())
    activity = ScaleUpActivity.IN_PROGRESS if scaling_up else ScaleUpActivity.NO_ACTIVITY
    state = (registry.healthy, activity, registry.cluster)
    scope = _scope(*state, len(report.scale_down.unneeded), report.now.wall, candidates_checked_at)
    return ClusterStatus(
        scope=scope,
        upcoming=sum(registry.upcoming.values()),
        cpu_milli=capacity_of(view, quantity.CPU),
        memory_bytes=capacity_of(view, quantity.MEMORY),
    )


def capacity_of(view: ClusterView, resource: str) -> Capacity:
    """Return the CPU or memory of the cluster: requests of pods on nodes, requests of pending pods, and capacity."""
    row = view.columns.vocabulary.rows[resource]
    pending = Counter(pod.cls for pod in view.pending)
    return Capacity(
        running=int(view.columns.used[row].sum()),
        pending=sum(cls.requests.get(resource, 0) * count for cls, count in pending.items()),
        total=int(view.columns.allocatable[row].sum()),
    )


def counts_of(buckets: Buckets) -> NodeCounts:
    """Count the nodes and machines in buckets."""
    return NodeCounts(
        total=len(buckets.registered),
        ready=len(buckets.ready),
        not_started=len(buckets.not_started),
        suspended=len(buckets.suspended),
        being_deleted=len(buckets.deleted),
        unready=len(buckets.unready),
        resource_unready=len(buckets.resource_unready),
        long_unregistered=len(buckets.long_unregistered),
        unregistered=len(buckets.unregistered),
    )


def _groups(
    report: PassReport, view: ClusterView, registry: Registry, rules: Rules, candidates_checked_at: float | None
) -> Iterator[GroupStatus]:
    resources = gpu_resources(rules)
    candidates = Counter(removal.group for removal in report.scale_down.unneeded)
    for group in view.groups.all:
        state, template = registry.groups[group.id], report.templates.get(group.id)
        shown = (state.healthy, _activity(state), state.buckets)
        yield GroupStatus(
            id=group.id,
            min_size=group.min_size,
            max_size=group.max_size,
            target_size=state.acceptable.target,
            scope=_scope(*shown, candidates[group.id], report.now.wall, candidates_checked_at),
            upcoming=state.upcoming,
            backoff=None if state.backoff is None else _backoff(state.backoff),
            node_price=group.node_price,
            template=None if template is None else _template(template, resources),
        )


def _activity(state: GroupState) -> ScaleUpActivity:
    """Return the state of a group's scale-up: the first that applies, as in Cluster Autoscaler."""
    if state.scaling_up:
        return ScaleUpActivity.IN_PROGRESS
    if not state.healthy:
        return ScaleUpActivity.UNHEALTHY
    return ScaleUpActivity.NO_ACTIVITY if state.backoff is None else ScaleUpActivity.BACKOFF


def _scope(
    healthy: bool,
    activity: ScaleUpActivity,
    buckets: Buckets,
    candidates: int,
    probed_at: float,
    candidates_checked_at: float | None,
) -> Scope:
    candidates_state = ScaleDownActivity.CANDIDATES if candidates else ScaleDownActivity.NO_CANDIDATES
    return Scope(
        health=Condition(Health.HEALTHY if healthy else Health.UNHEALTHY, probed_at),
        scale_up=Condition(activity, probed_at),
        scale_down=Condition(candidates_state, candidates_checked_at),
        candidates=candidates,
        counts=counts_of(buckets),
    )


def _backoff(backoff: BackedOff) -> BackoffStatus:
    return BackoffStatus(backoff.until.wall, backoff.error.code, backoff.error.message)


def _template(template: Template, resources: tuple[str, ...]) -> TemplateSummary:
    node, zones = template.node, template.zones
    return TemplateSummary(
        cpu_milli=node.allocatable.get(quantity.CPU, 0),
        memory_bytes=node.allocatable.get(quantity.MEMORY, 0),
        pods=node.allocatable.get(quantity.PODS, 0),
        gpus=allocatable_gpus(node, resources),
        instance_type=node.instance_type,
        zone=", ".join(zones.templates) if zones is not None and zones.templates else node.zone,
    )


def _decisions(report: PassReport, pods: Iterable[PodStatus]) -> Iterator[Decision]:
    wall = report.now.wall
    helped: dict[str | None, Counter[str]] = {}
    for pod in pods:
        if pod.verdict == PodVerdict.HELPED:
            name = f"{pod.namespace}/{(pod.workload or pod.name).rpartition(' ')[2]}"
            helped.setdefault(pod.planned_group, Counter())[name] += 1
    for resized in report.repairs.corrections:
        yield _resized(wall, DecisionKind.SCALE_DOWN, resized, detail=_NOT_CREATED_IN_TIME)
    for removed in report.repairs.unregistered_removed:
        yield _removed(wall, removed, _NEVER_REGISTERED)
    for removed in report.repairs.failed_removed:
        yield _removed(wall, removed, _NOT_CREATED)
    partners = {} if report.scale_up.plan is None else _partners(report.scale_up.plan)
    for resized in report.increases:
        workloads = helped.get(resized.group, Counter())
        detail = _for_whom(workloads, partners.get(resized.group, ()))
        yield _resized(wall, DecisionKind.SCALE_UP, resized, pods=workloads.total(), detail=detail)
    yield from _removals(report)


def _for_whom(workloads: Counter[str], partners: Sequence[str]) -> str:
    """Return which workloads get the new nodes of a group, and which groups share them."""
    names = [f"{name} ({number:,})" if number > 1 else name for name, number in workloads.most_common(_MOST_WORKLOADS)]
    if hidden := len(workloads) - len(names):
        names.append(f"{hidden:,} more")
    parts = [f"for {', '.join(names)}"] if names else []
    return "; ".join([*parts, f"shared with {', '.join(partners)}"] if partners else parts)


def _removals(report: PassReport) -> Iterator[Decision]:
    """Return the removals that began, as one decision per group."""
    by_group: dict[str, list[Removal]] = {}
    for removal in report.scale_down.begun:
        by_group.setdefault(removal.group, []).append(removal)
    for group, removals in by_group.items():
        yield Decision(
            at=report.now.wall,
            kind=DecisionKind.SCALE_DOWN,
            group=group,
            delta=-len(removals),
            pods=sum(len(removal.pods) for removal in removals),
            result=ScaleDownResult.NODE_DELETE_STARTED.value,
            detail=", ".join(removal.node.name for removal in removals),
        )


def _resized(wall: float, kind: DecisionKind, resized: Resized, *, pods: int = 0, detail: str) -> Decision:
    """Return a change of a target size; if it failed, the decision has the size that was wanted."""
    return Decision(
        at=wall,
        kind=kind,
        group=resized.group,
        delta=resized.wanted - resized.before,
        pods=pods,
        result=_result(resized.error is None),
        detail=detail if resized.error is None else resized.error.message,
    )


def _removed(wall: float, removed: RemovedInstances, detail: str) -> Decision:
    return Decision(
        at=wall,
        kind=DecisionKind.SCALE_DOWN,
        group=removed.removal.group,
        delta=-len(removed.removal.instances),
        result=_result(removed.error is None),
        detail=detail if removed.error is None else removed.error.message,
    )


def _result(succeeded: bool) -> str:
    return (ScaleUpResult.SUCCESSFUL if succeeded else ScaleUpResult.ERROR).value


def _partners(plan: ScaleUpPlan) -> Mapping[str, list[str]]:
    """Return the similar groups with which each group shares its new nodes."""
    partners: dict[str, list[str]] = {}
    for round_ in plan.rounds:
        groups = [increase.group for increase in round_.increases]
        for group in groups:
            partners.setdefault(group, []).extend(other for other in groups if other != group)
    return {group: list(dict.fromkeys(others)) for group, others in partners.items()}


def _replacements(report: ReplacementReport) -> tuple[ReplacementStatus, ...]:
    under_way = (
        ReplacementStatus(
            nodes=one.nodes,
            trigger=f"{one.trigger}: {one.cause}" if one.cause else one.trigger.value,
            stage=one.stage.value,
            hold="" if one.hold is None else one.hold.value,
            detail=one.detail,
        )
        for one in report.all
        if not one.over
    )
    waiting = (
        ReplacementStatus(
            nodes=(name,), stage=ReplacementStage.PROPOSED.value, hold=rest.hold.value, detail=rest.detail
        )
        for name, rest in report.held.items()
    )
    return (*under_way, *waiting)
