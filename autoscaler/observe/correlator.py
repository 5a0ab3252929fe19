"""Decides which events reach the API server: repeated events are counted instead of sent again.

Behaviour as Cluster Autoscaler's event correlator: each (source, object, reason) has a bucket of one event that
refills every five minutes; events on the status ConfigMap have one for each message. An event equal to an earlier one
raises that one's count, also while it is being held back.
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
    """How often an equal event was seen, and the API object that says so."""

    name: str | None
    """The Event object's name; None while there is none."""
    count: int
    first_at: float


class _EventBucket(msgspec.Struct):
    tokens: float
    at: float


class Correlator:
    """Remembers what was sent, for a bounded number of keys. Not safe to share between threads."""

    def __init__(self, status_object: Subject | None, *, duplicates: bool = False, size: int = 4096) -> None:
        """`status_object` is the ConfigMap keyed by message; `duplicates` is --record-duplicated-events."""
        self._status_object = status_object
        self._duplicates = duplicates
        self._burst = _BURST_DUPLICATED if duplicates else _BURST
        self._size = size
        self._buckets: OrderedDict[tuple[str, ...], _EventBucket] = OrderedDict()
        self._seen: OrderedDict[ReportedEvent, EventCount] = OrderedDict()

    def see(self, event: ReportedEvent, wall: float) -> EventCount:
        """Count the event and return what is known of its like, this one included."""
        before = self._seen.get(event)
        now = EventCount(None, 1, wall) if before is None else msgspec.structs.replace(before, count=before.count + 1)
        self._remember(event, now)
        return now

    def admit(self, event: ReportedEvent, mono: float) -> bool:
        """Whether the event may be sent at monotonic second `mono`; takes a token if so."""
        key = self._key(event)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _EventBucket(float(self._burst), mono)
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._size:
            self._buckets.popitem(last=False)
        bucket.tokens = min(float(self._burst), bucket.tokens + max(0.0, mono - bucket.at) / _REFILL_S)
        bucket.at = mono
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    def written(self, event: ReportedEvent, name: str) -> None:
        """Note the API object that stands for this event from now on."""
        seen = self._seen.get(event)
        if seen is not None:
            self._seen[event] = msgspec.structs.replace(seen, name=name)

    def _remember(self, event: ReportedEvent, sighting: EventCount) -> None:
        self._seen[event] = sighting
        self._seen.move_to_end(event)
        while len(self._seen) > self._size:
            self._seen.popitem(last=False)

    def _key(self, event: ReportedEvent) -> tuple[str, ...]:
        about = event.about
        place = (about.api_version, about.kind, about.namespace, about.name, about.uid)
        if self._duplicates:
            return place
        status = self._status_object
        on_status = status is not None and (about.kind, about.namespace, about.name) == (
            status.kind,
            status.namespace,
            status.name,
        )
        return (*place, event.message if on_status else event.reason)
