"""Stores operations in batches per target, and retries failures per target.

Runs on every replica, leading or standby. Object versions guard the store, and ids prevent duplicate operations.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from autoscaler.clock import Clock, Instant
from autoscaler.config.reservations import Reservations, ReservationTarget
from autoscaler.errors import AutoscalerError, Conflict, RetryLater
from autoscaler.logs import Log
from autoscaler.ports import EventSink, EventType, Executor, Subject
from autoscaler.reasons import NoReservation
from autoscaler.reservations.metrics import ReservationMetrics, StoreWriteResult
from autoscaler.reservations.plan import Operation, OperationResult, OperationVerdict, ReservationPlan, plan
from autoscaler.reservations.state import TargetState, Unreadable, known, read_state, write_state
from autoscaler.reservations.status import InboxStatus
from autoscaler.reservations.store import ConfigMapStore

log = Log(__name__)

_CONFLICTS = 5
_FLUSH_S = 10.0
_FLUSH_PAUSE_S = 0.25


class OperationReceipt:
    """An operation that is waiting to be stored; a `ports.Receipt`."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.effect: OperationResult | None = None
        self._settled = threading.Event()

    def wait(self, seconds: float) -> OperationResult | None:
        """Wait for the result; return None if the operation is not stored within these seconds."""
        self._settled.wait(seconds)
        return self.effect

    def settle(self, effect: OperationResult) -> None:
        """Set the result, and wake all threads that wait for it."""
        self.effect = effect
        self._settled.set()


class _TargetQueue:
    """The queue and the known state of one target."""

    def __init__(self) -> None:
        self.waiting: deque[OperationReceipt] = deque()
        self.scheduled = False
        self.busy = False
        self.failures = 0
        self.failing_since: Instant | None = None
        self.state: TargetState | None = None
        """None if it has not been read or is unreadable."""
        self.unreadable = ""


