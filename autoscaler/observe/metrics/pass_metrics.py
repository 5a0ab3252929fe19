"""Sets metrics from the report of a pass."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from autoscaler.config.tree import Config
from autoscaler.errors import ErrorType
from autoscaler.objects import quantity
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.observe.metrics.device_pools import mismatches
from autoscaler.observe.metrics.devices import NO_DEVICES, DeviceLabels, devices_of
from autoscaler.observe.metrics.labels import (
    AskedExpander,
    Direction,
    Function,
    LimitedResource,
    PassActivity,
    PendingKind,
    ScaleUpFailure,
)
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.metrics.node_waits import RemovalWaits, SkippedNodes
from autoscaler.observe.metrics.taints import count_taints
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.observe.status import GroupStatus, NodeCounts
from autoscaler.observe.summary import WHOLE_PASS, counts_of
from autoscaler.ports import ExpanderAnswer
from autoscaler.reasons import NoFit, RemovedAs, ReplacementStage, ScaleDownResult, ScaleUpResult, Skip
from autoscaler.registry.occurrence import Incident
from autoscaler.registry.state import Registry
from autoscaler.scaledown.taints import being_deleted
from autoscaler.scaleup.fake_pods import to_come
from autoscaler.scaleup.pending import sort_pending
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.contribution import CORES, MEMORY, cores_of, gpu_resources
from autoscaler.snapshot.groups import Groups
from autoscaler.snapshot.template import passing_taints

FUNCTIONS = {
    WHOLE_PASS: Function.MAIN,
    "refresh": Function.REFRESH,
    "update_state": Function.UPDATE_STATE,
    "filter_schedulable": Function.FILTER_SCHEDULABLE,
    "scale_up": Function.SCALE_UP,
    "estimate": Function.SCALE_UP_ESTIMATE,
    "find_unneeded": Function.FIND_UNNEEDED,
    "scale_down": Function.SCALE_DOWN,
    "node_deletion": Function.SCALE_DOWN_DELETION,
    "soft_taints": Function.SCALE_DOWN_SOFT_TAINTS,
}
"""The published phases of a pass, with their label values."""

_LIMITS = {CORES.resource: LimitedResource.CPU, MEMORY.resource: LimitedResource.MEMORY}
_GIB = 1024**3


def failed(report: PassReport) -> bool:
    """Whether the pass counts as failed: a transient error does not (as in Cluster Autoscaler)."""
    return report.end is PassEnd.FAILED and report.error_type is not ErrorType.TRANSIENT


def _expander_result(answer: ExpanderAnswer) -> AskedExpander:
    if answer.error:
        return AskedExpander.FAILED
    return AskedExpander.ANSWERED if answer.usable else AskedExpander.UNUSABLE


def _longest_wait_s(pods: Iterable[Pod], wall: float) -> float:
    """Return for how many seconds the pod that was judged first has been unschedulable."""
    judged = (pod.unscheduled.since for pod in pods if pod.unscheduled is not None)
    return max((wall - since for since in judged if since is not None), default=0.0)


class PassMetrics:
    """Sets the metrics of one process. Owned by the deciding thread."""

    def __init__(self, metrics: Metrics, config: Config) -> None:
        self._metrics = metrics
        self._resources = gpu_resources(config.rules)
        self._counted_nodes: tuple[Node, ...] | None
        self._groups = Groups()
        self._pools: Mapping[str, Collection[str]] = {}
        observe = config.observe
        self._removal_waits = RemovalWaits() if observe.node_removal_latency_tracking_enabled else None
        self._skipped = SkippedNodes() if observe.max_node_skip_eval_time_tracker_enabled else None
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Use these options from now on, and publish them."""
        self._config = config
        self._passing = passing_taints(config.templates, config.rules)
        self._counted_nodes = None
        limits = config.limits
        cores, memory = limits.cores_total, limits.memory_total
        self._metrics.limits((cores.min, cores.max), (memory.min * _GIB, memory.max * _GIB))

    def start(self) -> None:
        """Show the metrics from now on."""
        self._metrics.start()

    def pass_ended(self, report: PassReport, groups: tuple[GroupStatus, ...]) -> None:
        """Publish the results of a pass; `groups` are those of its status."""
        for phase, function in FUNCTIONS.items():
            if phase in report.timings:
                self._metrics.observe_duration(function, report.timings[phase])
        for phase, seconds in report.timings.items():
            self._metrics.phase_took(phase, seconds)
        if failed(report):
            self._metrics.pass_failed(report.error_type or ErrorType.INTERNAL)
        else:
            ended = report.now.later(report.timings.get(WHOLE_PASS, 0.0))
            self._metrics.step_began(PassActivity.MAIN_SUCCESSFUL, ended)
        if report.view is None:
            return
        self._groups, self._pools = report.view.groups, report.device_pools
        self._metrics.pauses(pause.scope for pause in report.pauses.all)
        self._taints(report.view)
        if report.registry is None:
            self._metrics.cluster(safe=False, counts=NodeCounts())
            return
        self._cluster(report, report.view, report.registry, groups)
        self._metrics.deferred_resizes(len(report.deferred_resizes))
        reconciles = self._config.features.capacity_buffer_controller_enabled
        self._metrics.buffers(report.now.wall if reconciles else None, report.buffer_room)
        self._cloud_failures(report, report.view, report.registry)
        self._decisions(report)
        if report.scale_up.result not in (None, ScaleUpResult.NOT_TRIED):
            self._scale_up(report, report.view)
        if report.scale_down.result not in (None, ScaleDownResult.NOT_TRIED):
            self._scale_down(report)
            self._waits_of_nodes(report, report.view)
        self._replacements(report)

    def _taints(self, view: ClusterView) -> None:
        if view.nodes is not self._counted_nodes:
            self._counted_nodes = view.nodes
            self._metrics.taints(count_taints(view.nodes, self._passing))

    def _cluster(
        self, report: PassReport, view: ClusterView, registry: Registry, groups: tuple[GroupStatus, ...]
    ) -> None:
        metrics, max_nodes = self._metrics, self._config.limits.max_nodes_total
        metrics.cluster(registry.healthy, counts_of(registry.cluster))
        remaining_nodes = [node for node in view.nodes if not being_deleted(node, report.now.wall)]
        memory_bytes = sum(node.capacity.get(quantity.MEMORY, 0) for node in remaining_nodes)
        metrics.size(sum(map(cores_of, remaining_nodes)) * 1000, memory_bytes)
        max_size_sum = sum(group.max_size for group in groups)
        metrics.node_groups(len(groups), 0, min(max_size_sum, max_nodes) if max_nodes > 0 else max_size_sum)
        metrics.each_node_group(groups)
        metrics.device_mismatches(mismatches(view, registry.readings.ready(), report.device_pools))

    def _cloud_failures(self, report: PassReport, view: ClusterView, registry: Registry) -> None:
        """Count failures in the cloud since the previous pass, and the reactions to them."""
        for occurrence in registry.occurrences:
            code = occurrence.error.code if occurrence.error is not None else ""
            if occurrence.incident is Incident.SCALE_UP_TIMED_OUT:
                self._metrics.scale_up_failed(
                    ScaleUpFailure.TIMEOUT, occurrence.nodes, self._devices(report, view, occurrence.group)
                )
            elif occurrence.incident is Incident.CREATION_FAILED:
                reason = code or ScaleUpFailure.CLOUD_PROVIDER
                self._metrics.scale_up_failed(reason, occurrence.nodes, self._devices(report, view, occurrence.group))
        for lack in (
            kind for shortfall in report.shortfalls for kind in {lacking.kind for lacking in shortfall.lacking}
        ):
            self._metrics.short_of_template(lack)
        removed_count = sum(
            len(removed.removal.instances) for removed in report.repairs.unregistered_removed if removed.error is None
        )
        if removed_count:
            self._metrics.unregistered_removed(removed_count)

    def _decisions(self, report: PassReport) -> None:
        if report.scale_up.result is not None:
            self._metrics.decided(PassActivity.SCALE_UP, report.scale_up.result)
        if report.scale_down.result is not None:
            self._metrics.decided(PassActivity.SCALE_DOWN, report.scale_down.result)
        self._metrics.waiting(Counter(report.pods.waiting.values()))
        if report.scale_up.plan is not None:
            self._metrics.skipped_groups(Counter(skipped.reason.value for skipped in report.scale_up.plan.skipped))

    def _scale_up(self, report: PassReport, view: ClusterView) -> None:
        metrics, config, plan = self._metrics, self._config, report.scale_up.plan
        metrics.step_began(PassActivity.AUTOSCALING, report.now)
        pending = sort_pending(view, config.pods, config.rules)
        # Pause pods have their own metric, headroom_pods.
        workload_pods = [pod for pod in pending.unschedulable if pod.cls.headroom is None]
        metrics.pending_pods(PendingKind.UNSCHEDULABLE, len(workload_pods))
        metrics.pending_pods(PendingKind.UNPROCESSED, sum(pod.cls.headroom is None for pod in pending.unprocessed))
        injected = {cls for cls in {pod.cls for pod in report.pods.unschedulable} if to_come(cls)}
        metrics.pending_pods(PendingKind.INJECTED, sum(pod.cls in injected for pod in report.pods.unschedulable))
        metrics.skipped_pods(
            0 if plan is None else sum(_has_too_many_constraints(plan, pod.cls) for pod in plan.remaining)
        )
        metrics.longest_pending(_longest_wait_s(workload_pods, report.now.wall))
        if plan is not None:
            metrics.step_began(PassActivity.SCALE_UP, report.now)
            limited = [skipped for skipped in plan.skipped if skipped.reason is Skip.LIMIT]
            for resource in (name for skipped in limited for name in skipped.detail.split(", ")):
                if resource in _LIMITS:
                    metrics.scaling_skipped(Direction.UP, _LIMITS[resource])
            for answer in plan.answers:
                metrics.expander_asked(_expander_result(answer))
            self._binpacking(plan)
        for increase in report.increases:
            devices = self._devices(report, view, increase.group)
            if increase.after > increase.before:
                metrics.scaled_up(increase.after - increase.before, devices)
            if increase.error is not None:
                reason = increase.error.code or ScaleUpFailure.CLOUD_PROVIDER
                metrics.scale_up_failed(reason, increase.wanted - increase.after, devices)

    def _binpacking(self, plan: ScaleUpPlan) -> None:
        """Count the estimates of a plan; rounds that continue the same choice share them."""
        for option in {id(option): option for round_ in plan.rounds for option in round_.options}.values():
            node = option.template.node
            cpus = quantity.text(quantity.CPU, node.capacity.get(quantity.CPU, 0))
            self._metrics.binpacking(node.instance_type or "", cpus, option.namespaces, option.kinds)

    def _scale_down(self, report: PassReport) -> None:
        metrics, result = self._metrics, report.scale_down.result
        metrics.unneeded(len(report.scale_down.unneeded))
        metrics.unremovable(Counter(kept.reason.value for kept in report.scale_down.unremovable.values()))
        metrics.scale_down_cooldown(result is ScaleDownResult.IN_COOLDOWN)
        if result is not ScaleDownResult.IN_COOLDOWN:
            metrics.step_began(PassActivity.SCALE_DOWN, report.now)

    def _replacements(self, report: PassReport) -> None:
        self._metrics.replacements(
            Counter(replacement.trigger for replacement in report.replacements.all if not replacement.over),
            report.replacements.drifted,
        )
        waiting = Counter(rest.hold for rest in report.replacements.held.values())
        for replacement in report.replacements.all:
            if not replacement.over and replacement.hold is not None:
                waiting[replacement.hold] += len(replacement.nodes)
        self._metrics.replacements_waiting(waiting)
        self._metrics.disruption_budgets(report.replacements.budgets)
        for replacement in report.replacements.all:
            if replacement.over:
                saved = (replacement.saving or 0.0) if replacement.stage is ReplacementStage.DONE else 0.0
                self._metrics.replacement_ended(replacement.trigger, replacement.stage, saved)

    def _waits_of_nodes(self, report: PassReport, view: ClusterView) -> None:
        for wait in () if self._removal_waits is None else self._removal_waits.pass_ended(report):
            self._metrics.removal_waited(wait.seconds, wait.reason, deleted=wait.deleted)
        if self._skipped is not None:
            self._metrics.nodes_skipped(self._skipped.longest_s(view.groups.of_node, report))

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        """Count a removed node; may be called from any thread."""
        groups = self._groups
        devices = devices_of(node, groups.get(group), groups, self._pools.get(group, ()), self._resources)
        self._metrics.scaled_down(1, removed_as, devices)

    def _devices(self, report: PassReport, view: ClusterView, group_id: str) -> DeviceLabels:
        template = report.templates.get(group_id)
        if template is None:
            return NO_DEVICES
        groups = view.groups
        drivers = report.device_pools.get(group_id, ())
        return devices_of(template.node, groups.get(group_id), groups, drivers, self._resources)


def _has_too_many_constraints(plan: ScaleUpPlan, cls: PodClass) -> bool:
    """Whether the class has too many constraints to be tried."""
    rejections = (rejection for of_group in plan.rejected.get(cls, {}).values() for rejection in of_group)
    return any(rejection.reason is NoFit.TOO_MUCH_WORK for rejection in rejections)
