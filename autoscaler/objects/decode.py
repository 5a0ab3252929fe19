"""Decodes bytes of the API server to kept objects, page by page.

A `Decoder` is chosen per kind. `plain_decoder` serves kinds that are kept as they come; pods and nodes have
decoders of their own beside their types, because what is kept of them differs from what is on the wire.

A page or line is decoded in one step. Only where that fails is it read object by object: null then means absent,
as it does to Go, and an object that still cannot be read becomes an `Undecoded` beside all the others.
"""

import contextlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from autoscaler.objects.lenient_json import UNREADABLE, loads, without_nulls, words
from autoscaler.objects.meta import UNDECODED, ObjectMeta


class WireObject(Protocol):
    """What every object has on the wire."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its name and all that comes with it."""
        ...


T = TypeVar("T")
W = TypeVar("W", bound=WireObject)


class Named(Protocol):
    """What stores ask of an object."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name where the kind has no namespace."""
        ...

    @property
    def uid(self) -> str:
        """Identity across deletion and re-creation under the same name."""
        ...


class WatchEventType(StrEnum):
    """What a watch event says."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class Undecoded(msgspec.Struct, frozen=True):
    """An object that cannot be decoded: what is known of it, and why. `why` repeats nothing of its content."""

    metadata: ObjectMeta
    why: str
    node_name: str = ""
    """Of a pod, if it can be read."""
    provider_id: str = ""
    """Of a node, if it can be read."""

    def marked(self, mark: str) -> ObjectMeta:
        """Return the metadata of its substitute, without times: those may be what cannot be read."""
        annotations = {**self.metadata.annotations, UNDECODED: mark}
        timeless = {"creation_timestamp": None, "deletion_timestamp": None}
        return msgspec.structs.replace(self.metadata, annotations=annotations, **timeless)

    @property
    def key(self) -> str:
        """`namespace/name`, or the name where the kind has no namespace; empty where not even that can be read."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace and meta.name else meta.name


class ListChunk(msgspec.Struct, Generic[T]):
    """One chunk of a list."""

    items: list[T]
    resource_version: str = ""
    continue_token: str = ""
    undecoded: Sequence[Undecoded] = ()


class DecodedEvent(msgspec.Struct, Generic[T]):
    """One watch event. `item` is None for bookmarks and errors; `code` and `message` belong to errors."""

    verb: WatchEventType
    item: T | None
    resource_version: str = ""
    code: int = 0
    message: str = ""
    undecoded: Undecoded | None = None
    """The object of the event where it cannot be decoded, in place of `item`."""


class Decoder(Protocol[T]):
    """Turns response bodies of one kind into objects. Raises `msgspec.MsgspecError` on what is not such a body."""

    def page(self, body: bytes) -> ListChunk[T]:
        """Decode one chunk of a list."""
        ...

    def change(self, line: bytes) -> DecodedEvent[T]:
        """Decode one line of a watch."""
        ...

    def one(self, value: Any) -> T:
        """Convert one object from plain JSON data, as scenario files and dumps hold it."""
        ...

    def stand_in(self, odd: Undecoded, held: T | None) -> T | None:
        """Return what to keep in place of an object that cannot be decoded; None: nothing.

        `held` is the object as it was last known, if it ever was.
        """
        ...


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct, Generic[W]):
    items: list[W] | None = None
    metadata: _ListMeta | None = None


class _RawList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _ListMeta | None = None


class _PlainList(msgspec.Struct):
    items: list[Any] = []
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _Event(msgspec.Struct, Generic[W]):
    type: WatchEventType
    object: W


class _PlainEvent(msgspec.Struct):
    type: WatchEventType
    object: dict[str, Any] = {}


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


def last_known(odd: Undecoded, held: T | None) -> T | None:
    """Keep an object as it was last known; one that never was is left out."""
    return held