class ReservationInbox:
    """The inbox of reservations. Threads may share it."""

    def __init__(
        self,
        section: Reservations,
        store: ConfigMapStore,
        executor: Executor,
        clock: Clock,
        metrics: ReservationMetrics,
        events: EventSink,
    ) -> None:
        self._section = section
        self._store = store
        self._executor = executor
        self._clock = clock
        self._metrics = metrics
        self._events = events
        self._lock = threading.Lock()
        self._lines = {name: _TargetQueue() for name in section.by_name}
        self.added: Callable[[], None] = lambda: None
        """Called after reservations were added."""
        self.accepting = True
        """Whether new operations are accepted."""

    @property
    def section(self) -> Reservations:
        """The current configuration."""
        return self._section

    @property
    def loaded(self) -> bool:
        """Whether every target has been read once, even if it was unreadable."""
        with self._lock:
            return all(line.state is not None or line.unreadable for line in self._lines.values())

    def put(self, item: Operation) -> OperationReceipt | None:
        """Accept an operation; return None if too many operations of all targets are waiting."""
        ticket = OperationReceipt(item)
        with self._lock:
            if (
                not self.accepting
                or sum(len(line.waiting) for line in self._lines.values()) >= self._section.queue_limit
            ):
                return None
            line = self._lines.get(item.target)
            if line is None:
                ticket.settle(_refused(NoReservation.TARGET_GONE))
                return ticket
            line.waiting.append(ticket)
            if not (line.scheduled or line.busy):
                self._schedule(item.target, line, item.accepted.later(self._section.batch_window_s))
            self._count()
        return ticket

    def state(self, target: str) -> TargetState | None:
        """Return the last known state of a target; None if unknown."""
        with self._lock:
            line = self._lines.get(target)
            return None if line is None else line.state

    def unreadable(self, target: str) -> str:
        """Return why a target's stored state is unreadable; empty if it is readable."""
        with self._lock:
            line = self._lines.get(target)
            return "" if line is None else line.unreadable

    def status(self, target: str) -> InboxStatus:
        """Return the status of a target's queue; empty for a target that is not configured."""
        with self._lock:
            line = self._lines.get(target) or _TargetQueue()
            loaded = line.state is not None or bool(line.unreadable)
            return InboxStatus(loaded=loaded, unreadable=line.unreadable, waiting=len(line.waiting))

    def remembers(self, delivery: str, wall: float) -> bool:
        """Whether a delivery is stored in the state that this replica has read."""
        with self._lock:
            states = [line.state for line in self._lines.values() if line.state is not None]
        return any(known(state.deliveries, delivery, wall) for state in states)

    def configure(self, section: Reservations) -> None:
        """Use another configuration; drop the operations of targets that no longer exist."""
        with self._lock:
            self._section = section
            gone = {name: self._lines.pop(name) for name in self._lines.keys() - section.by_name.keys()}
            for name in section.by_name.keys() - self._lines.keys():
                self._lines[name] = _TargetQueue()
            dropped = {name: list(line.waiting) for name, line in gone.items()}
            for line in gone.values():
                line.waiting.clear()
            self._count()
        for name, tickets in dropped.items():
            self._drop(name, tickets, NoReservation.TARGET_GONE)
            self._metrics.forget(name)

    def load(self) -> bool:
        """Read every target that has not been read yet; return False if some still have not."""
        for name, line in list(self._lines.items()):
            if line.state is None and not line.unreadable:
                try:
                    kept = self._store.read(name)
                except AutoscalerError as error:
                    log.warning("reservations.not_loaded", target=name, error=error)
                    continue
                self._read(name, line, None if kept is None else kept.text)
        return self.loaded

    def refresh(self) -> None:
        """Read the changes of other replicas; raises `AutoscalerError`."""
        before = {name: (line, line.state) for name, line in list(self._lines.items())}
        stored = self._store.read_all()
        for name, (line, state) in before.items():
            committed = line.busy or line.state is not state
            if not committed and (name in stored or not line.unreadable):
                kept = stored.get(name)
                self._read(name, line, None if kept is None else kept.text)

    def store_expiries(self) -> None:
        """Store changes that are due to time alone; only the leader calls this."""
        now = self._clock.now()
        for name, target in self._section.by_name.items():
            state, line = self.state(name), self._lines.get(name)
            if state is None or line is None or line.scheduled:
                continue
            if plan(state, (), target, now.wall, self._section.replay_ttl_s).changed:
                self._attempt(name)

    def close(self) -> None:
        """Accept nothing more, and store accepted operations for at most ten seconds."""
        with self._lock:
            self.accepting = False
        give_up = self._clock.now().mono + _FLUSH_S
        while self._clock.now().mono < give_up:
            with self._lock:
                left = [name for name, line in self._lines.items() if line.waiting]
            if not left:
                return
            for name in left:
                self._attempt(name)
            with self._lock:
                waiting = any(line.waiting for line in self._lines.values())
            if waiting and not self._executor.sleep(_FLUSH_PAUSE_S):
                break
        with self._lock:
            lost = sum(len(line.waiting) for line in self._lines.values())
        if lost:
            log.error("reservations.not_flushed", operations=lost)

    def _schedule(self, name: str, line: _TargetQueue, when: Instant) -> None:
        line.scheduled = True
        self._executor.call_at(when, partial(self._due, name))

    def _due(self, name: str) -> None:
        with self._lock:
            line = self._lines.get(name)
            if line is None:
                return
            line.scheduled = False
        self._attempt(name)

    def _attempt(self, name: str) -> None:
        """Plan and write the waiting operations of a target; no other thread does so for this target meanwhile."""
        with self._lock:
            line, target = self._lines.get(name), self._section.by_name.get(name)
            if line is None or target is None or line.busy:
                return
            line.busy = True
            tickets = list(line.waiting)
        done: ReservationPlan | None = None
        failure: AutoscalerError | None = None
        try:
            done = self._commit(name, line, target, [ticket.operation for ticket in tickets])
        except Unreadable:
            self._settle(name, tickets, [_refused(NoReservation.STATE_UNREADABLE)] * len(tickets))
        except AutoscalerError as error:
            failure = error
            log.warning("reservations.not_stored", target=name, operations=len(tickets), error=error)
        except Exception as error:  # noqa: BLE001  # top of a thread: a bug here must not lose what was taken
            failure = RetryLater(str(error))
            log.crashed("reservations.crashed", target=name)
        self._end(name, line, tickets, failure)
        if done is not None:
            self._account(name, done, tickets)
            self._settle(name, tickets, list(done.effects))

    def _commit(
        self, name: str, line: _TargetQueue, target: ReservationTarget, operations: list[Operation]
    ) -> ReservationPlan:
        """Read, plan and write until there is no conflict; raises `AutoscalerError` and `Unreadable`."""
        conflict: Conflict | None = None
        for _ in range(1 + _CONFLICTS):
            kept = self._store.read(name)
            state = self._read(name, line, None if kept is None else kept.text)
            if state is None:
                raise Unreadable(line.unreadable)
            planned = plan(state, operations, target, self._clock.now().wall, self._section.replay_ttl_s)
            if not planned.changed:
                return planned
            try:
                self._store.write(name, write_state(planned.state), kept)
            except Conflict as error:
                conflict = error
                self._metrics.wrote(name, StoreWriteResult.CONFLICT)
                continue
            except AutoscalerError:
                self._metrics.wrote(name, StoreWriteResult.ERROR)
                raise
            self._metrics.wrote(name, StoreWriteResult.OK)
            with self._lock:
                line.state = planned.state
            return planned
        assert conflict is not None
        raise conflict

    def _end(
        self, name: str, line: _TargetQueue, tickets: list[OperationReceipt], failure: AutoscalerError | None
    ) -> None:
        """Schedule the operations that still wait after an attempt; drop them if the store has failed for too long."""
        with self._lock:
            line.busy = False
            given_up = []
            if failure is None:
                self._succeeded(name, line, tickets)
            elif line.waiting:
                given_up = self._failed(name, line)
            self._count()
        if given_up:
            self._drop(name, given_up, NoReservation.GIVEN_UP)
            text = f"{len(given_up)} operations on reservations were dropped, the store failed for too long: {failure}"
            self._events.event(self._subject(name), EventType.WARNING, "ReservationsDropped", text)

    def _succeeded(self, name: str, line: _TargetQueue, tickets: list[OperationReceipt]) -> None:
        """Remove the tickets from the queue and schedule the rest; the caller holds the lock."""
        line.failures, line.failing_since = 0, None
        done = {id(ticket) for ticket in tickets}
        line.waiting = deque(ticket for ticket in line.waiting if id(ticket) not in done)
        if line.waiting and not line.scheduled:
            first = line.waiting[0].operation.accepted
            self._schedule(name, line, first.later(self._section.batch_window_s))

    def _failed(self, name: str, line: _TargetQueue) -> list[OperationReceipt]:
        """Schedule another attempt, or return the abandoned tickets; the caller holds the lock."""
        now = self._clock.now()
        since = line.failing_since = line.failing_since or now
        delays = self._section.retry_delays
        delay_s = delays[min(line.failures, len(delays) - 1)]
        line.failures += 1
        if now.mono - since.mono >= self._section.give_up_after_s:
            given_up = list(line.waiting)
            line.waiting.clear()
            line.failures, line.failing_since = 0, None
            return given_up
        if self.accepting and not line.scheduled:
            self._metrics.retried(name)
            self._schedule(name, line, now.later(delay_s))
        return []

    def _read(self, name: str, line: _TargetQueue, text: str | None) -> TargetState | None:
        try:
            state = TargetState() if text is None else read_state(text)
        except Unreadable as error:
            if not line.unreadable:
                log.error("reservations.unreadable", target=name, error=error)
                message = f"state.json cannot be understood and is left alone: {error}"
                self._events.event(self._subject(name), EventType.WARNING, "ReservationsUnreadable", message)
            with self._lock:
                line.state, line.unreadable = None, str(error) or "unreadable"
            self._metrics.unreadable(name, True)
            return None
        with self._lock:
            line.state, line.unreadable = state, ""
        self._metrics.unreadable(name, False)
        return state

    def _account(self, name: str, done: ReservationPlan, tickets: list[OperationReceipt]) -> None:
        self._metrics.planned(name, done)
        if tickets:
            now = self._clock.now()
            latencies = [now.mono - ticket.operation.accepted.mono for ticket in tickets]
            outcome = Counter(effect.verdict.value for effect in done.effects)
            seconds = round(max(latencies), 3)
            log.info("reservations.stored", target=name, operations=len(tickets), outcome=outcome, seconds=seconds)
            self._metrics.batch(name, latencies)
        if any(effect.verdict is OperationVerdict.ADDED for effect in done.effects):
            self.added()

    def _settle(self, name: str, tickets: list[OperationReceipt], effects: list[OperationResult]) -> None:
        for ticket, effect in zip(tickets, effects, strict=True):
            self._metrics.event(name, effect)
            ticket.settle(effect)

    def _drop(self, name: str, tickets: list[OperationReceipt], reason: NoReservation) -> None:
        if tickets:
            log.error("reservations.dropped", target=name, operations=len(tickets), reason=reason)
            self._metrics.dropped(name, reason, len(tickets))
        self._settle(name, tickets, [_refused(reason)] * len(tickets))

    def _count(self) -> None:
        for name, line in self._lines.items():
            self._metrics.backlog(name, len(line.waiting))
        self._metrics.queue_length(sum(len(line.waiting) for line in self._lines.values()))

    def _subject(self, name: str) -> Subject:
        store = self._section.store
        return Subject(kind="ConfigMap", name=store.prefix + name, namespace=store.namespace)


def _refused(reason: NoReservation) -> OperationResult:
    return OperationResult(verdict=OperationVerdict.REFUSED, reason=reason)
