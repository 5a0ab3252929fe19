"""Protobuf as far as Kubernetes' messages need it: fields on the wire, and objects written by `protobuf_schema`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from autoscaler.objects.meta import unix_seconds
from autoscaler.objects.protobuf_schema import MESSAGES

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10
_WORD = (1 << 64) - 1
_SINGLE = tuple(bytes((value,)) for value in range(0x80))


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield field numbers with integers (varint) or bytes (anything else); raises `ValueError` for bad data."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _read_varint(data, position)
            yield number, value
            continue
        if wire == _LENGTH:
            length, position = _read_varint(data, position)
        elif wire in _FIXED:
            length = _FIXED[wire]
        else:
            raise ValueError(f"field {number} is of wire type {wire}")
        if position + length > len(data):
            raise ValueError(f"field {number} is longer than its message")
        yield number, data[position : position + length]
        position += length


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    result = 0
    for shift, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        result |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return result & _WORD, position + shift + 1
    raise ValueError("an integer has no end")


def varint(number: int, value: int) -> bytes:
    """Return a field that holds an integer; a negative one as its 64-bit complement."""
    return _varint(number << 3) + _varint(value & _WORD)


def block(number: int, content: bytes) -> bytes:
    """Return a field that holds bytes: a text, a message, or bytes."""
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def text(number: int, value: str) -> bytes:
    """Return a field that holds a text."""
    return block(number, value.encode())


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _SINGLE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(message: str, value: msgspec.Struct | Mapping[str, Any]) -> bytes:
    """Write an object: a map with JSON's keys, or a struct that renames its fields to them.

    None, empty texts, lists and maps, and sub-messages of a struct that are as by default are left out, which Go reads
    as the same. Raises `ValueError` for a key that the schema does not list: nothing is dropped unseen.
    """
    items = _items(value)
    written = b"".join(_written(message, items))
    if items:
        raise ValueError(f"{message} has no field {', '.join(items)}")
    return written


def _written(message: str, items: dict[str, Any]) -> Iterator[bytes]:
    """Yield the message's fields, and take them out of `items`."""
    for number, field in MESSAGES[message].items():
        if field.inline:
            if inner := b"".join(_written(field.type, items)):
                yield block(number, inner)
        elif field.name in items:
            yield _field(number, field.type, items.pop(field.name))


def _items(value: msgspec.Struct | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(value, Mapping):
        found = ((key, item, None) for key, item in value.items())
    else:
        found = ((key, getattr(value, name), default) for key, name, default in _layout(type(value)))
    return {
        key: item
        for key, item, default in found
        if item is not None
        and item not in ("", [], (), {})
        and not (isinstance(item, msgspec.Struct) and item == default)
    }


@lru_cache(maxsize=256)
def _layout(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Return JSON's key, name and default of each field."""
    return tuple((field.encode_name, field.name, field.default) for field in msgspec.structs.fields(kind))


def _field(number: int, kind: str, value: Any) -> bytes:
    if kind.startswith("[]"):
        entries: Sequence[Any] = value
        return b"".join(_one(number, kind[2:], entry) for entry in entries)
    if kind.startswith("{}"):
        by_key: Mapping[str, Any] = value
        return b"".join(block(number, text(1, key) + _one(2, kind[2:], entry)) for key, entry in by_key.items())
    return _one(number, kind, value)


def _one(number: int, kind: str, value: Any) -> bytes:
    scalar = _SCALARS.get(kind)
    return block(number, encode(kind, value)) if scalar is None else scalar(number, value)


_SCALARS: Mapping[str, Callable[[int, Any], bytes]] = {
    "string": text,
    "int": varint,
    "positive": varint,
    "bool": lambda number, value: varint(number, int(value)),
    "Quantity": lambda number, value: block(number, text(1, str(value))),
    "Time": lambda number, value: block(number, varint(1, int(unix_seconds(value)))),
}
