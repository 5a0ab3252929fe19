"""Cluster Autoscaler's metrics, as its newest version has them: what is published here is held against this list."""

import re
from collections.abc import Mapping
from typing import NamedTuple

FUNCTIONS = (
    "main",
    "cloudProviderRefresh",
    "updateClusterState",
    "filterOutSchedulable",
    "findUnneeded",
    "scaleUp",
    "scaleUp:estimate",
    "scaleDown",
    "scaleDown:nodeDeletion",
    "scaleDown:softTaintUnneeded",
    "loopWait",
)
REASONS = ("cloudProviderError", "apiCallError", "timeout")
ERRORS = (
    "cloudProviderError",
    "apiCallError",
    "internalError",
    "transientError",
    "configurationError",
    "nodeGroupDoesNotExistError",
    "unexpectedScaleDownStateError",
)
REMOVED = ("underutilized", "empty", "unready")
UNREMOVABLE = (
    "ScaleDownDisabledAnnotation",
    "ScaleDownUnreadyDisabled",
    "NotAutoscaled",
    "NotUnneededLongEnough",
    "NotUnreadyLongEnough",
    "NodeGroupMinSizeReached",
    "NodeGroupMaxDeletionCountReached",
    "AtomicScaleDownFailed",
    "MinimalResourceLimitExceeded",
    "CurrentlyBeingDeleted",
    "NotUnderutilized",
    "NotUnneededOtherReason",
    "RecentlyUnremovable",
    "NoPlaceToMovePods",
    "BlockedByPod",
    "UnexpectedError",
    "NoNodeInfo",
    "BlockedByOnCompletionPod",
)
"""Why nodes stay; here there are more reasons, for nodes of which Cluster Autoscaler says nothing."""
OPEN: tuple[str, ...] = ()
"""Values that somebody else makes up."""
GPU = {"gpu_resource_name": OPEN, "gpu_name": OPEN}
DEVICES = {**GPU, "dra_drivers": OPEN}


class Theirs(NamedTuple):
    """Type, values by label, and buckets of a metric."""

    kind: str
    labels: Mapping[str, tuple[str, ...]] = {}
    buckets: tuple[float, ...] = ()


THEIRS = {
    "cluster_safe_to_autoscale": Theirs("gauge"),
    "nodes_count": Theirs(
        "gauge", {"state": ("ready", "unready", "notStarted", "suspended", "longUnregistered", "unregistered")}
    ),
    "node_groups_count": Theirs("gauge", {"node_group_type": ("autoscaled", "autoprovisioned")}),
    "unschedulable_pods_count": Theirs(
        "gauge", {"type": ("unschedulable", "scheduler_unprocessed", "injected", "skipped_injection")}
    ),
    "skipped_pods_count": Theirs("gauge", {"requestor": ("filter-out-pod-list-processor",)}),
    "max_nodes_count": Theirs("gauge"),
    "nap_enabled": Theirs("gauge"),
    "capacity_buffer_oldest_reconciliation_timestamp_seconds": Theirs("gauge", {"new_buffer": ("true", "false")}),
    "cluster_cpu_current_cores": Theirs("gauge"),
    "cluster_memory_current_bytes": Theirs("gauge"),
    "cpu_limits_cores": Theirs("gauge", {"direction": ("minimum", "maximum")}),
    "memory_limits_bytes": Theirs("gauge", {"direction": ("minimum", "maximum")}),
    "last_activity": Theirs("gauge", {"activity": ("main", "mainSuccessful", "autoscaling", "scaleUp", "scaleDown")}),
    "function_duration_seconds": Theirs(
        "histogram", {"function": FUNCTIONS}, tuple(0.1 * (1800 / 0.1) ** (step / 149) for step in range(150))
    ),
    "function_duration_quantile_seconds": Theirs("summary", {"function": FUNCTIONS}),
    "errors_total": Theirs("counter", {"type": ERRORS}),
    "scaled_up_nodes_total": Theirs("counter", DEVICES),
    "scaled_up_gpu_nodes_total": Theirs("counter", GPU),
    "failed_scale_ups_total": Theirs("counter", {"reason": OPEN, **DEVICES}),
    "failed_node_creations_total": Theirs("counter", {"reason": OPEN}),
    "failed_gpu_scale_ups_total": Theirs("counter", {"reason": OPEN, **GPU}),
    "scaled_down_nodes_total": Theirs("counter", {"reason": REMOVED, **DEVICES}),
    "scaled_down_gpu_nodes_total": Theirs("counter", {"reason": REMOVED, **GPU}),
    "evicted_pods_total": Theirs("counter", {"eviction_result": ("succeeded", "failed")}),
    "unneeded_nodes_count": Theirs("gauge"),
    "unremovable_nodes_count": Theirs("gauge", {"reason": OPEN}),
    "scale_down_in_cooldown": Theirs("gauge"),
    "old_unregistered_nodes_removed_count": Theirs("counter"),
    "overflowing_controllers_count": Theirs("gauge"),
    "skipped_scale_events_count": Theirs(
        "counter", {"direction": ("up", "down"), "reason": ("CpuResourceLimit", "MemoryResourceLimit")}
    ),
    "pending_node_deletions": Theirs("gauge"),
    "node_taints_count": Theirs("gauge", {"type": OPEN}),
    "binpacking_heterogeneity": Theirs(
        "histogram",
        {
            "instance_type": OPEN,
            "cpu_count": OPEN,
            "namespace_count": ("1", "2", "3", "4", "5", "6-10", "11+"),
        },
        (1, 2, 4, 8, 16, 32),
    ),
    "max_node_skip_eval_duration_seconds": Theirs("gauge"),
    "node_removal_latency_seconds": Theirs(
        "histogram",
        {"deleted": ("true", "false"), "delay_reason": OPEN},
        tuple(1.5**step for step in range(19)),
    ),
    "dra_node_template_resources_mismatch": Theirs(
        "gauge", {"driver": OPEN, "mismatch_type": ("missing", "extra", "mismatch")}
    ),
    "node_group_min_count": Theirs("gauge", {"node_group": OPEN}),
    "node_group_max_count": Theirs("gauge", {"node_group": OPEN}),
    "node_group_target_count": Theirs("gauge", {"node_group": OPEN}),
    "node_group_healthiness": Theirs("gauge", {"node_group": OPEN}),
    "node_group_backoff_status": Theirs("gauge", {"node_group": OPEN, "reason": OPEN}),
}
"""What is published here. Of `created_node_groups_total`, `deleted_node_groups_total` and
`inconsistent_instances_migs_count` nothing is, nor of values of labels that stand for features which are not here."""

_SAMPLE = re.compile(r'([{,])(\w+)="((?:[^"\\]|\\.)*)"')


def labels_of(series: str) -> dict[str, str]:
    """Return the labels of a scraped series."""
    return {name: value for _, name, value in _SAMPLE.findall(series)}


def family_of(series: str) -> str:
    """Return the name of the metric that a scraped series, without prefix, belongs to."""
    name = series.partition("{")[0]
    return name if name in THEIRS else re.sub(r"_(bucket|sum|count)$", "", name)


def wrong_values(series: str) -> dict[str, str]:
    """Return the labels of a series whose values, or which themselves, Cluster Autoscaler does not have."""
    known = THEIRS[family_of(series)].labels
    found = labels_of(series)
    found.pop("le", None)
    strange = {name: value for name, value in found.items() if known.get(name) and value not in known[name]}
    return strange | {name: value for name, value in found.items() if name not in known}
