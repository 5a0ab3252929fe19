"""Metrics of reservations: their table, and methods that set them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus

from msgspec.structs import replace

from autoscaler.observe.metrics.definitions import Metric, counter, gauge, histogram, listed
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


_PLANNED: tuple[Metric, ...] = (
    gauge("reservations", "Reservations by state.", target="", state=listed(_STATES)),
    gauge("reservations_slots", "Reservations that may be active at a time; +Inf without `maxReplicas`.", target=""),
    gauge(
        "reservations_lead_seconds",
        "How long before an override begins its `minReplicas` counts; 0 means that nothing is learned.",
        target="",
    ),
    gauge("reservations_virtual_pods", "Virtual pods in decisions.", target=""),
    gauge(
        "reservations_unplaceable",
        "Virtual pods without room and without an upcoming node.",
        target="",
        reason=listed(Unplaceable),
    ),
    histogram("reservation_capacity_ready_seconds", "Time from acceptance to room on a ready node.", _WAIT),
    gauge("reservation_state_unreadable", "Whether the stored state cannot be read: 1 or 0.", target=""),
)
"""Metrics that the leader sets in each pass."""

_TAKEN_IN: tuple[Metric, ...] = (
    counter(
        "reservation_events_total",
        "Announcements, by result.",
        target="",
        result=listed(OperationVerdict),
        reason="as in docs/reasons.md; may be empty",
    ),
    counter("reservations_expired_total", "Reservations that expired.", target=""),
    counter("reservations_extended_total", "Reservations that got a slot after a wait.", target=""),
    histogram("reservation_batch_size", "Operations stored in one attempt.", _BATCH, target=""),
    histogram("reservation_batch_latency_seconds", "Time from receiving an operation until it is stored.", _LATENCY),
    counter("reservation_store_writes_total", "Writes to the store.", target="", result=listed(StoreWriteResult)),
    counter("reservation_retry_attempts_total", "Attempts repeated after a failure.", target=""),
    gauge("reservation_backlog", "Operations that wait to be stored.", target=""),
    counter("reservation_dropped_total", "Operations and reservations lost.", target="", reason=listed(_DROPS)),
    gauge("reservation_queue_length", "Operations that wait to be stored, of all targets."),
    counter(
        "webhook_requests_total", "Requests to the listener for announcements.", path="the route, or `other`", code=""
    ),
    counter("webhook_signature_failures_total", "Requests whose signature was missing, wrong or stale."),
    histogram("reservation_wait_seconds", "Time from acceptance to a slot.", _WAIT),
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
        """Set how many seconds before the start of an override its floor begins to count."""
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
        """Count the effects of a stored plan besides its operations."""
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
