"""The table of all metrics of the node autoscaler; docs/metrics.md is generated from it.

Names, types and labels are Cluster Autoscaler's, so that dashboards and alerts keep working.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from autoscaler.errors import ErrorType
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
from autoscaler.reasons import Lack, PauseScope, RemovedAs, ReplacementHold, ReplacementStage, ReplacementTrigger
from cloudprovider.codes import OTHER

PREFIX = "cluster_autoscaler_"

WIDE_BUCKETS = tuple(0.1 * (1800 / 0.1) ** (step / 149) for step in range(150))
NARROW_BUCKETS = tuple(0.01 * 1.5**step for step in range(30))


class MetricType(StrEnum):
    """Prometheus types."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class MetricCondition(StrEnum):
    """When a metric exists."""

    ALWAYS = ""
    PER_NODE_GROUP = "--emit-per-nodegroup-metrics"
    REMOVAL_LATENCY = "--node-removal-latency-tracking-enabled"
    SKIPPED_NODES = "--max-node-skip-eval-time-tracker-enabled"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric; `name` is without the prefix unless `foreign`."""

    name: str
    kind: MetricType
    help: str
    labels: Mapping[str, str] = {}
    """What the values of each label mean, for the documentation; empty if its name says it."""
    buckets: tuple[float, ...] = ()
    when: MetricCondition = MetricCondition.ALWAYS
    foreign: bool = False
    """It tells about the process: the name has no prefix, and every replica shows it."""
    on_standby: bool = False
    """Whether a replica that does not lead shows it, too, because it also counts there."""

    @property
    def full_name(self) -> str:
        """The name in the exposition."""
        return self.name if self.foreign else PREFIX + self.name


_GPU = {"gpu_resource_name": "", "gpu_name": ""}
_DEVICES = {**_GPU, "dra_drivers": ""}


def gauge(name: str, text: str, /, **labels: str) -> Metric:
    """Return a gauge with these labels and their meanings."""
    return Metric(name=name, kind=MetricType.GAUGE, help=text, labels=labels)


def counter(name: str, text: str, /, **labels: str) -> Metric:
    """Return a counter with these labels and their meanings."""
    return Metric(name=name, kind=MetricType.COUNTER, help=text, labels=labels)


def histogram(name: str, text: str, buckets: Iterable[float], /, **labels: str) -> Metric:
    """Return a histogram with these labels and their meanings."""
    return Metric(name=name, kind=MetricType.HISTOGRAM, help=text, labels=labels, buckets=tuple(map(float, buckets)))


def _of_group(name: str, text: str, **labels: str) -> Metric:
    return replace(gauge(name, text, node_group="", **labels), when=MetricCondition.PER_NODE_GROUP)


def listed(words: Iterable[object]) -> str:
    """Return words as the documentation lists them."""
    return ", ".join(f"`{word}`" for word in words)


TABLE: tuple[Metric, ...] = (
    gauge("cluster_safe_to_autoscale", "Whether the cluster is healthy enough to be autoscaled: 1 or 0."),
    gauge(
        "nodes_count",
        "Nodes of the cluster by state.",
        state="`ready`, `unready`, `notStarted`, `suspended`, `longUnregistered`, `unregistered`",
    ),
    gauge("node_groups_count", "Node groups that are autoscaled.", node_group_type="`autoscaled`, `autoprovisioned`"),
    gauge(
        "nap_enabled", "Whether node groups are created automatically: always 0. Cluster Autoscaler had it until 1.32."
    ),
    gauge(
        "capacity_buffer_oldest_reconciliation_timestamp_seconds",
        "When the CapacityBuffer that has waited longest was last reconciled, in Unix seconds; every "
        "pass reconciles all. Only with `--capacity-buffer-controller-enabled`.",
        new_buffer="`true`, `false`",
    ),
    gauge(
        "capacity_buffer_replicas",
        "Pods of all CapacityBuffers for which ready nodes have room (`ready`), and the others. Only with "
        "`--capacity-buffer-pod-injection-enabled`.",
        state="`ready`, `missing`",
    ),
    gauge("unschedulable_pods_count", "Pods that wait for a node.", type=listed(PendingKind)),
    gauge(
        "skipped_pods_count",
        "Pending pods that were skipped, because they have more constraints than `--max-pod-evaluation-work` allows.",
        requestor=f"`{PLACING}`",
    ),
    gauge(
        "longest_pending_seconds",
        "How long the pod that has waited longest for a node has been unschedulable; 0 without any such pod.",
    ),
    gauge("max_nodes_count", "Maximum number of nodes of all node groups together."),
    gauge("cluster_cpu_current_cores", "CPU cores of the cluster, excluding nodes being deleted."),
    gauge("cluster_memory_current_bytes", "Memory of the cluster in bytes, excluding nodes being deleted."),
    gauge("cpu_limits_cores", "Minimum and maximum number of CPU cores allowed.", direction="`minimum`, `maximum`"),
    gauge("memory_limits_bytes", "Minimum and maximum memory allowed, in bytes.", direction="`minimum`, `maximum`"),
    gauge(
        "last_activity",
        "When a step of the loop last started (`mainSuccessful`: ended), in Unix seconds.",
        activity=listed(PassActivity),
    ),
    histogram("function_duration_seconds", "Time taken by parts of a pass.", WIDE_BUCKETS, function=listed(Function)),
    Metric(
        name="function_duration_quantile_seconds",
        kind=MetricType.SUMMARY,
        help="Time taken by parts of a pass: count and sum.",
        labels={"function": "as above"},
    ),
    counter("errors_total", "Passes that failed, by type of error.", type=listed(ErrorType)),
    counter("scaled_up_nodes_total", "Nodes added.", **_GPU, dra_drivers="device drivers, comma-separated"),
    counter("scaled_up_gpu_nodes_total", "GPU nodes added.", **_GPU),
    counter(
        "failed_scale_ups_total",
        "Scale-ups that failed.",
        reason=f"{listed(ScaleUpFailure)}, or the provider's code; an unknown code is `{OTHER}`",
        **_DEVICES,
    ),
    counter("failed_gpu_scale_ups_total", "Scale-ups of GPU groups that failed.", reason="", **_GPU),
    counter(
        "failed_node_creations_total",
        "Requested nodes that failed: refused, not created, or not registered in time.",
        reason=f"{listed(ScaleUpFailure)}, or the provider's code; an unknown code is `{OTHER}`",
    ),
    counter("scaled_down_nodes_total", "Nodes removed.", reason=listed(RemovedAs), **_DEVICES),
    counter("scaled_down_gpu_nodes_total", "GPU nodes removed.", reason="", **_GPU),
    counter(
        "failed_scale_downs_total",
        "Removals of nodes that started and failed.",
        reason="why it failed, as in the event `ScaleDownFailed`",
    ),
    counter("evicted_pods_total", "Pods evicted from nodes being removed.", eviction_result=listed(EvictionResult)),
    counter(
        "noticed_pods_total",
        "Pods on nodes whose machine left as announced: those that had left before it, and those that had not.",
        result=listed(NoticedPodResult),
    ),
    gauge("unneeded_nodes_count", "Nodes that could be removed."),
    gauge(
        "unremovable_nodes_count",
        "Nodes that stay, by reason; a reason that no longer applies to any node shows 0.",
        reason="see the list of reasons",
    ),
    gauge("scale_down_in_cooldown", "Whether scale-down is in a cool-down: 1 or 0."),
    counter("old_unregistered_nodes_removed_count", "Machines removed because they never became nodes."),
    gauge("overflowing_controllers_count", "Controllers whose pods differ too much to be treated as equivalent."),
    counter(
        "skipped_scale_events_count",
        "Scalings skipped because of a cluster-wide limit.",
        direction=listed(Direction),
        reason=listed(LimitedResource),
    ),
    gauge("pending_node_deletions", "Nodes of earlier removals that still existed when removals last started."),
    gauge(
        "node_taints_count",
        "Taints on nodes by type.",
        type="the key of a well-known taint, `startup-taint`, `status-taint` or `other`",
    ),
    histogram(
        "binpacking_heterogeneity",
        "Groups of equivalent pods in one binpacking estimate.",
        (1, 2, 4, 8, 16, 32),
        instance_type="label `node.kubernetes.io/instance-type` of the group's nodes",
        cpu_count="CPU capacity of the group's nodes",
        namespace_count="`1` to `5`, `6-10`, `11+`",
    ),
    gauge(
        "dra_node_template_resources_mismatch",
        "Device pools in which ready nodes differ from their group's template.",
        driver="",
        mismatch_type=listed(Mismatch),
    ),
    Metric(
        name="node_removal_latency_seconds",
        kind=MetricType.HISTOGRAM,
        help="Time from when a node has been unneeded for long enough until its removal starts, or until it "
        "is needed again.",
        labels={
            "deleted": "`true`, `false`",
            "delay_reason": "`none`, or the last reason that delayed it: a reason of a node",
        },
        buckets=tuple(1.5**step for step in range(19)),
        when=MetricCondition.REMOVAL_LATENCY,
    ),
    Metric(
        name="max_node_skip_eval_duration_seconds",
        kind=MetricType.GAUGE,
        help="Longest time for which a node was not evaluated because the time for simulations was over.",
        when=MetricCondition.SKIPPED_NODES,
    ),
    _of_group("node_group_min_count", "Smallest allowed size of the node group."),
    _of_group("node_group_max_count", "Largest allowed size of the node group."),
    _of_group("node_group_target_count", "Target size of the node group."),
    _of_group("node_group_healthiness", "Whether the node group is healthy enough to be autoscaled: 1 or 0."),
    _of_group("node_group_backoff_status", "Whether the node group is in backoff: 1 or 0.", reason=""),
    counter(
        "companion_errors_total",
        "Failures of a companion; the autoscaler continues without it.",
        companion="its section of the configuration file; `recorder`, `snapshotz`",
    ),
    counter(
        "grpc_expander_calls_total",
        "Calls to the gRPC expander; an unusable answer names only groups that were not in the call.",
        result=listed(AskedExpander),
    ),
    counter(
        "template_shortfalls_total",
        "Times that new nodes of a group had less than the group's template.",
        lack=listed(Lack),
    ),
    gauge("deferred_resizes", "Pods whose resize in place waits because their node is full."),
    gauge(
        "pauses", "Pauses in force; one that cannot be read counts as a pause of disruption.", scope=listed(PauseScope)
    ),
    gauge("drifted_nodes_count", "Nodes that differ from what their group makes now, in what `--drift` names."),
    gauge("replacements_in_progress", "Replacements of nodes in progress.", trigger=listed(ReplacementTrigger)),
    gauge(
        "replacements_waiting",
        "Nodes whose replacement waits, or has not begun, by reason.",
        reason=listed(ReplacementHold),
    ),
    gauge(
        "disruption_budget_nodes",
        "Nodes that count towards a disruption budget, and how many it allows while it applies.",
        budget="the budget as it is configured",
        kind="`used`, `limit`",
    ),
    counter(
        "replacements_total",
        "Replacements of nodes that ended.",
        trigger=listed(ReplacementTrigger),
        outcome=f"`{ReplacementStage.DONE}`, `{ReplacementStage.ABANDONED}`",
    ),
    counter(
        "replacement_savings_total",
        "Price per hour that replacements saved, in the provider's currency; replacements that cost more do not count.",
    ),
    counter("recordings_total", "Recordings of passes, by result.", result=listed(Recorded)),
    counter("recorded_bytes_total", "Bytes written as recordings."),
    gauge(
        "config_last_reload_successful",
        "Whether the present configuration file is in use, except options that need a restart: 1 or 0.",
    ),
    counter("config_reloads_total", "Reloads of the configuration.", result=listed(Reload)),
    gauge("config_restart_needed", "Options that changed in the file and take effect only after a restart."),
    Metric(
        name="pass_phase_duration_seconds",
        kind=MetricType.SUMMARY,
        help="Time taken by each phase of a pass, in more detail than Cluster Autoscaler's functions: count and sum.",
        labels={"phase": "as in `timings` of a plan"},
    ),
    counter(
        "decisions_total",
        "Results of scale-up and scale-down, per pass.",
        step=f"`{PassActivity.SCALE_UP}`, `{PassActivity.SCALE_DOWN}`",
        result="see the list of reasons",
    ),
    gauge(
        "waiting_pods_count",
        "Pending pods that do not take part in scale-up, by reason; a reason that no longer applies to "
        "any pod shows 0.",
        reason="see the list of reasons",
    ),
    gauge(
        "skipped_node_groups_count",
        "Node groups skipped in the last planned scale-up, by reason; a reason that no longer applies shows 0.",
        reason="see the list of reasons",
    ),
    counter("watch_restarts_total", "Watches that were reopened, including after normal ends.", path=""),
    counter("watch_relists_total", "Complete lists of a kind, including the first.", path=""),
    counter("watch_failures_total", "Lists and watches that failed.", path=""),
    counter("watch_decode_seconds_total", "Time spent on decoding and storing objects from the API server.", path=""),
    gauge("undecoded_objects", "Objects that cannot be decoded; each keeps its last known state.", path=""),
    gauge("watch_silence_seconds", "Time since the last update of a kind, at the start of the last pass.", path=""),
    counter(
        "api_retries_total",
        "Calls that the API server asked to repeat later.",
        verb="HTTP method",
        result="`sent` again, or `given_up`",
    ),
    gauge("clock_ahead_seconds", "How far the wall clock is ahead of the API server's; negative means behind."),
    counter("events_dropped_total", "Kubernetes events dropped because the API server was too slow or refused them."),
    Metric(
        name="leader_election_master_status",
        kind=MetricType.GAUGE,
        help="Whether this replica holds the lease: 1 or 0.",
        labels={"name": "name of the lease"},
        foreign=True,
    ),
    Metric(
        name="node_autoscaler_build_info",
        kind=MetricType.GAUGE,
        help="Always 1; the label is the version of the node autoscaler.",
        labels={"version": ""},
        foreign=True,
    ),
)