class WireDecoder(Generic[W, T]):
    """Decodes wire type `wire`, then keeps what `keep` makes of each object. Safe to share between threads
    where `keep` is."""

    def __init__(
        self,
        wire: type[W],
        keep: Callable[[W], T],
        stand_in: Callable[[Undecoded, T | None], T | None] = last_known,
    ) -> None:
        """`keep` raises `ValueError` for values that it cannot read; `stand_in` as in `Decoder`."""
        self._wire = wire
        self._keep = keep
        self._stand_in = stand_in
        self._list = msgspec.json.Decoder(_List[wire])  # type: ignore[valid-type]
        self._raw_list = msgspec.json.Decoder(_RawList)
        self._object = msgspec.json.Decoder(wire)
        self._event = msgspec.json.Decoder(_Event[wire])  # type: ignore[valid-type]

    def page(self, body: bytes) -> ListChunk[T]:
        """Decode one chunk of a list."""
        try:
            decoded: _List[W] = self._list.decode(body)
            items = [self._named(wire) for wire in decoded.items or ()]
        except UNREADABLE:
            return self._page_by_object(body)
        return _page(items, decoded.metadata)

    def change(self, line: bytes) -> DecodedEvent[T]:
        """Decode one line of a watch."""
        try:
            event: _Event[W] = self._event.decode(line)
            if event.type in _WITH_OBJECT:
                return DecodedEvent(event.type, self._named(event.object), event.object.metadata.resource_version)
        except UNREADABLE:
            pass
        return self._odd_change(line)

    def one(self, value: Any) -> T:
        """Convert one object from plain JSON data; raises `ValueError` for what cannot be read."""
        return self._keep(msgspec.convert(without_nulls(value), self._wire))

    def read(self, body: bytes | msgspec.Raw) -> T | Undecoded:
        """Decode one object."""
        try:
            return self._named(self._object.decode(body))
        except UNREADABLE:
            pass
        try:
            plain = loads(bytes(body))
        except msgspec.DecodeError as error:
            return Undecoded(ObjectMeta(), words(error))
        return self._of_plain(plain)

    def stand_in(self, odd: Undecoded, held: T | None) -> T | None:
        """Return what to keep in place of an object that cannot be decoded; None: nothing."""
        return self._stand_in(odd, held)

    def _named(self, wire: W) -> T:
        if not wire.metadata.name:
            raise msgspec.ValidationError("an object without a name")
        return self._keep(wire)

    def _page_by_object(self, body: bytes) -> ListChunk[T]:
        try:
            raw = self._raw_list.decode(body)
            meta, read = raw.metadata, [self.read(item) for item in raw.items or () if bytes(item) != b"null"]
        except UNREADABLE:  # one of the objects is no JSON that a decoder takes
            plain = msgspec.convert(loads(body), _PlainList)
            meta, read = plain.metadata, [self._of_plain(item) for item in plain.items]
        page: ListChunk[T] = _page([item for item in read if not isinstance(item, Undecoded)], meta)
        page.undecoded = [item for item in read if isinstance(item, Undecoded)]
        return page

    def _odd_change(self, line: bytes) -> DecodedEvent[T]:
        """Decode a line that is not simply an object."""
        event = msgspec.convert(loads(line), _PlainEvent)
        if event.type is WatchEventType.ERROR:
            status = _Status(message="an error that cannot be read")
            with contextlib.suppress(msgspec.ValidationError):
                status = msgspec.convert(event.object, _Status)
            return DecodedEvent(event.type, None, code=status.code, message=status.message)
        if event.type is WatchEventType.BOOKMARK:
            return DecodedEvent(event.type, None, _metadata(event.object).resource_version)
        read = self._of_plain(event.object)
        version = _metadata(event.object).resource_version
        if isinstance(read, Undecoded):
            if not read.key:
                raise msgspec.ValidationError("an event that does not name its object")
            return DecodedEvent(event.type, None, version, undecoded=read)
        return DecodedEvent(event.type, read, version)

    def _of_plain(self, plain: Any) -> T | Undecoded:
        """Decode an object from plain data without nulls."""
        try:
            return self._named(msgspec.convert(plain, self._wire))
        except UNREADABLE as error:
            spec = _part(plain, "spec")
            return Undecoded(_metadata(plain), words(error), _text(spec, "nodeName"), _text(spec, "providerID"))


_WITH_OBJECT = frozenset((WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED))


def _page(items: list[T], meta: _ListMeta | None) -> ListChunk[T]:
    return ListChunk(items) if meta is None else ListChunk(items, meta.resource_version or "", meta.continue_ or "")


def _part(plain: Any, name: str) -> dict[str, Any]:
    part = plain.get(name) if isinstance(plain, dict) else None
    return part if isinstance(part, dict) else {}


def _text(part: dict[str, Any], name: str) -> str:
    text = part.get(name)
    return text if isinstance(text, str) else ""


def _metadata(plain: Any) -> ObjectMeta:
    """Return the metadata of plain data, or only its names where no more can be read."""
    part = _part(plain, "metadata")
    try:
        return msgspec.convert(part, ObjectMeta)
    except msgspec.ValidationError:
        return ObjectMeta(
            name=_text(part, "name"),
            namespace=_text(part, "namespace"),
            uid=_text(part, "uid"),
            resource_version=_text(part, "resourceVersion"),
        )
