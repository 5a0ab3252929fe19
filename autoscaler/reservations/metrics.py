"""Metrics of reservations: their table, and methods that set them."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus

from msgspec.structs import replace

from autoscaler.observe.metrics.definitions import Metric, MetricType
from autoscaler.observe.metrics.series import MetricSeries
from autoscaler.reasons import NoReservation, Unplaceable
from autoscaler.reservations.plan import OperationResult, OperationVerdict, ReservationPlan
from autoscaler.reservations.pods import TargetDemand

_BATCH = (1, 2, 5, 10, 25, 50, 100, 250, 1000)
_LATENCY = (0.1, 0.5, 1.0, 2.0, 3.0, 3.5, 4.0, 5.0, 8.0, 15.0, 30.0, 60.0, 300.0, 3600.0)
_WAIT = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0, 86400.0)
_STATES = ("active", "queued")
_UNLIMITED = float("inf")
_DROPS = (NoReservation.TARGET_GONE, NoReservation.GIVEN_UP, NoReservation.MAX_QUEUE_AGE)


class StoreWriteResult(StrEnum):
    """The result of a write to the store."""

    OK = "ok"
    CONFLICT = "conflict"
    ERROR = "error"


def _of_target(
    name: str,
    text: str,
    *labels: str,
    kind: MetricType = MetricType.GAUGE,
    buckets: Sequence[float] = (),
    **values: str,
) -> Metric:
    return Metric(
        name=name, kind=kind, help=text, labels=("target", *labels), values=values, buckets=tuple(map(float, buckets))
    )


def _ticked(words: Iterable[object]) -> str:
    return ", ".join(f"`{word}`" for word in words)


_PLANNED: tuple[Metric, ...] = (
    _of_target("reservations", "Reservations by state.", "state", state=_ticked(_STATES)),
    _of_target("reservations_slots", "Reservations that may be active at a time; +Inf without `maxReplicas`."),
    _of_target(
        "reservations_lead_seconds",
        "How long before an override begins its `minReplicas` counts; 0 means that nothing is learned.",
    ),
    _of_target("reservations_virtual_pods", "Virtual pods in decisions."),
    _of_target(
        "reservations_unplaceable",
        "Virtual pods without room and without an upcoming node.",
        "reason",
        reason=_ticked(Unplaceable),
    ),
    Metric(
        name="reservation_capacity_ready_seconds",
        kind=MetricType.HISTOGRAM,
        help="Time from acceptance to room on a ready node.",
        buckets=_WAIT,
    ),
    _of_target("reservation_state_unreadable", "Whether the stored state cannot be read: 1 or 0."),
)
"""Metrics that the leader sets in each pass."""

_TAKEN_IN: tuple[Metric, ...] = (
    _of_target(
        "reservation_events_total",
        "Announcements, by result.",
        "result",
        "reason",
        kind=MetricType.COUNTER,
        result=_ticked(OperationVerdict),
        reason="as in docs/reasons.md; may be empty",
    ),
    _of_target("reservations_expired_total", "Reservations that expired.", kind=MetricType.COUNTER),
    _of_target("reservations_extended_total", "Reservations that got a slot after a wait.", kind=MetricType.COUNTER),
    _of_target(
        "reservation_batch_size", "Operations stored in one attempt.", kind=MetricType.HISTOGRAM, buckets=_BATCH
    ),
    Metric(
        name="reservation_batch_latency_seconds",
        kind=MetricType.HISTOGRAM,
        help="Time from receiving an operation until it is stored.",
        buckets=_LATENCY,
    ),
    _of_target(
        "reservation_store_writes_total",
        "Writes to the store.",
        "result",
        kind=MetricType.COUNTER,
        result=_ticked(StoreWriteResult),
    ),
    _of_target("reservation_retry_attempts_total", "Attempts repeated after a failure.", kind=MetricType.COUNTER),
    _of_target("reservation_backlog", "Operations that wait to be stored."),
    _of_target(
        "reservation_dropped_total",
        "Operations and reservations lost.",
        "reason",
        kind=MetricType.COUNTER,
        reason=_ticked(_DROPS),
    ),
    Metric(
        name="reservation_queue_length",
        kind=MetricType.GAUGE,
        help="Operations that wait to be stored, of all targets.",
    ),
    Metric(
        name="webhook_requests_total",
        kind=MetricType.COUNTER,
        help="Requests to the listener for announcements.",
        labels=("path", "code"),
        values={"path": "the route, or `other`"},
    ),
    Metric(
        name="webhook_signature_failures_total",
        kind=MetricType.COUNTER,
        help="Requests whose signature was missing, wrong or stale.",
    ),
    Metric(
        name="reservation_wait_seconds",
        kind=MetricType.HISTOGRAM,
        help="Time from acceptance to a slot.",
        buckets=_WAIT,
    ),
)
"""Metrics of every replica: accepting announcements and storing them."""

RESERVATIONS: tuple[Metric, ...] = (*_PLANNED, *(replace(metric, on_standby=True) for metric in _TAKEN_IN))


class ReservationMetrics:
    """Metrics of the targets of one process. Threads may share it."""

    def __init__(self, series: MetricSeries) -> None:
        """`series` must have been created from `RESERVATIONS`."""
        self._series = series

    def demand(self, target: str, demand: TargetDemand) -> None:
        """Set the demand of a target in a pass."""
        self._series.set("reservations", demand.active, target, "active")
        self._series.set("reservations", demand.queued, target, "queued")
        self._series.set("reservations_slots", _UNLIMITED if demand.slots is None else demand.slots, target)
        self._series.set("reservations_virtual_pods", demand.virtual, target)

    def lead(self, target: str, seconds: float) -> None:
        """Set how many seconds before an override begins its floor counts."""
        self._series.set("reservations_lead_seconds", seconds, target)

    def unplaceable(self, target: str, pods: Mapping[Unplaceable, int]) -> None:
        """Set the number of fake pods without room, by reason."""
        for reason in Unplaceable:
            if reason in pods:
                self._series.set("reservations_unplaceable", pods[reason], target, reason)
            else:
                self._series.discard("reservations_unplaceable", target, reason)

    def event(self, target: str, effect: OperationResult) -> None:
        """Count the result of an operation."""
        self._series.add("reservation_events_total", 1, target, effect.verdict, effect.reason or "")

    def ignored(self, target: str, reason: NoReservation) -> None:
        """Count an announcement that changes nothing; `target` is empty if it matches none."""
        verdict = OperationVerdict.DUPLICATE if reason is NoReservation.DUPLICATE else OperationVerdict.IGNORED
        if reason in (NoReservation.QUEUE_FULL, NoReservation.STATE_UNREADABLE):
            verdict = OperationVerdict.REFUSED
        self._series.add("reservation_events_total", 1, target, verdict, reason)

    def planned(self, target: str, plan: ReservationPlan) -> None:
        """Count what a stored plan did besides its operations."""
        self._series.add("reservations_expired_total", plan.expired, target)
        self._series.add("reservations_extended_total", plan.extended, target)
        if plan.too_old:
            self.dropped(target, NoReservation.MAX_QUEUE_AGE, plan.too_old)
        for seconds in plan.waits_s:
            self._series.observe("reservation_wait_seconds", seconds)

    def batch(self, target: str, latencies_s: Sequence[float]) -> None:
        """Count a stored batch of operations, and record the latency of each in seconds."""
        self._series.observe("reservation_batch_size", len(latencies_s), target)
        for seconds in latencies_s:
            self._series.observe("reservation_batch_latency_seconds", seconds)

    def wrote(self, target: str, result: StoreWriteResult) -> None:
        """Count a write to the store."""
        self._series.add("reservation_store_writes_total", 1, target, result)

    def retried(self, target: str) -> None:
        """Count a postponed attempt."""
        self._series.add("reservation_retry_attempts_total", 1, target)

    def backlog(self, target: str, operations: int) -> None:
        """Set the number of waiting operations of a target."""
        self._series.set("reservation_backlog", operations, target)

    def queue_length(self, operations: int) -> None:
        """Set the number of all waiting operations."""
        self._series.set("reservation_queue_length", operations)

    def dropped(self, target: str, reason: NoReservation, count: int) -> None:
        """Count lost operations or reservations."""
        self._series.add("reservation_dropped_total", count, target, reason)

    def announced_at(self, path: str) -> None:
        """Create the series of refused announcements at a route with the value 0, so that alerts see the first
        refusal.
        """
        self._series.add("webhook_requests_total", 0, path, str(HTTPStatus.SERVICE_UNAVAILABLE.value))

    def answered(self, path: str, code: int) -> None:
        """Count a response of the listener."""
        self._series.add("webhook_requests_total", 1, path, str(code))

    def not_signed(self) -> None:
        """Count a request without a valid signature."""
        self._series.add("webhook_signature_failures_total", 1)

    def capacity_ready(self, seconds: float) -> None:
        """Record how many seconds a reservation took to get room on a ready node."""
        self._series.observe("reservation_capacity_ready_seconds", seconds)

    def unreadable(self, target: str, is_so: bool) -> None:
        """Set whether a target's state is unreadable."""
        self._series.set("reservation_state_unreadable", is_so, target)

    def forget(self, target: str) -> None:
        """Remove the gauges of a target that is no longer configured."""
        for state in _STATES:
            self._series.discard("reservations", target, state)
        for name in (
            "reservations_slots",
            "reservations_lead_seconds",
            "reservations_virtual_pods",
            "reservation_backlog",
            "reservation_state_unreadable",
        ):
            self._series.discard(name, target)
        self.unplaceable(target, {})
