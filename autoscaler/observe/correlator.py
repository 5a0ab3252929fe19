"""Decides which events reach the API server: repeated events are counted instead of sent again.

The behaviour is that of Cluster Autoscaler's event correlator. Each (source, object, reason) has a bucket of one event
that refills every five minutes; events on the status ConfigMap have one bucket per message. An event equal to an
earlier one increases the earlier one's count, even while it may not be sent.
"""

from collections import OrderedDict

import msgspec

from autoscaler.ports import EventType, Subject

_REFILL_S = 300.0
_BURST = 1
_BURST_DUPLICATED = 25


class ReportedEvent(msgspec.Struct, frozen=True):
    """One event as it was reported."""

    about: Subject
    kind: EventType
    reason: str
    message: str


class EventCount(msgspec.Struct, frozen=True):
    """The number of equal events so far, and the API object that holds the count."""

    name: str | None
    """The Event object's name; None if it does not exist yet."""
    count: int
    first_at: float


class _EventBucket(msgspec.Struct):
    tokens: float
    refilled_at: float


class Correlator:
    """Remembers sent events, for a limited number of keys. Threads must not share it."""

    def __init__(self, status_object: Subject | None, *, duplicates: bool = False, size: int = 4096) -> None:
        """`status_object` is the ConfigMap keyed by message; `duplicates` is --record-duplicated-events."""
        self._status_object = status_object
        self._duplicates = duplicates
        self._burst = _BURST_DUPLICATED if duplicates else _BURST
        self._size = size
        self._buckets: OrderedDict[tuple[str, ...], _EventBucket] = OrderedDict()
        self._counts: OrderedDict[ReportedEvent, EventCount] = OrderedDict()

    def count(self, event: ReportedEvent, wall: float) -> EventCount:
        """Count the event; return the count of equal events, including this one."""
        previous = self._counts.get(event)
        current = (
            EventCount(None, 1, wall)
            if previous is None
            else msgspec.structs.replace(previous, count=previous.count + 1)
        )
        self._remember(event, current)
        return current

    def allow(self, event: ReportedEvent, mono: float) -> bool:
        """Whether the event may be sent at monotonic second `mono`; takes a token if so."""
        key = self._key(event)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _EventBucket(float(self._burst), mono)
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._size:
            self._buckets.popitem(last=False)
        bucket.tokens = min(float(self._burst), bucket.tokens + max(0.0, mono - bucket.refilled_at) / _REFILL_S)
        bucket.refilled_at = mono
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    def set_name(self, event: ReportedEvent, name: str) -> None:
        """Record the API object that holds the count of equal events from now on."""
        known = self._counts.get(event)
        if known is not None:
            self._counts[event] = msgspec.structs.replace(known, name=name)

    def _remember(self, event: ReportedEvent, event_count: EventCount) -> None:
        self._counts[event] = event_count
        self._counts.move_to_end(event)
        while len(self._counts) > self._size:
            self._counts.popitem(last=False)

    def _key(self, event: ReportedEvent) -> tuple[str, ...]:
        about = event.about
        subject_key = (about.api_version, about.kind, about.namespace, about.name, about.uid)
        if self._duplicates:
            return subject_key
        status = self._status_object
        on_status = status is not None and (about.kind, about.namespace, about.name) == (
            status.kind,
            status.namespace,
            status.name,
        )
        return (*subject_key, event.message if on_status else event.reason)
