"""Prometheus metrics of one process, with one method per fact. The names are in `metrics.definitions`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, ProcessCollector

from autoscaler.clock import Instant
from autoscaler.errors import ErrorType
from autoscaler.observe.metrics.definitions import NARROW_BUCKETS, TABLE, Metric, MetricCondition
from autoscaler.observe.metrics.devices import NO_DEVICES, DeviceLabels
from autoscaler.observe.metrics.exposition import exposition
from autoscaler.observe.metrics.labels import (
    PLACING,
    AskedExpander,
    Direction,
    EvictionResult,
    Function,
    LimitedResource,
    Mismatch,
    NoticedPodResult,
    PassActivity,
    PendingKind,
    Recorded,
    Reload,
    ScaleUpFailure,
)
from autoscaler.observe.metrics.series import MetricSeries
from autoscaler.observe.metrics.watches import WatchFigures
from autoscaler.observe.status import GroupStatus, Health, NodeCounts
from autoscaler.reasons import Lack, PauseScope, RemovedAs, ReplacementHold, ReplacementStage, ReplacementTrigger
from autoscaler.scaledown.disruption_limits import DisruptionUse
from autoscaler.scaleup.buffers import BufferRoom
from autoscaler.version import version
from cloudprovider.codes import told_apart

_NO_BACKOFF = ""
_NO_CODE = "unknown"
_OWN_REASONS = frozenset((*ScaleUpFailure, _NO_CODE))


class Metrics:
    """All metrics of one process, on its own registries. Any thread may call the methods.

    Like Cluster Autoscaler, a standby replica shows only metrics of the process and of leadership, and those of
    companions that work on every replica. A gauge such as cluster_safe_to_autoscale would be 0 there and raise alarms.
    """

    def __init__(
        self,
        *,
        per_node_group: bool = False,
        wide_duration_buckets: bool = True,
        removal_latency: bool = False,
        skipped_nodes: bool = False,
    ) -> None:
        self._process_registry = CollectorRegistry()
        self._pass_registry = CollectorRegistry()
        self._started = False
        self._per_node_group = per_node_group
        self._group_series: set[tuple[str, tuple[str, ...]]] = set()
        self._reasons: defaultdict[str, set[str]] = defaultdict(set)
        self._watches: dict[str, WatchFigures] = {}
        self._retries: Mapping[tuple[str, str], int] = {}
        self._series = MetricSeries()
        self._companions: dict[tuple[str, ...], MetricSeries] = {}
        conditions = {
            MetricCondition.ALWAYS: True,
            MetricCondition.PER_NODE_GROUP: per_node_group,
            MetricCondition.REMOVAL_LATENCY: removal_latency,
            MetricCondition.SKIPPED_NODES: skipped_nodes,
        }
        shown = {when for when, on in conditions.items() if on}
        for metric in TABLE:
            if metric.when in shown:
                narrow = metric.name == "function_duration_seconds" and not wide_duration_buckets
                registry = self._process_registry if metric.foreign else self._pass_registry
                self._series.add_metric(replace(metric, buckets=NARROW_BUCKETS) if narrow else metric, registry)
        ProcessCollector(registry=self._process_registry)
        self._series.set("node_autoscaler_build_info", 1, version())
        self._show_zeros()

    def companion(self, table: Iterable[Metric]) -> MetricSeries:
        """Add a companion's metrics to the exposition; metrics that were added before keep their values."""
        metrics = tuple(table)
        names = tuple(metric.name for metric in metrics)
        known = self._companions.get(names)
        if known is None:
            known = self._companions[names] = MetricSeries()
            for metric in metrics:
                known.add_metric(metric, self._process_registry if metric.on_standby else self._pass_registry)
        return known

    def _show_zeros(self) -> None:
        for error in ErrorType:
            self._series.add("errors_total", 0, error)
        for failure in ScaleUpFailure:
            self._series.add("failed_scale_ups_total", 0, failure, *NO_DEVICES.labels)
            self._series.add("failed_node_creations_total", 0, failure)
        for removal in RemovedAs:
            self._series.add("scaled_down_nodes_total", 0, removal, *NO_DEVICES.labels)
        self._series.add("scaled_up_nodes_total", 0, *NO_DEVICES.labels)
        for reload in Reload:
            self._series.add("config_reloads_total", 0, reload)
        for lack in Lack:
            self._series.add("template_shortfalls_total", 0, lack)
        for result in EvictionResult:
            self._series.add("evicted_pods_total", 0, result)
        for fate in NoticedPodResult:
            self._series.add("noticed_pods_total", 0, fate)
        for direction in Direction:
            for resource in LimitedResource:
                self._series.add("skipped_scale_events_count", 0, direction, resource)

    def scrape(self) -> bytes:
        """Return all metrics in `exposition.CONTENT_TYPE`."""
        registries = (self._process_registry, self._pass_registry)
        return b"".join(exposition(registry.collect()) for registry in registries[: 2 if self._started else 1])

    def start(self) -> None:
        """Show all metrics from now on, because this replica begins to work."""
        self._started = True

    # The loop.

    def step_began(self, step: PassActivity, now: Instant) -> None:
        """Record the time at which a step of the loop began (`MAIN_SUCCESSFUL`: a pass ended successfully)."""
        self._series.set("last_activity", int(now.wall), step)

    def observe_duration(self, function: Function, seconds: float) -> None:
        """Record the duration of a part of a pass."""
        self._series.observe("function_duration_seconds", seconds, function)
        self._series.observe("function_duration_quantile_seconds", seconds, function)

    def pass_failed(self, error: ErrorType) -> None:
        """Count a pass that ended with an error."""
        self._series.add("errors_total", 1, error)

    def leading(self, lease: str, leads: bool) -> None:
        """Record whether this replica holds the lease."""
        self._series.set("leader_election_master_status", leads, lease)

    # The cluster.

    def cluster(self, safe: bool, counts: NodeCounts) -> None:
        """Set the health and node counts of the pass."""
        self._series.set("cluster_safe_to_autoscale", safe)
        self._series.set("nodes_count", counts.ready, "ready")
        self._series.set("nodes_count", counts.unready, "unready")
        self._series.set("nodes_count", counts.not_started, "notStarted")
        self._series.set("nodes_count", counts.suspended, "suspended")
        self._series.set("nodes_count", counts.long_unregistered, "longUnregistered")
        self._series.set("nodes_count", counts.unregistered, "unregistered")

    def size(self, cpu_milli: int, memory_bytes: int) -> None:
        """Set the capacity of all nodes that are not being deleted."""
        self._series.set("cluster_cpu_current_cores", cpu_milli // 1000)
        self._series.set("cluster_memory_current_bytes", memory_bytes)

    def limits(self, cores: tuple[int, int], memory_bytes: tuple[int, int]) -> None:
        """Set the configured minimum and maximum of the cluster; called once."""
        for name, (least, most) in (("cpu_limits_cores", cores), ("memory_limits_bytes", memory_bytes)):
            self._series.set(name, least, "minimum")
            self._series.set(name, most, "maximum")

    def pending_pods(self, kind: PendingKind, count: int) -> None:
        """Set the number of waiting pods of a kind."""
        self._series.set("unschedulable_pods_count", count, kind)

    def skipped_pods(self, count: int) -> None:
        """Set the number of pods that no step tried to place."""
        self._series.set("skipped_pods_count", count, PLACING)

    def longest_pending(self, seconds: float) -> None:
        """Set the longest time that a pod has waited for a node, in seconds."""
        self._series.set("longest_pending_seconds", seconds)

    def taints(self, by_type: Mapping[str, int]) -> None:
        """Set the number of taints by type on all nodes; types that no longer occur are removed."""
        self._series.clear("node_taints_count")
        for kind, count in by_type.items():
            self._series.set("node_taints_count", count, kind)

    def device_mismatches(self, by_driver: Mapping[str, Mapping[Mismatch, int]]) -> None:
        """Set the device pools that differ from those expected; drivers that no longer occur are removed."""
        self._series.clear("dra_node_template_resources_mismatch")
        for driver, counts in by_driver.items():
            for kind in Mismatch:
                self._series.set("dra_node_template_resources_mismatch", counts.get(kind, 0), driver, kind)

    def node_groups(self, autoscaled: int, autoprovisioned: int, max_nodes: int) -> None:
        """Set the number of groups and their total maximum size."""
        self._series.set("node_groups_count", autoscaled, "autoscaled")
        self._series.set("node_groups_count", autoprovisioned, "autoprovisioned")
        self._series.set("max_nodes_count", max_nodes)

    def buffers(self, reconciled_wall: float | None, room: BufferRoom | None) -> None:
        """Set when all CapacityBuffers were reconciled, and how many of their pods have room; None leaves one alone."""
        for new in () if reconciled_wall is None else ("true", "false"):
            self._series.set("capacity_buffer_oldest_reconciliation_timestamp_seconds", int(reconciled_wall or 0), new)
        for state, pods in () if room is None else (("ready", room.ready), ("missing", room.missing)):
            self._series.set("capacity_buffer_replicas", pods, state)

    def each_node_group(self, groups: Iterable[GroupStatus]) -> None:
        """Set the metrics of each group, if enabled; groups that no longer exist are removed."""
        if not self._per_node_group:
            return
        values: dict[tuple[str, tuple[str, ...]], float] = {}
        for group in groups:
            labels_of_group = (group.id,)
            values["node_group_min_count", labels_of_group] = group.min_size
            values["node_group_max_count", labels_of_group] = group.max_size
            values["node_group_target_count", labels_of_group] = group.target_size
            values["node_group_healthiness", labels_of_group] = group.scope.health.status == Health.HEALTHY
            reason = _NO_BACKOFF if group.backoff is None else failure_label(group.backoff.code or _NO_CODE)
            values["node_group_backoff_status", (group.id, reason)] = group.backoff is not None
        for (name, labels), value in values.items():
            self._series.set(name, value, *labels)
        for name, labels in self._group_series - values.keys():
            self._series.remove(name, *labels)
        self._group_series = set(values)

    def deferred_resizes(self, pods: int) -> None:
        """Set the number of pods whose resize waits."""
        self._series.set("deferred_resizes", pods)

    # Replacements.

    def pauses(self, scopes: Iterable[PauseScope]) -> None:
        """Set the number of pauses in force; `scopes` has the scope of each."""
        counts = Counter(scopes)
        for scope in PauseScope:
            self._series.set("pauses", counts[scope], scope)

    def replacements(self, in_progress: Mapping[ReplacementTrigger, int], drifted: int) -> None:
        """Set the number of replacements in progress, by trigger, and of drifted nodes."""
        self._series.set("drifted_nodes_count", drifted)
        for trigger in ReplacementTrigger:
            self._series.set("replacements_in_progress", in_progress.get(trigger, 0), trigger)

    def replacements_waiting(self, waiting: Mapping[ReplacementHold, int]) -> None:
        """Set the number of nodes whose replacement waits, by reason."""
        for hold in ReplacementHold:
            self._series.set("replacements_waiting", waiting.get(hold, 0), hold)

    def disruption_budgets(self, uses: Iterable[DisruptionUse]) -> None:
        """Set how far each disruption budget is used, and its limit unless its window is closed."""
        self._series.clear("disruption_budget_nodes")
        for use in uses:
            self._series.set("disruption_budget_nodes", use.used, use.budget, "used")
            if use.applies:
                self._series.set("disruption_budget_nodes", use.limit, use.budget, "limit")

    def replacement_ended(self, trigger: ReplacementTrigger, outcome: ReplacementStage, saved: float) -> None:
        """Count a replacement that ended; `saved` is a price per hour."""
        self._series.add("replacements_total", 1, trigger, outcome)
        self._series.add("replacement_savings_total", max(0.0, saved))

    # Scale-up.

    def scaled_up(self, nodes: int, devices: DeviceLabels = NO_DEVICES) -> None:
        """Count requested nodes."""
        self._series.add("scaled_up_nodes_total", nodes, *devices.labels)
        if devices.gpu_name:
            self._series.add("scaled_up_gpu_nodes_total", nodes, devices.gpu_resource_name, devices.gpu_name)

    def scale_up_failed(self, reason: str, nodes: int, devices: DeviceLabels = NO_DEVICES) -> None:
        """Count a scale-up of `nodes` nodes that failed; `reason` is a `ScaleUpFailure` or the provider's code."""
        reason = failure_label(reason)
        self._series.add("failed_scale_ups_total", 1, reason, *devices.labels)
        self._series.add("failed_node_creations_total", nodes, reason)
        if devices.gpu_name:
            self._series.add("failed_gpu_scale_ups_total", 1, reason, devices.gpu_resource_name, devices.gpu_name)

    def short_of_template(self, lack: Lack) -> None:
        """Count nodes that offer less than their template."""
        self._series.add("template_shortfalls_total", 1, lack)

    def scaling_skipped(self, direction: Direction, resource: LimitedResource) -> None:
        """Count a scaling that was skipped because of a limit of the cluster."""
        self._series.add("skipped_scale_events_count", 1, direction, resource)

    def binpacking(self, instance_type: str, cpu_count: str, namespaces: int, pod_groups: int) -> None:
        """Count an estimate for this many groups of equivalent pods from this many namespaces."""
        counted = str(namespaces) if namespaces <= 5 else "6-10" if namespaces <= 10 else "11+"
        self._series.observe("binpacking_heterogeneity", pod_groups, instance_type, cpu_count, counted)

    # Scale-down.

    def unneeded(self, nodes: int) -> None:
        """Set the number of unneeded nodes."""
        self._series.set("unneeded_nodes_count", nodes)

    def unremovable(self, by_reason: Mapping[str, int]) -> None:
        """Set the number of nodes that cannot be removed, by reason."""
        self._by_reason("unremovable_nodes_count", by_reason)

    def removal_waited(self, seconds: float, reason: str, *, deleted: bool) -> None:
        """Record how long a removable node waited; `reason` delayed it."""
        self._series.observe("node_removal_latency_seconds", seconds, str(deleted).lower(), reason)

    def nodes_skipped(self, longest_s: float) -> None:
        """Set the longest time that a node has not been evaluated, in seconds."""
        self._series.set("max_node_skip_eval_duration_seconds", longest_s)

    def scale_down_cooldown(self, active: bool) -> None:
        """Set whether scale-down is in its cool-down."""
        self._series.set("scale_down_in_cooldown", active)

    def pending_deletions(self, nodes: int) -> None:
        """Set the number of removals in progress."""
        self._series.set("pending_node_deletions", nodes)

    def scaled_down(self, nodes: int, reason: RemovedAs, devices: DeviceLabels = NO_DEVICES) -> None:
        """Count removed nodes."""
        self._series.add("scaled_down_nodes_total", nodes, reason, *devices.labels)
        if devices.gpu_name:
            self._series.add("scaled_down_gpu_nodes_total", nodes, reason, devices.gpu_resource_name, devices.gpu_name)

    def scale_down_failed(self, reason: str) -> None:
        """Count a removal that was aborted."""
        self._series.add("failed_scale_downs_total", 1, reason)

    def evicted(self, pods: int, result: EvictionResult) -> None:
        """Count evictions by result."""
        self._series.add("evicted_pods_total", pods, result)

    def noticed_pods(self, pods: int, result: NoticedPodResult) -> None:
        """Count pods of nodes whose machine left as announced."""
        self._series.add("noticed_pods_total", pods, result)

    def unregistered_removed(self, machines: int) -> None:
        """Count deleted machines that never registered."""
        self._series.add("old_unregistered_nodes_removed_count", machines)

    # Decisions.

    def decided(self, step: PassActivity, result: str) -> None:
        """Count the result of a step of a pass."""
        self._series.add("decisions_total", 1, step, result)

    def waiting(self, by_reason: Mapping[str, int]) -> None:
        """Set the number of pending pods without a planned node, by reason."""
        self._by_reason("waiting_pods_count", by_reason)

    def skipped_groups(self, by_reason: Mapping[str, int]) -> None:
        """Set the number of groups that were not considered for a scale-up, by reason."""
        self._by_reason("skipped_node_groups_count", by_reason)

    def _by_reason(self, name: str, counts: Mapping[str, int]) -> None:
        """Set a gauge; reasons that are not given drop to 0, so that no count outlives its cause."""
        self._reasons[name].update(counts)
        for reason in self._reasons[name]:
            self._series.set(name, counts.get(reason, 0), reason)

    # Ourselves.

    def phase_took(self, phase: str, seconds: float) -> None:
        """Record the duration of a phase of a pass."""
        self._series.observe("pass_phase_duration_seconds", seconds, phase)

    def watches(self, by_path: Mapping[str, WatchFigures]) -> None:
        """Set the figures of the watches since the process started."""
        for path, now in by_path.items():
            before = self._watches.get(path, WatchFigures())
            self._series.add("watch_restarts_total", now.restarts - before.restarts, path)
            self._series.add("watch_relists_total", now.relists - before.relists, path)
            self._series.add("watch_failures_total", now.failures - before.failures, path)
            self._series.add("watch_decode_seconds_total", max(0.0, now.decode_s - before.decode_s), path)
            self._series.set("undecoded_objects", now.undecoded, path)
            if now.silent_s is not None:
                self._series.set("watch_silence_seconds", now.silent_s, path)
            self._watches[path] = now

    def calls_retried(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Set how often the API server asked for a delay since the process started, by HTTP method and result."""
        for (verb, result), count in counts.items():
            self._series.add("api_retries_total", count - self._retries.get((verb, result), 0), verb, result)
        self._retries = counts

    def clock_is_ahead(self, seconds: float) -> None:
        """Set how far our wall clock is ahead of the API server's."""
        self._series.set("clock_ahead_seconds", seconds)

    def companion_failed(self, name: str) -> None:
        """Count a companion that raised an exception."""
        self._series.add("companion_errors_total", 1, name)

    def reload_ended(self, result: Reload | None, *, waiting: int) -> None:
        """Record the result of reloading the configuration; None for the first load.

        `waiting` options need a restart.
        """
        self._series.set("config_last_reload_successful", result is not Reload.REFUSED)
        self._series.set("config_restart_needed", waiting)
        if result is not None:
            self._series.add("config_reloads_total", 1, result)

    def expander_asked(self, result: AskedExpander) -> None:
        """Count a call to the gRPC expander."""
        self._series.add("grpc_expander_calls_total", 1, result)

    def recorded(self, result: Recorded, size: int = 0) -> None:
        """Record that the flight recorder has finished a pass; `size` is the number of bytes written."""
        self._series.add("recordings_total", 1, result)
        if size:
            self._series.add("recorded_bytes_total", size)

    def events_dropped(self, count: int) -> None:
        """Count dropped events."""
        self._series.add("events_dropped_total", count)


def failure_label(reason: str) -> str:
    """Return the value of the label `reason`; unknown ones become `other`."""
    return reason if reason in _OWN_REASONS else told_apart(reason)
