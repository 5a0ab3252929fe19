"""Sends Kubernetes events (`kubectl describe`) in the background, without delaying the loop."""

import contextlib
import threading
from collections import deque
from typing import Protocol

import msgspec
from msgspec.structs import replace

from autoscaler.clock import Clock, Instant
from autoscaler.errors import AutoscalerError, Conflict, RetryLater
from autoscaler.kube.writes import EventRecord
from autoscaler.logs import Log
from autoscaler.observe.correlator import Correlator, EventCount, ReportedEvent
from autoscaler.observe.status import RecentEvent
from autoscaler.ports import EventType, Executor, Subject

_LONGEST_MESSAGE = 1024  # the API server refuses more
_LONGEST_NAME = 253
_ATTEMPTS = 3
_FIRST_PAUSE_S = 1.0

log = Log(__name__)


class EventStore(Protocol):
    """Stores events; raises `AutoscalerError`. `kube.writes.Writes` is one."""

    def create_event(self, event: EventRecord) -> None:
        """Store a new event."""
        ...

    def repeat_event(self, event: EventRecord) -> None:
        """Update count and last time of a stored event; create it again if it has expired."""
        ...


class Drops(Protocol):
    """Counts dropped events."""

    def events_dropped(self, count: int) -> None:
        """Count `count` more."""
        ...


class _Pending(msgspec.Struct, frozen=True):
    event: ReportedEvent
    instant: Instant


class EventRecorder:
    """A `ports.EventSink` with a bounded queue; when the queue is full, it drops the oldest event.

    It needs an executor of its own, so that an hour-long drain cannot delay events.
    """

    def __init__(
        self,
        writer: EventStore,
        executor: Executor,
        clock: Clock,
        correlator: Correlator,
        drops: Drops,
        *,
        queue_size: int = 1000,
        tail_size: int = 50,
    ) -> None:
        self._writer = writer
        self._executor = executor
        self._clock = clock
        self._correlator = correlator
        self._drops = drops
        self._queue: deque[_Pending] = deque()
        self._queue_size = queue_size
        self._tail: deque[RecentEvent] = deque(maxlen=tail_size)
        self._identities: dict[Subject, Subject] = {}
        self._changed = threading.Condition()
        self._draining = False
        self._stopped = False
        self._serial = 0

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        """Queue one event; returns at once."""
        text = message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 3] + "..."
        subject = self._identities.get(about, about)
        pending = _Pending(ReportedEvent(subject, kind, reason, text), self._clock.now())
        dropped = 0
        with self._changed:
            if self._stopped:
                return
            if len(self._queue) >= self._queue_size:
                self._queue.popleft()
                dropped = 1
            self._queue.append(pending)
            start = not self._draining
            self._draining = True
        if dropped:
            self._drops.events_dropped(dropped)
        if start:
            self._executor.submit(self._drain)

    def identified(self, about: Subject) -> None:
        """Record the uid of an object; events that name the object get it, because `kubectl describe` searches by
        uid.
        """
        self._identities[replace(about, uid="")] = about

    def tail(self) -> tuple[RecentEvent, ...]:
        """Return the newest accepted events, oldest first."""
        with self._changed:
            return tuple(self._tail)

    def stop(self, wait_s: float = 5.0) -> bool:
        """Accept no more events and wait until the queued ones are written; return False on time-out."""
        with self._changed:
            self._stopped = True
            done = self._changed.wait_for(lambda: not self._draining, wait_s)
            left = len(self._queue)
            self._queue.clear()
        if left:
            self._drops.events_dropped(left)
        return done

    def _drain(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._draining = False
                    self._changed.notify_all()
                    return
                pending = self._queue.popleft()
            try:
                self._record(pending)
            except Exception:  # noqa: BLE001  # top of a thread: events must outlive one bad event
                log.crashed("event.lost", reason=pending.event.reason)
                self._drops.events_dropped(1)

    def _record(self, pending: _Pending) -> None:
        event, instant = pending.event, pending.instant
        event_count = self._correlator.count(event, instant.wall)
        if not self._correlator.allow(event, instant.mono):
            return
        with self._changed:
            self._tail.append(_recent(event, instant.wall))
        record = self._as_record(event, instant, event_count)
        pause_s = _FIRST_PAUSE_S
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._send(record, event_count)
            except RetryLater as error:
                if attempt == _ATTEMPTS or not self._executor.sleep(error.retry_after_s or pause_s):
                    self._give_up(event, error)
                    return
                pause_s *= 2
            except AutoscalerError as error:
                self._give_up(event, error)
                return
            else:
                self._correlator.set_name(event, record.name)
                return

    def _send(self, record: EventRecord, event_count: EventCount) -> None:
        if event_count.name is not None:
            self._writer.repeat_event(record)
            return
        with contextlib.suppress(Conflict):  # an earlier attempt succeeded after all
            self._writer.create_event(record)

    def _give_up(self, event: ReportedEvent, error: AutoscalerError) -> None:
        log.warning("event.given_up", reason=event.reason, about=_place(event.about), error=error)
        self._drops.events_dropped(1)

    def _as_record(self, event: ReportedEvent, instant: Instant, event_count: EventCount) -> EventRecord:
        return EventRecord(
            name=event_count.name or self._new_name(event.about, instant),
            about=event.about,
            kind=event.kind,
            reason=event.reason,
            message=event.message,
            first_wall=event_count.first_at,
            last_wall=instant.wall,
            count=event_count.count,
        )

    def _new_name(self, about: Subject, instant: Instant) -> str:
        self._serial += 1
        # Named as in client-go; the serial number separates two events of the same moment.
        suffix = f".{int(instant.wall * 1e9) + self._serial:x}"
        return about.name[: _LONGEST_NAME - len(suffix)] + suffix


class CollectedEvents:
    """A `ports.EventSink` that only stores events: for dry runs, offline plans and tests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: list[RecentEvent] = []

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        """Store one event."""
        self._all.append(_recent(ReportedEvent(about, kind, reason, message), self._clock.now().wall))

    @property
    def all(self) -> tuple[RecentEvent, ...]:
        """Every event so far."""
        return tuple(self._all)


def _recent(event: ReportedEvent, wall: float) -> RecentEvent:
    return RecentEvent(
        at=wall, kind=str(event.kind), reason=event.reason, about=_place(event.about), message=event.message
    )


def _place(about: Subject) -> str:
    return f"{about.kind} {about.namespace}/{about.name}" if about.namespace else f"{about.kind} {about.name}"
