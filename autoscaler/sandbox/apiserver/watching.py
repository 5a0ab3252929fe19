"""Watch answers: a stream of lines from a subscription, with bookmarks and an end."""

import base64
from collections.abc import Callable, Iterator

import msgspec

from autoscaler.clock import Clock
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.http_messages import ObjectFormat
from autoscaler.sandbox.apiserver.journal import Subscription, WatchEvent
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.records import watch_line
from autoscaler.sandbox.apiserver.table import partial, table

_TICK_S = 0.25


class WatchShape(msgspec.Struct, frozen=True):
    """How the client wants the stream."""

    kind: Kind
    form: ObjectFormat
    timeout_s: float
    bookmark_every_s: float | None = None
    marks_initial_end: bool = False
    include_object: str = "Metadata"


def stream(
    subscription: Subscription, shape: WatchShape, clock: Clock, wall: Callable[[], float]
) -> Iterator[bytes | None]:
    """Yield chunks of whole lines until the time is up or the subscription is closed; None is a moment without news.

    `clock` measures real time for time-outs; `wall` is the storage's, for ages in tables. Behind history, the stream
    ends with an ERROR event of code 410.
    """
    encode = _Encoder(shape, wall)
    started = clock.now().mono
    bookmarked = started
    try:
        if shape.marks_initial_end:
            yield b"".join([encode.line(event) for event in subscription.poll()])
            yield encode.bookmark(subscription.revision, initial_end=True)
        while not subscription.closed:
            now = clock.now().mono
            left_s = started + shape.timeout_s - now
            if left_s <= 0:
                break
            if shape.bookmark_every_s is not None and now - bookmarked >= shape.bookmark_every_s:
                bookmarked = now
                yield encode.bookmark(subscription.revision)
            events = subscription.wait(min(left_s, _TICK_S, shape.bookmark_every_s or _TICK_S))
            yield b"".join([encode.line(event) for event in events]) if events else None
        if shape.bookmark_every_s is not None:
            yield encode.bookmark(subscription.revision)
    except ApiError as error:
        yield error_line(error)
    finally:
        subscription.close()


def error_line(error: ApiError) -> bytes:
    """The ERROR event that ends a watch."""
    return watch_line("ERROR", msgspec.json.encode(error.status()))


class _Encoder:
    """Turns events into lines of one form; a table's column definitions come with the first line only."""

    def __init__(self, shape: WatchShape, wall: Callable[[], float]) -> None:
        self._shape = shape
        self._wall = wall
        self._first = True

    def line(self, event: WatchEvent) -> bytes:
        if self._shape.form is ObjectFormat.OBJECT:
            return event.line(self._shape.kind)
        obj = msgspec.json.decode(event.change.seen(event.type).encoded(self._shape.kind))
        return watch_line(event.type, msgspec.json.encode(self._shaped(obj)))

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        kind = self._shape.kind
        metadata: JsonObject = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_end:
            head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
            blueprint = msgspec.json.encode({**head, "metadata": {}, "items": None}) + b"\n"
            metadata["annotations"] = {
                "k8s.io/initial-events-end": "true",
                "kubernetes.io/initial-events-list-blueprint": base64.b64encode(blueprint).decode(),
            }
        obj: JsonObject = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if self._shape.form is ObjectFormat.TABLE:
            obj = {**table(kind, [], self._wall(), "None"), "metadata": {"resourceVersion": str(revision)}}
        return watch_line("BOOKMARK", msgspec.json.encode(obj))

    def _shaped(self, obj: JsonObject) -> JsonObject:
        if self._shape.form is ObjectFormat.METADATA:
            return partial(obj)
        shown = table(self._shape.kind, [obj], self._wall(), self._shape.include_object)
        shown["metadata"] = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        if not self._first:
            shown["columnDefinitions"] = None
        self._first = False
        return shown
