"""docs/metrics.md, written from the tables of metrics."""

from collections.abc import Iterable

from autoscaler.observe.headroom_metrics import HEADROOM
from autoscaler.observe.metric_table import TABLE, Metric, When
from autoscaler.observe.reservation_metrics import RESERVATIONS

_COMPANIONS = {"headroom": HEADROOM, "reservations": RESERVATIONS}
"""Tables by the section of the configuration file that brings their metrics."""


def markdown() -> str:
    """Write docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Generated from `autoscaler/observe/metric_table.py` and the tables of companions; do not edit.",
        "",
        "Served at `/metrics` in the Prometheus text format, with the process metrics (`process_*`) of the",
        "Prometheus client. Names, types and labels are Cluster Autoscaler's.",
        "",
        *_table(TABLE),
        "",
        "Label values of GPUs: `gpu_resource_name` is the extended resource, `gpu_name` the type if the provider",
        "knows it (else `not-listed`, `generic` or `missing-gpu`); all are empty without GPU.",
        "",
    ]
    for section, table in _COMPANIONS.items():
        lines += [f"## With `{section}` in the configuration file", "", *_table(table), ""]
    return "\n".join(lines)


def _table(metrics: Iterable[Metric]) -> list[str]:
    return ["| Name | Type | Labels | Meaning |", "|---|---|---|---|", *(_row(metric) for metric in metrics)]


def _row(metric: Metric) -> str:
    labels = "<br>".join(
        f"`{label}`" + (f": {metric.values[label]}" if label in metric.values else "") for label in metric.labels
    )
    extra = f" Only with `{metric.when}`." if metric.when is not When.ALWAYS else ""
    return f"| `{metric.full_name}` | {metric.kind} | {labels} | {metric.help}{extra} |"
