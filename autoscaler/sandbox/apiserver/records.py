"""Stored objects: encoded once, with labels and selectable fields beside the bytes; and their changes.

The stored bytes (`tail`) start after apiVersion and kind. One copy of the bytes then serves list items (which carry
neither, as the real server's do not), single objects, watch lines, and custom resources under several versions.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver import spellings
from autoscaler.sandbox.apiserver.kinds import Kind

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""

_NO_LABELS: Mapping[str, str] = {}


class ChangeType(StrEnum):
    """Watch event types that report an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One object at one revision."""

    key: Key
    uid: str
    revision: int
    tail: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    owners: tuple[str, ...] = ()
    """Uids of the owners, for garbage collection."""

    def encoded(self, kind: Kind) -> bytes:
        """The whole object as JSON under this kind's version."""
        if kind.store:
            obj = self.decoded(kind)
            spellings.from_stored(kind, obj)
            return msgspec.json.encode(obj)
        return kind.head + self.tail

    def decoded(self, kind: Kind) -> JsonObject:
        """A fresh copy of the object in its stored form, which the caller may change."""
        value: JsonObject = msgspec.json.decode(kind.head + self.tail)
        return value


class StoreChange:
    """One entry of a store's history; `now` is the last state when the object was deleted."""

    __slots__ = ("_lines", "before", "kind", "now", "type")

    def __init__(self, kind: Kind, change: ChangeType, now: Stored, before: Stored | None) -> None:
        self.type = change
        self.now = now
        self.before = before
        self.kind = kind
        self._lines: dict[tuple[str, bytes], bytes] = {}

    @property
    def revision(self) -> int:
        """The resource version of this change."""
        return self.now.revision

    @property
    def key(self) -> Key:
        """Which object changed."""
        return self.now.key

    def object(self) -> JsonObject:
        """The object after the change (before it, when deleted), as a fresh copy."""
        return self.now.decoded(self.kind)

    def previous(self) -> JsonObject | None:
        """The object before the change, as a fresh copy."""
        return self.before.decoded(self.kind) if self.before is not None else None

    def line(self, seen_as: ChangeType, kind: Kind) -> bytes:
        """The watch line, encoded once and shared by all watchers that see the change the same way."""
        cache_key = (seen_as, kind.head)
        line = self._lines.get(cache_key)
        if line is None:
            line = watch_line(seen_as, self.seen(seen_as).encoded(kind))
            self._lines[cache_key] = line
        return line

    def seen(self, seen_as: ChangeType) -> Stored:
        """The state a watcher is shown: one whose selection the object left sees it as it was."""
        left_selection = seen_as is ChangeType.DELETED and self.type is not ChangeType.DELETED
        if not left_selection or self.before is None:
            return self.now
        return restamped(self.before, self.kind, self.revision)


def watch_line(event: str, encoded: bytes) -> bytes:
    """Frame one watch event."""
    return b'{"type":"%s","object":%s}\n' % (event.encode(), encoded)


def stored(kind: Kind, obj: JsonObject, revision: int) -> Stored:
    """Encode an object under a new revision; `obj` is stamped in place."""
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(revision)
    body = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    tail = msgspec.json.encode({"metadata": metadata, **body})[1:]
    labels = dict(metadata["labels"]) if metadata.get("labels") else _NO_LABELS
    key = (metadata.get("namespace", ""), metadata["name"])
    owners = tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ())
    return Stored(key, metadata["uid"], revision, tail, labels, selectable(kind, obj), owners)


def restamped(record: Stored, kind: Kind, revision: int) -> Stored:
    """The same state under another resource version: what a deletion reports."""
    return stored(kind, record.decoded(kind), revision)


def selectable(kind: Kind, obj: JsonObject) -> dict[str, str]:
    """The values field selectors may ask for."""
    metadata = obj["metadata"]
    fields = {"metadata.name": metadata["name"], "metadata.namespace": metadata.get("namespace", "")}
    for path in kind.fields:
        fields[path] = _text(_field_value(obj, path), path)
    return fields


def _field_value(obj: JsonObject, path: str) -> Any:
    if path == "source":
        return (obj.get("source") or {}).get("component")
    if path == "reportingComponent":
        return obj.get("reportingComponent") or (obj.get("source") or {}).get("component")
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _text(value: Any, path: str) -> str:
    if path in ("spec.unschedulable", "spec.hostNetwork"):
        return "true" if value else "false"
    return "" if value is None else str(value)
