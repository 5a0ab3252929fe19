"""One pass, `run_once`: look at the cluster and the cloud, decide, act, remember.

The order is Cluster Autoscaler's (`core/static_autoscaler.go`). Each step takes what earlier ones found and returns a
value; what is remembered from pass to pass is one frozen value, `Remembered`. Only three lines spend or save money:
those that call `Cloud.increase`, `Cloud.decrease_target` and `Cloud.delete_instances`.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Protocol

import msgspec
from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud
from autoscaler.clock import Instant, stopwatch
from autoscaler.config.tree import Config
from autoscaler.errors import CloudUnavailable, RetryLater
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodInterner
from autoscaler.observe import words
from autoscaler.observe.metric_table import ErrorType
from autoscaler.observe.report import End, PassReport, Removed
from autoscaler.ports import EventSink, EventType, Subject
from autoscaler.reasons import ScaleUpResult, Waiting
from autoscaler.registry import memory as memories
from autoscaler.registry.buckets import provision_time_s
from autoscaler.registry.instances import Removal
from autoscaler.registry.memory import Memory
from autoscaler.registry.readiness import Readings, read, ready_terms
from autoscaler.registry.state import Registry, recalculated, update
from autoscaler.scaleup.expander import Chain, Supplies, build_chain
from autoscaler.scaleup.limits import allowance
from autoscaler.scaleup.minimum import plan_minimum_sizes
from autoscaler.scaleup.pending import Hints, Needy, all_new, expendable, filter_schedulable, sort_pending, too_young
from autoscaler.scaleup.plan import Increase, Resized, ScaleUpPlan
from autoscaler.scaleup.planner import plan_scale_up
from autoscaler.scaleup.price import ProviderPrices
from autoscaler.scaleup.priority import config_map_in
from autoscaler.scaleup.similarity import comparison, similar_groups
from autoscaler.scaleup.situation import Situation
from autoscaler.scaleup.templates import TemplateCache, choose_templates
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups
from autoscaler.snapshot.overlay import Trial
from cloudprovider.interface import Pricing


class Source(Protocol):
    """Where a pass gets the cluster from."""

    def observe(self, read_groups: Callable[[Sequence[Node]], Groups]) -> ClusterView:
        """Return the cluster as it is now; raises `RetryLater` where that cannot be told."""
        ...


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one pass leaves to the next."""

    registry: Memory
    templates: TemplateCache = TemplateCache()
    readings: Readings | None = None
    hints: Hints = Hints()


