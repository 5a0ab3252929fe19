"""Records events as cluster components do: counts repeated ones, drops old ones."""

from collections import deque

import msgspec

from autoscaler.objects.meta import JsonObject, rfc3339
from autoscaler.ports import EventType, Subject
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.storage import Storage

_Identity = tuple[str, str, str]


class _WrittenEvent(msgspec.Struct):
    """An event as it was last written; `last` is Unix seconds."""

    name: str
    namespace: str
    message: str
    last: float
    count: int = 1


class Recorder:
    """An `EventSink` that writes v1 Events to the storage. Times are the storage's."""

    def __init__(self, storage: Storage, component: str, timing: Timing) -> None:
        self._storage = storage
        self._component = component
        self._repeat_s = timing.event_repeat_s
        self._ttl_s = timing.event_ttl_s
        self._latest: dict[_Identity, _WrittenEvent] = {}
        self._written: deque[tuple[_Identity, _WrittenEvent]] = deque()
        self._serial = 0

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        """Record one event, or count it if it says the same again.

        One that follows too soon after another with the same object and reason is dropped.
        """
        now = self._storage.now()
        self._expire(now)
        identity = (about.kind, about.uid or about.name, reason)
        written = self._latest.get(identity)
        if written is not None and now - written.last < self._repeat_s:
            return
        try:
            if written is None or written.message != message:
                written = self._latest[identity] = self._create(about, kind, reason, message, now)
                self._written.append((identity, written))
            else:
                written.count, written.last = written.count + 1, now
                repeated = {"count": written.count, "lastTimestamp": rfc3339(now)}
                self._storage.patch("events", written.name, repeated, namespace=written.namespace)
        except ApiError:
            # Events are best effort: the namespace may be going, or somebody deleted the event.
            self._latest.pop(identity, None)

    def _create(self, about: Subject, kind: EventType, reason: str, message: str, now: float) -> _WrittenEvent:
        self._serial += 1
        namespace = about.namespace or "default"
        name = f"{about.name}.{self._component}.{self._serial:x}"
        involved: JsonObject = {"kind": about.kind, "name": about.name, "apiVersion": about.api_version}
        involved |= {"namespace": about.namespace} if about.namespace else {}
        involved |= {"uid": about.uid} if about.uid else {}
        timestamp = rfc3339(now)
        fields = {"reason": reason, "message": message, "type": kind.value, "count": 1}
        times = {"firstTimestamp": timestamp, "lastTimestamp": timestamp, "eventTime": None}
        source = {"source": {"component": self._component}, "reportingComponent": self._component}
        event = {"metadata": {"name": name, "namespace": namespace}, "involvedObject": involved}
        self._storage.create("events", {**event, **fields, **times, **source, "reportingInstance": ""})
        return _WrittenEvent(name, namespace, message, now)

    def _expire(self, now: float) -> None:
        while self._written and now - self._written[0][1].last >= self._ttl_s:
            identity, written = self._written.popleft()
            if self._latest.get(identity) is written:
                del self._latest[identity]
            try:
                self._storage.delete("events", written.name, namespace=written.namespace)
            except ApiError:
                continue


def subject(obj: JsonObject) -> Subject:
    """What events say about an object."""
    metadata = obj["metadata"]
    namespace, version = metadata.get("namespace", ""), obj["apiVersion"]
    return Subject(obj["kind"], metadata["name"], namespace, metadata["uid"], version)
