"""Objects to messages and back, by a table of field numbers."""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from cloudprovider.moment import parse_time
from cloudprovider.protobuf.kubernetes import KUBERNETES
from cloudprovider.protobuf.schema import Messages
from cloudprovider.protobuf.wire import block, double, fields, signed, text, varint

_NANOS = 1_000_000_000


def encode(message: str, value: msgspec.Struct | Mapping[str, Any], table: Messages = KUBERNETES) -> bytes:
    """Write an object: a map with JSON's keys, or a struct that renames its fields to them.

    None, empty texts, lists and maps, and default sub-messages of a struct are left out; Go reads them the same.
    Raises `ValueError` for a key that the table does not list, so that nothing is lost silently.
    """
    items = _items(value)
    written = b"".join(_written(message, items, table))
    if items:
        raise ValueError(f"{message} has no field {', '.join(items)}")
    return written


def _written(message: str, items: dict[str, Any], table: Messages) -> Iterator[bytes]:
    """Yield the message's fields, and take them out of `items`."""
    for number, field in table[message].items():
        if field.inline:
            if inner := b"".join(_written(field.type, items, table)):
                yield block(number, inner)
        elif field.name in items:
            yield _field(number, field.type, items.pop(field.name), table)


def _items(value: msgspec.Struct | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(value, Mapping):
        entries = ((key, item, None) for key, item in value.items())
    else:
        entries = ((key, getattr(value, name), default) for key, name, default in _layout(type(value)))
    return {
        key: item
        for key, item, default in entries
        if item is not None
        and item not in ("", [], (), {})
        and not (isinstance(item, msgspec.Struct) and item == default)
    }


@lru_cache(maxsize=256)
def _layout(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Return JSON's key, name and default of each field."""
    return tuple((field.encode_name, field.name, field.default) for field in msgspec.structs.fields(kind))


def _field(number: int, kind: str, value: Any, table: Messages) -> bytes:
    if kind.startswith("[]"):
        entries: Sequence[Any] = value
        return b"".join(_one(number, kind[2:], entry, table) for entry in entries)
    if kind.startswith("{}"):
        by_key: Mapping[str, Any] = value
        pairs = (text(1, key) + _one(2, kind[2:], entry, table) for key, entry in by_key.items())
        return b"".join(block(number, pair) for pair in pairs)
    return _one(number, kind, value, table)


def _one(number: int, kind: str, value: Any, table: Messages) -> bytes:
    scalar = _WRITTEN.get(kind)
    return block(number, encode(kind, value, table)) if scalar is None else scalar(number, value)


def _split(seconds: float) -> bytes:
    """Return whole seconds and nanoseconds, as `google.protobuf.Timestamp` and `Duration` and Kubernetes' Time have."""
    whole, nanos = divmod(round(seconds * _NANOS), _NANOS)
    return varint(1, whole) + (varint(2, nanos) if nanos else b"")


_WRITTEN: Mapping[str, Callable[[int, Any], bytes]] = {
    "string": text,
    "raw": block,
    "int": varint,
    "positive": varint,
    "bool": lambda number, value: varint(number, int(value)),
    "double": double,
    "Quantity": lambda number, value: block(number, text(1, str(value))),
    "Time": lambda number, value: block(number, varint(1, int(parse_time(value).timestamp()))),
    "Seconds": lambda number, value: block(number, _split(value)),
    "Nanoseconds": lambda number, value: block(number, varint(1, round(value * _NANOS))),
}


def decode(
    message: str,
    data: bytes,
    table: Messages = KUBERNETES,
    unknown: Callable[[str, int, Any], None] = lambda message, number, raw: None,
) -> dict[str, Any]:
    """Read a message into a map with JSON's keys. Absent and unset fields are left out.

    `unknown` is called for fields that the table does not list. Raises `ValueError` for invalid messages.
    """
    known, result = table[message], dict[str, Any]()
    for number, raw in fields(data):
        field = known.get(number)
        if field is None:
            unknown(message, number, raw)
            continue
        kind = field.type
        if field.inline:
            result.update(decode(kind, _bytes(raw), table, unknown))
        elif kind.startswith("[]"):
            result.setdefault(field.name, []).append(_value(kind[2:], raw, table, unknown))
        elif kind.startswith("{}"):
            entry = dict(fields(_bytes(raw)))
            value = _value(kind[2:], entry.get(2, b""), table, unknown)
            result.setdefault(field.name, {})[_bytes(entry.get(1, b"")).decode()] = value
        elif (value := _value(kind, raw, table, unknown)) not in (None, ""):
            result[field.name] = value
    return result


def _value(kind: str, raw: Any, table: Messages, unknown: Callable[[str, int, Any], None]) -> Any:
    if kind in _INTEGERS:
        if not isinstance(raw, int):
            raise ValueError(f"bytes stand where {kind} should")
        return _INTEGERS[kind](raw)
    content = _bytes(raw)
    read = _READ.get(kind)
    return decode(kind, content, table, unknown) if read is None else read(content)


def _bytes(raw: Any) -> bytes:
    if not isinstance(raw, bytes):
        raise ValueError("an integer stands where bytes should")
    return raw


def _quantity(raw: bytes) -> str:
    return _bytes(dict(fields(raw)).get(1, b"0")).decode()


def _int_or_string(raw: bytes) -> Any:
    parts = dict(fields(raw))
    return _bytes(parts.get(3, b"")).decode() if parts.get(1, 0) == 1 else signed(parts.get(2, 0))


def _time(raw: bytes) -> str | None:
    moment = dict(fields(raw)).get(1)
    return None if moment is None else datetime.fromtimestamp(signed(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(raw: bytes) -> float:
    parts = dict(fields(raw))
    return float(signed(parts.get(1, 0))) + signed(parts.get(2, 0)) / _NANOS


def _double(raw: bytes) -> float:
    if len(raw) != 8:
        raise ValueError(f"a number has {len(raw)} bytes")
    return float(struct.unpack("<d", raw)[0])


_INTEGERS: Mapping[str, Callable[[int], Any]] = {
    "int": signed,
    "positive": lambda raw: signed(raw) or None,
    "bool": lambda raw: bool(raw) or None,
}
_READ: Mapping[str, Callable[[bytes], Any]] = {
    "string": lambda raw: raw.decode(),
    "raw": lambda raw: raw,
    "bytes": lambda raw: base64.b64encode(raw).decode(),
    "double": _double,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
    "Seconds": _seconds,
    "Nanoseconds": lambda raw: signed(dict(fields(raw)).get(1, 0)) / _NANOS,
}
