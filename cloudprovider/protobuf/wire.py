"""Fields on the wire."""

import struct
from collections.abc import Iterator
from typing import Any

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


def signed(value: int) -> int:
    """Return the integer that a varint of 64 bits stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value


def varint(number: int, value: int) -> bytes:
    """Return a field that holds an integer; a negative one as its 64-bit complement."""
    return _varint(number << 3) + _varint(value & _WORD)


def double(number: int, value: float) -> bytes:
    """Return a field that holds a floating-point number."""
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


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
