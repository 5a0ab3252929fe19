"""Metrics of start-up estimates and of the clean-up of expired pods."""

from collections.abc import Mapping

from autoscaler.eta.capacity import NO_GROUP, ClusterCapacity, ResourceTotals
from autoscaler.eta.estimate import StartEstimate, WaitLevel
from autoscaler.eta.samples import DurationSpread
from autoscaler.objects import quantity
from autoscaler.observe.metrics.definitions import Metric, counter, gauge, histogram, listed
from autoscaler.observe.metrics.series import MetricSeries
from autoscaler.reasons import DeleteReason, UnknownStart

_SECONDS = (5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BOOTS = (15.0, 30.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 450.0, 600.0, 900.0)
_STATES = ("provisioned", "capacity", "upcoming", "running", "starting", "headroom_running")
_CLUSTER_STATES = ("pending", "headroom_pending")


ETA: tuple[Metric, ...] = (
    gauge(
        "capacity",
        "Existing and requested amounts: cores, bytes, pieces.",
        resource="",
        state=listed((*_STATES, *_CLUSTER_STATES)),
        node_group="empty: nodes of none, and pending pods",
    ),
    gauge("capacity_wanted_ratio", "Requested amount divided by provisioned amount.", resource=""),
    gauge("capacity_snapshot_age_seconds", "Age of these totals."),
    histogram(
        "pod_start_estimate_seconds",
        "First estimates of the time until ready.",
        _SECONDS,
        quantile_kind="`expected`, `worst`",
    ),
    histogram("pod_start_actual_seconds", "Time from the request of a pod until it is ready.", _SECONDS),
    histogram(
        "pod_start_estimate_abs_error_seconds",
        "Absolute error of first estimates.",
        _SECONDS,
        direction="`early`, `late`",
        level=listed(level.value for level in WaitLevel),
    ),
    counter(
        "pod_start_estimate_within_worst_total",
        "Pods, by whether they were ready by their first worst-case estimate.",
        result="`yes`, `no`",
    ),
    counter("pod_start_overdue_total", "Pods that took much longer than their worst case."),
    counter(
        "pod_start_unknown_total", "Pods without an estimate; each counts once per reason.", reason=listed(UnknownStart)
    ),
    histogram("node_boot_seconds", "Time from the request of a node until it is ready.", _BOOTS, node_group=""),
    gauge("node_boot_quantile_seconds", "Quantiles of `node_boot_seconds`.", node_group="", quantile=""),
    counter("node_boot_failures_total", "Requested nodes that never registered.", node_group=""),
)

EXPIRY: tuple[Metric, ...] = (
    counter(
        "expired_pods_deleted_total",
        "Pods deleted because they expired.",
        reason=listed((DeleteReason.EXPIRED, DeleteReason.OLD_GENERATION)),
    ),
    counter("expired_pods_invalid_total", "Pods whose deadline cannot be read; counted again in each sweep."),
    counter("expired_pods_sweep_errors_total", "Failed calls of sweeps.", op="`list`, `delete`"),
)


class EtaMetrics:
    """Metrics of capacity and pod starts of one process."""

    def __init__(self, series: MetricSeries) -> None:
        """`series` must have been created from `ETA`."""
        self._series = series
        for result in ("yes", "no"):
            series.add("pod_start_estimate_within_worst_total", 0, result)

    def capacity(self, capacity: ClusterCapacity) -> None:
        """Set the totals; remove those of groups that no longer exist."""
        self._series.clear("capacity")
        self._series.clear("capacity_wanted_ratio")
        for group, totals in capacity.groups.items():
            self._totals(group, totals)
        cluster = capacity.cluster
        for state, part in zip(_CLUSTER_STATES, (cluster.pending, cluster.headroom_pending), strict=True):
            for resource, value in part.items():
                self._series.set("capacity", _units(resource, value), resource, state, NO_GROUP)
        for resource in capacity.resources:
            self._series.set("capacity_wanted_ratio", capacity.cluster.wanted_ratio(resource), resource)

    def _totals(self, group: str, totals: ResourceTotals) -> None:
        parts = (
            totals.provisioned,
            totals.capacity,
            totals.upcoming,
            totals.running,
            totals.starting,
            totals.headroom_running,
        )
        for state, part in zip(_STATES, parts, strict=True):
            for resource, value in part.items():
                self._series.set("capacity", _units(resource, value), resource, state, group)

    def age(self, seconds: float) -> None:
        """Set the age of the totals."""
        self._series.set("capacity_snapshot_age_seconds", seconds)

    def estimated(self, estimate: StartEstimate) -> None:
        """Count a first estimate."""
        if estimate.expected_s is not None and estimate.worst_s is not None:
            self._series.observe("pod_start_estimate_seconds", estimate.expected_s, "expected")
            self._series.observe("pod_start_estimate_seconds", estimate.worst_s, "worst")

    def unknown(self, reason: UnknownStart) -> None:
        """Count a pod without an estimate."""
        self._series.add("pod_start_unknown_total", 1, reason)

    def started(self, seconds: float) -> None:
        """Count a pod that became ready, and the seconds since its request."""
        self._series.observe("pod_start_actual_seconds", max(0.0, seconds))

    def erred(self, error_s: float, level: WaitLevel, within_worst: bool) -> None:
        """Record the error of an estimate: positive means late."""
        direction = "late" if error_s > 0 else "early"
        self._series.observe("pod_start_estimate_abs_error_seconds", abs(error_s), direction, str(level.value))
        self._series.add("pod_start_estimate_within_worst_total", 1, "yes" if within_worst else "no")

    def overdue(self) -> None:
        """Count an overdue pod."""
        self._series.add("pod_start_overdue_total", 1)

    def booted(self, group: str, seconds: float) -> None:
        """Count a node that became ready."""
        self._series.observe("node_boot_seconds", seconds, group)

    def boot_quantiles(self, spreads: Mapping[str, DurationSpread]) -> None:
        """Set how long nodes of each group take."""
        self._series.clear("node_boot_quantile_seconds")
        for group, spread in spreads.items():
            self._series.set("node_boot_quantile_seconds", spread.expected, group, "0.5")
            self._series.set("node_boot_quantile_seconds", spread.worst, group, "0.9")

    def boots_failed(self, failed: Mapping[str, int]) -> None:
        """Count nodes that never came."""
        for group, count in failed.items():
            self._series.add("node_boot_failures_total", count, group)


class ExpiryMetrics:
    """Metrics of expired pods of one process."""

    def __init__(self, series: MetricSeries) -> None:
        """`series` must have been created from `EXPIRY`."""
        self._series = series
        for reason in (DeleteReason.EXPIRED, DeleteReason.OLD_GENERATION):
            series.add("expired_pods_deleted_total", 0, reason)
        for op in ("list", "delete"):
            series.add("expired_pods_sweep_errors_total", 0, op)

    def deleted(self, reason: DeleteReason) -> None:
        """Count a pod that was deleted."""
        self._series.add("expired_pods_deleted_total", 1, reason)

    def invalid(self, pods: int) -> None:
        """Count unreadable deadlines."""
        self._series.add("expired_pods_invalid_total", pods)

    def failed(self, op: str) -> None:
        """Count a call that failed."""
        self._series.add("expired_pods_sweep_errors_total", 1, op)


def _units(resource: str, value: int) -> float:
    return value / 1000 if resource == quantity.CPU else float(value)
