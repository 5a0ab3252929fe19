"""From bytes of the API server to kept objects, page by page.

A `Decoder` is chosen per kind. `PlainDecoder` serves kinds that are kept as they come; pods and nodes have
decoders of their own beside their types, because what is kept of them differs from what is on the wire.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

T = TypeVar("T")
W = TypeVar("W")


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


class Verb(StrEnum):
    """What a watch event says."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class Page(msgspec.Struct, Generic[T]):
    """One chunk of a list."""

    items: list[T]
    resource_version: str
    continue_token: str = ""


class Change(msgspec.Struct, Generic[T]):
    """One watch event. `item` is None for bookmarks and errors; `code` and `message` belong to errors."""

    verb: Verb
    item: T | None
    resource_version: str = ""
    code: int = 0
    message: str = ""


class Decoder(Protocol[T]):
    """Turns response bodies of one kind into objects. Raises `msgspec.MsgspecError` on what is not such a body."""

    def page(self, body: bytes) -> Page[T]:
        """Decode one chunk of a list."""
        ...

    def change(self, line: bytes) -> Change[T]:
        """Decode one line of a watch."""
        ...

    def one(self, value: Any) -> T:
        """Convert one object from plain JSON data, as scenario files and dumps hold it."""
        ...


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[W]):
    items: list[W] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _Event(msgspec.Struct, Generic[W]):
    type: Verb
    object: W


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Version = msgspec.field(default_factory=_Version)


class _Kind(msgspec.Struct):
    type: Verb


class _Bookmark(msgspec.Struct):
    object: _Versioned


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Failure(msgspec.Struct):
    object: _Status


class WireDecoder(Generic[W, T]):
    """Decodes wire type `wire`, then keeps what `keep` makes of each object. Safe to share between threads
    where `keep` is."""

    def __init__(self, wire: type[W], keep: Callable[[W], T], version_of: Callable[[W], str]) -> None:
        self._wire = wire
        self._keep = keep
        self._version_of = version_of
        self._list = msgspec.json.Decoder(_List[wire])  # type: ignore[valid-type]
        self._event = msgspec.json.Decoder(_Event[wire])  # type: ignore[valid-type]
        self._kind = msgspec.json.Decoder(_Kind)
        self._bookmark = msgspec.json.Decoder(_Bookmark)
        self._failure = msgspec.json.Decoder(_Failure)

    def page(self, body: bytes) -> Page[T]:
        """Decode one chunk of a list."""
        decoded: _List[W] = self._list.decode(body)
        keep = self._keep
        items = [keep(wire) for wire in decoded.items or ()]
        return Page(items, decoded.metadata.resource_version, decoded.metadata.continue_)

    def change(self, line: bytes) -> Change[T]:
        """Decode one line of a watch."""
        verb = self._kind.decode(line).type
        if verb is Verb.BOOKMARK:
            return Change(verb, None, self._bookmark.decode(line).object.metadata.resource_version)
        if verb is Verb.ERROR:
            status = self._failure.decode(line).object
            return Change(verb, None, code=status.code, message=status.message)
        wire: W = self._event.decode(line).object
        return Change(verb, self._keep(wire), self._version_of(wire))

    def one(self, value: Any) -> T:
        """Convert one object from plain JSON data."""
        return self._keep(msgspec.convert(value, self._wire))
