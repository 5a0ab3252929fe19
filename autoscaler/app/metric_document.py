"""Generates docs/metrics.md from the tables of metrics."""

from collections.abc import Iterable

from autoscaler.eta.metrics import ETA, EXPIRY
from autoscaler.headroom.metrics import HEADROOM
from autoscaler.observe.metrics.definitions import TABLE, Metric, MetricCondition
from autoscaler.reservations.metrics import RESERVATIONS

_COMPANIONS = {
    "With `headroom` in the configuration file": HEADROOM,
    "With `reservations` in the configuration file": RESERVATIONS,
    "With `--pod-start-estimates`": ETA,
    "With `--expired-pod-cleanup`": EXPIRY,
}
"""Tables of companions, by the feature that adds their metrics."""

_ABSENT = {
    "`created_node_groups_total`, `deleted_node_groups_total`": "no provider creates groups",
    '`node_groups_count{node_group_type="autoprovisioned"}`': "no provider creates groups: 0",
    "`unschedulable_pods_count` with type `skipped_injection`": "pods beyond `--pod-injection-limit` are not counted",
    "`overflowing_controllers_count`": "the autoscaler handles any number of different pods: 0",
    '`skipped_scale_events_count{direction="down"}`': "Cluster Autoscaler does not count these either: 0",
    '`dra_node_template_resources_mismatch{mismatch_type="missing"}`': (
        "a node that lacks a pool is not ready, and only ready ones are compared: 0"
    ),
    "`function_duration_seconds` of `scaleUp:buildPodEquivalenceGroups`, `scaleUp:skippedNodeGroupsSimulation`": (
        "pods are grouped when they are decoded, and skipped groups are not simulated"
    ),
    "`inconsistent_instances_migs_count`, `bulkListInstances:` functions, request durations of clouds": (
        "parts of Cluster Autoscaler's own adapters"
    ),
    "metrics of the Go runtime and of its client": "this program has no Go runtime; see `watch_*` for the API server",
}
"""Metrics that dashboards for Cluster Autoscaler may use and that are missing or always 0, with the reason."""


def markdown() -> str:
    """Write docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Generated from `autoscaler/observe/metrics/definitions.py` and the tables of companions; do not edit.",
        "",
        "Served at `/metrics` in the Prometheus text format, with the process metrics (`process_*`) of the",
        "Prometheus client. Names, types and labels are Cluster Autoscaler's.",
        "",
        *_table(TABLE),
        "",
        "Label values of GPUs: `gpu_resource_name` is the extended resource, or `dra_` and the driver if pods claim",
        "GPUs as devices. `gpu_name` is the type if the provider knows it, else `not-listed`, `generic`,",
        "`missing-gpu` or `unexpected-label`. All are empty for nodes without GPU.",
        "",
        "## Metrics of Cluster Autoscaler that are missing or always 0",
        "",
        "| Metric | Why |",
        "|---|---|",
        *(f"| {name} | {why} |" for name, why in _ABSENT.items()),
        "",
    ]
    for title, table in _COMPANIONS.items():
        lines += [f"## {title}", "", *_table(table), ""]
    return "\n".join(lines)


def _table(metrics: Iterable[Metric]) -> list[str]:
    return ["| Name | Type | Labels | Meaning |", "|---|---|---|---|", *(_row(metric) for metric in metrics)]


def _row(metric: Metric) -> str:
    labels = "<br>".join(
        f"`{label}`: {meaning}" if meaning else f"`{label}`" for label, meaning in metric.labels.items()
    )
    extra = f" Only with `{metric.when}`." if metric.when is not MetricCondition.ALWAYS else ""
    extra += " On standby replicas too." if metric.on_standby else ""
    return f"| `{metric.full_name}` | {metric.kind} | {labels} | {metric.help}{extra} |"