class Autoscaler:
    """Runs passes. Owned by one thread."""

    def __init__(
        self, config: Config, source: Source, cloud: Cloud, events: EventSink, interner: PodInterner, started: Instant
    ) -> None:
        self._config = config
        self._source = source
        self._cloud = cloud
        self._events = events
        self._interner = interner
        self._random = Random(config.scale_up.expander_seed)
        self._status = Subject(
            kind="ConfigMap", name=config.observe.status_config_map_name, namespace=config.kube.namespace
        )
        self.remembered = Remembered(registry=memories.born(started))
        """What the next pass starts from; replaced as a whole when a pass ends."""

    def close(self) -> None:
        """Let the provider clean up; called once, after the last pass."""
        self._cloud.close()

    def run_once(self, now: Instant) -> PassReport:
        """Run one pass. What it raises is a bug: failures that are expected are in the report."""
        began = stopwatch()
        report = PassReport(now=now)
        try:
            report = self._observed(report)
            if report.end is End.COMPLETE:
                report = self._repaired(report)
            if report.end is End.COMPLETE:
                report = self._scaled_up(report)
                report = self._with_minimum_sizes(report)
        except CloudUnavailable as error:
            report = _failed(report, ErrorType.CLOUD_PROVIDER, str(error))
        except RetryLater as error:
            report = _failed(report, ErrorType.API_CALL, str(error))
        return _timed(report, "pass", began)

    def _observed(self, report: PassReport) -> PassReport:
        """Read cloud and cluster; bring templates and the registry up to date."""
        config, now, began = self._config, report.now, stopwatch()
        self._cloud.refresh(now.wall)
        view = self._source.observe(self._cloud.read)
        report = _timed(report, "snapshot", began)
        before = self.remembered
        readings = read(view.nodes, ready_terms(config.templates, view.groups.gpu_label, config.rules), before.readings)
        if not config.scale_up.scale_up_from_zero and next(readings.ready(), None) is None:
            self._note_empty(now, has_nodes=bool(view.nodes))
            return replace(report, view=view, end=End.EMPTY_CLUSTER)
        templates, cache = choose_templates(view, before.templates, config.templates, config.rules, now, self._interner)
        registry = update(
            before.registry,
            view,
            readings,
            now,
            health=config.health,
            rules=config.rules,
            templated=templates.keys(),
        )
        self.remembered = replace(before, registry=registry.memory, templates=cache, readings=readings)
        self._note_occurrences(registry)
        report = replace(
            report,
            view=view,
            registry=registry,
            templates=templates,
            scale_up_result=ScaleUpResult.NOT_TRIED,
        )
        return _timed(report, "update_state", began)

    def _repaired(self, report: PassReport) -> PassReport:
        """Put right what went wrong in the cloud; end the pass where the cluster is too unhealthy to go on."""
        registry = _known(report.registry)
        corrections = [
            self._cloud.decrease_target(late.group, late.revert) for late in registry.timed_out if late.revert
        ]
        unregistered = tuple(self._remove(removal) for removal in registry.long_unregistered)
        self._note_removed(unregistered)
        report = replace(report, unregistered_removed=unregistered, corrections=tuple(corrections))
        if not registry.healthy:
            self._warn("ClusterUnhealthy", "Cluster is unhealthy")
            return replace(self._recalculated(report), end=End.UNHEALTHY)
        failed = tuple(self._remove(removal) for removal in registry.failed_creations)
        fixes = tuple(self._cloud.decrease_target(fix.group, fix.decrease) for fix in registry.size_fixes)
        report = replace(report, failed_removed=failed, corrections=(*corrections, *fixes))
        if (broken := next((fix for fix in fixes if fix.error is not None), None)) is not None:
            return _failed(report, ErrorType.CLOUD_PROVIDER, f"target size of {broken.group} cannot be lowered")
        report = self._recalculated(report)
        return replace(report, end=End.SIZES_FIXED) if fixes else report

    def _remove(self, removal: Removal) -> Removed:
        error = self._cloud.delete_instances(
            removal.group, removal.instances, removal.reason.value, force=removal.force
        )
        return Removed(removal, error)

    def _recalculated(self, report: PassReport) -> PassReport:
        """Judge groups again after machines were deleted or targets lowered."""
        removed = [
            instance
            for one in (*report.unregistered_removed, *report.failed_removed)
            if one.error is None
            for instance in one.removal.instances
        ]
        touched = {one.group for one in (*report.corrections, *report.increases)}
        touched |= {one.removal.group for one in (*report.unregistered_removed, *report.failed_removed)}
        if not touched:
            return report
        registry = recalculated(
            _known(report.registry),
            self.remembered.registry,
            self._cloud.targets(touched),
            health=self._config.health,
            rules=self._config.rules,
            removed=removed,
        )
        return replace(report, registry=registry)

    def _scaled_up(self, report: PassReport) -> PassReport:
        """Find the pods that need nodes, decide which groups grow, and grow them."""
        began = stopwatch()
        placer = self._placer(report)
        pods = self._needy(placer, report)
        report = _timed(replace(report, needy=pods.pods, waiting=pods.waiting), "filter_schedulable", began)
        began = stopwatch()
        young = {pod.key: Waiting.TOO_YOUNG for pod in pods.pods if too_young(pod, self._config.pods, report.now)}
        to_help = tuple(pod for pod in pods.pods if pod.key not in young)
        report = replace(report, waiting={**pods.waiting, **young})
        result = self._held_back(report, to_help)
        if result is not None:
            return replace(report, scale_up_result=result)
        plan = plan_scale_up(
            placer,
            to_help,
            self._situation(report),
            self._chain(report),
            self._config.scale_up,
            self._config.rules,
        )
        report = replace(report, scale_up=plan, scale_up_result=plan.result, scale_up_error=plan.error)
        if plan.increases:
            report = self._grown(report, plan.increases)
        self._tell_pods(report, plan)
        return _timed(report, "scale_up", began)

    def _placer(self, report: PassReport) -> Placer:
        """Return the cluster with its upcoming nodes, those that registered but have not started counted only once."""
        registry, view = _known(report.registry), _seen(report.view)
        trial = Trial(view)
        for group_id, count in registry.upcoming.items():
            template = report.templates.get(group_id)
            if template is None:
                continue
            for name in registry.upcoming_registered.get(group_id, ()):
                trial.remove(view.positions[name])
            trial.add(template, count, "upcoming-")
        return Placer(trial)

    def _needy(self, placer: Placer, report: PassReport) -> Needy:
        config, view = self._config, _seen(report.view)
        found = sort_pending(view.pending, config.pods, config.rules)
        for pod in found.nominated:
            position = view.positions.get(pod.nominated_node or "")
            if position is not None and not expendable(pod, config.pods.expendable_pods_priority_cutoff):
                placer.place(pod.cls, position)
        pods = (*found.unschedulable, *found.unprocessed)
        needy = filter_schedulable(placer, pods, config.pods, self.remembered.hints, config.rules)
        self.remembered = replace(self.remembered, hints=needy.hints)
        nominated = {pod.key: Waiting.NOMINATED for pod in found.nominated}
        return replace(needy, waiting={**found.waiting, **nominated, **needy.waiting})

    def _held_back(self, report: PassReport, pods: Sequence[Pod]) -> ScaleUpResult | None:
        """Return why no scale-up is tried; None where one is."""
        config = self._config
        if not pods:
            return ScaleUpResult.NOT_NEEDED
        ready = sum(1 for _ in _known(report.registry).readings.ready())
        if 0 < config.limits.max_nodes_total <= ready:
            if not config.rules.max_nodes_total_result_limited:
                return ScaleUpResult.NO_OPTIONS
            self._warn("MaxNodesTotalReached", f"Max total nodes in cluster reached: {config.limits.max_nodes_total}")
            return ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
        if not config.pods.bypassed_scheduler_names and all_new(pods, report.now):
            return ScaleUpResult.IN_COOLDOWN
        return None

    def _situation(self, report: PassReport) -> Situation:
        config, view, registry = self._config, _seen(report.view), _known(report.registry)
        targets = {group_id: state.acceptable.target for group_id, state in registry.groups.items()}
        groups = replace(
            view.groups, all=tuple(replace(group, target_size=targets[group.id]) for group in view.groups.all)
        )
        only_ready = config.rules.limits_count_group_targets
        nodes = tuple(registry.readings.ready()) if only_ready else self._standing(report)
        balancing = config.balancing
        return Situation(
            groups=groups,
            templates=report.templates,
            states=registry.groups,
            allowance=allowance(config.limits, config.rules, groups, report.templates, nodes, registry.upcoming),
            present=len(nodes) + sum(registry.upcoming.values()),
            max_nodes_total=config.limits.max_nodes_total,
            similar=similar_groups(report.templates, comparison(balancing, self._cloud.provider.name))
            if balancing.balance_similar_node_groups
            else {},
        )

    def _standing(self, report: PassReport) -> tuple[Node, ...]:
        """Return nodes that are not counted as upcoming instead."""
        registry = _known(report.registry)
        elsewhere = {name for names in registry.upcoming_registered.values() for name in names}
        return tuple(node for node in _seen(report.view).nodes if node.name not in elsewhere)

    def _chain(self, report: PassReport) -> Chain:
        config, view, provider = self._config, _seen(report.view), self._cloud.provider
        supplies = Supplies(
            source=self._random,
            tie_break=config.scale_up.tie_break,
            rules=config.rules,
            cluster_nodes=len(view.nodes),
            gpu_label=view.groups.gpu_label,
            prices=ProviderPrices(provider) if isinstance(provider, Pricing) else None,
            priorities=config_map_in(view.related.config_maps, config.kube.namespace),
        )
        return build_chain(config.scale_up.expander, supplies)

    def _with_minimum_sizes(self, report: PassReport) -> PassReport:
        """Raise groups below their minimum, where that is asked for."""
        if not self._config.scale_up.enforce_node_group_min_size:
            return report
        increases = plan_minimum_sizes(self._situation(self._recalculated(report)), self._config.rules)
        if not increases:
            return report
        result, error = report.scale_up_result, report.scale_up_error
        report = self._grown(report, increases)
        if report.scale_up_result is ScaleUpResult.ERROR or result is ScaleUpResult.ERROR:
            return replace(report, scale_up_result=ScaleUpResult.ERROR, scale_up_error=report.scale_up_error or error)
        return replace(report, scale_up_result=ScaleUpResult.SUCCESSFUL)

    def _grown(self, report: PassReport, increases: Sequence[Increase]) -> PassReport:
        """Resize group by group; the first failure ends it, what was resized before stays."""
        done: list[Resized] = list(report.increases)
        for increase in increases:
            self._tell_status(EventType.NORMAL, "ScaledUpGroup", words.resizing(increase))
            resized = self._cloud.increase(increase.group, increase.delta)
            done.append(resized)
            self._remember_resized(report, increase, resized)
            if resized.error is not None:
                self._warn("FailedToScaleUpGroup", words.resize_failed(resized))
                break
            self._tell_status(EventType.NORMAL, "ScaledUpGroup", words.resized(resized, increase.max_size))
        failed = next((one.error for one in done if one.error is not None), None)
        if failed is None:
            registry = memories.scale_up_succeeded(self.remembered.registry, report.now)
            self.remembered = replace(self.remembered, registry=registry)
            return replace(report, increases=tuple(done))
        return replace(
            report, increases=tuple(done), scale_up_result=ScaleUpResult.ERROR, scale_up_error=failed.message
        )

    def _remember_resized(self, report: PassReport, increase: Increase, resized: Resized) -> None:
        health, now = self._config.health, report.now
        group = _seen(report.view).groups.get(increase.group)
        provision_s = health.max_node_provision_time_s if group is None else provision_time_s(group, health)
        grown = resized.after - resized.before
        registry = self.remembered.registry
        if grown > 0:
            registry = memories.scaled_up(registry, increase.group, grown, now, provision_s)
        if resized.error is not None:
            registry = memories.scale_up_failed(registry, increase.group, resized.error, now, health)
        self.remembered = replace(self.remembered, registry=registry)

    def _tell_pods(self, report: PassReport, plan: ScaleUpPlan) -> None:
        """Let every pod know whether nodes are on their way for it."""
        if report.scale_up_result is ScaleUpResult.ERROR:
            return
        for each in plan.rounds:
            message = words.triggered(each.increases)
            for pod in each.helped:
                self._events.event(_subject(pod), EventType.NORMAL, "TriggeredScaleUp", message)
        if report.scale_up_result is ScaleUpResult.SUCCESSFUL:
            return
        for pod in (*plan.remaining, *plan.awaiting):
            self._events.event(_subject(pod), EventType.NORMAL, "NotTriggerScaleUp", words.not_triggered(plan, pod.cls))

    def _note_empty(self, now: Instant, *, has_nodes: bool) -> None:
        if has_nodes and now.mono - self.remembered.registry.started.mono > _EMPTY_GRACE_S:
            self._warn("ClusterUnhealthy", "Cluster has no ready nodes.")

    def _note_occurrences(self, registry: Registry) -> None:
        for one in registry.occurrences:
            if one.error is not None:
                detail = ", ".join(one.messages) or one.error.message
                self._warn(one.incident.value, f"Scale-up of node group {one.group} by {one.nodes}: {detail}")

    def _note_removed(self, removals: Iterable[Removed]) -> None:
        for one in removals:
            machines = ", ".join(one.removal.instances)
            if one.error is None:
                self._tell_status(EventType.NORMAL, "DeleteUnregistered", f"Removed unregistered node {machines}")
            else:
                self._warn("DeleteUnregisteredFailed", f"Failed to remove node {machines}: {one.error.message}")

    def _warn(self, reason: str, message: str) -> None:
        self._tell_status(EventType.WARNING, reason, message)

    def _tell_status(self, kind: EventType, reason: str, message: str) -> None:
        if self._config.observe.write_status_configmap:
            self._events.event(self._status, kind, reason, message)


_EMPTY_GRACE_S = 600.0
"""How long after the start a cluster without ready nodes is no news."""


def _failed(report: PassReport, kind: ErrorType, message: str) -> PassReport:
    return replace(report, end=End.FAILED, error=message, error_type=kind)


def _timed(report: PassReport, phase: str, began: float) -> PassReport:
    return replace(report, timings={**report.timings, phase: stopwatch() - began})


def _known(registry: Registry | None) -> Registry:
    assert registry is not None, "the registry is updated before anything else"
    return registry


def _seen(view: ClusterView | None) -> ClusterView:
    assert view is not None, "the cluster is observed before anything else"
    return view


def _subject(pod: Pod) -> Subject:
    return Subject(kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
