"""Metrics of headroom: their table, and methods that set them."""

from collections.abc import Iterable

from autoscaler.observe.metrics.definitions import Metric, MetricType, counter, gauge, histogram, listed
from autoscaler.observe.metrics.series import MetricSeries
from autoscaler.reasons import HeadroomTrouble

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


HEADROOM: tuple[Metric, ...] = (
    gauge(
        "headroom_pods_desired", "Pause pods that the policy in force, or one that is about to begin, wants.", pool=""
    ),
    gauge(
        "headroom_lead_seconds",
        "How long before a policy begins its pods are requested; 0 means that nothing is learned.",
        pool="",
    ),
    gauge("headroom_pods_target", "Pause pods wanted after the cool-down.", pool=""),
    gauge("headroom_pods_current", "Present replicas of the Deployment.", pool=""),
    gauge("headroom_pods", "Pause pods by state.", pool="", state="`bound`, `pending`"),
    gauge("headroom_active_pods", "Pods of the work that the scale factor multiplies.", pool=""),
    gauge("headroom_policy_active", "Whether the policy applies: 1 or 0.", pool="", policy="its name, or `none`"),
    counter("headroom_scale_operations_total", "Changes of the number of replicas.", pool="", direction="`up`, `down`"),
    counter("headroom_reconcile_errors_total", "Errors in checks of a pool.", pool="", reason=listed(HeadroomTrouble)),
    counter(
        "headroom_drift_corrected_total",
        "Changes by other clients that were reverted.",
        pool="",
        field="`replicas`, `template`, `deleted`",
    ),
    counter("headroom_preempted_total", "Pause pods that were preempted.", pool=""),
    histogram("headroom_reconcile_duration_seconds", "Time taken by one check of all pools.", _BUCKETS),
    gauge(
        "headroom_last_reconcile_timestamp_seconds",
        "When the pool was last in its wanted state, in Unix seconds.",
        pool="",
    ),
    counter("headroom_orphans_deleted_total", "Deployments deleted because no configuration has their pool."),
)

_GAUGES_OF_POOL = tuple(
    metric.name for metric in HEADROOM if metric.kind is MetricType.GAUGE and tuple(metric.labels) == ("pool",)
)
_STATES = ("bound", "pending")


class HeadroomMetrics:
    """Metrics of the pools of one process."""

    def __init__(self, series: MetricSeries) -> None:
        """`series` must have been created from `HEADROOM`."""
        self._series = series
        self._policies: dict[str, tuple[str, ...]] = {}

    def wanted(self, pool: str, *, desired: int, target: int, active: int) -> None:
        """Set the numbers of pods that a pool should have."""
        self._series.set("headroom_pods_desired", desired, pool)
        self._series.set("headroom_pods_target", target, pool)
        self._series.set("headroom_active_pods", active, pool)

    def lead(self, pool: str, seconds: float) -> None:
        """Set how many seconds before a policy begins its pods are requested."""
        self._series.set("headroom_lead_seconds", seconds, pool)

    def found(self, pool: str, *, replicas: int, bound: int, pending: int) -> None:
        """Set the numbers of pods that a pool has."""
        self._series.set("headroom_pods_current", replicas, pool)
        self._series.set("headroom_pods", bound, pool, "bound")
        self._series.set("headroom_pods", pending, pool, "pending")

    def policy(self, pool: str, holds: str, policies: Iterable[str]) -> None:
        """Set which of the pool's policies is active."""
        names = tuple(policies)
        for gone in set(self._policies.get(pool, ())) - set(names):
            self._series.remove("headroom_policy_active", pool, gone)
        self._policies[pool] = names
        for name in names:
            self._series.set("headroom_policy_active", name == holds, pool, name)

    def scaled(self, pool: str, direction: str) -> None:
        """Count a change of the number of replicas."""
        self._series.add("headroom_scale_operations_total", 1, pool, direction)

    def failed(self, pool: str, reason: HeadroomTrouble) -> None:
        """Count a problem that kept a pool from its desired state."""
        self._series.add("headroom_reconcile_errors_total", 1, pool, reason)

    def drifted(self, pool: str, field: str) -> None:
        """Count a change by another client that was reverted."""
        self._series.add("headroom_drift_corrected_total", 1, pool, field)

    def preempted(self, pool: str, pods: int) -> None:
        """Count pause pods that were preempted."""
        self._series.add("headroom_preempted_total", pods, pool)

    def reconciled(self, pool: str, wall: float) -> None:
        """Record when a pool was in its desired state."""
        self._series.set("headroom_last_reconcile_timestamp_seconds", wall, pool)

    def took(self, seconds: float) -> None:
        """Record the duration of one check of all pools."""
        self._series.observe("headroom_reconcile_duration_seconds", seconds)

    def orphan_deleted(self) -> None:
        """Count a Deployment without a pool that was deleted."""
        self._series.add("headroom_orphans_deleted_total", 1)

    def forget(self, pool: str) -> None:
        """Remove the gauges of a pool that is no longer configured."""
        for name in self._policies.pop(pool, ()):
            self._series.remove("headroom_policy_active", pool, name)
        for name in _GAUGES_OF_POOL:
            self._series.discard(name, pool)
        for state in _STATES:
            self._series.discard("headroom_pods", pool, state)
