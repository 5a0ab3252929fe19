"""Reads Kubernetes' protobuf bodies: typed Go clients send them by default, and take JSON answers.

Only what `protobuf_schema` lists is understood; any other field in a body is refused, never dropped.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from autoscaler.simulator.apiserver.errors import ApiError, JsonObject, bad_request, unsupported_media_type
from autoscaler.simulator.apiserver.protobuf_schema import MESSAGES

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _LENGTH = 0, 2


def decode(body: bytes) -> JsonObject:
    """Return the body as a JSON object; raises ApiError 400 (malformed) or 415 (kinds and fields not listed)."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body lacks the protobuf prefix")
    try:
        envelope = dict(_wire(body[len(_MAGIC) :]))
        names = {number: value.decode() for number, value in _wire(envelope[1])}
        api_version, kind = names.get(1, ""), names.get(2, "")
        if kind not in MESSAGES:
            raise unsupported_media_type(f"{MEDIA_TYPE} with kind {kind}")
        return {"apiVersion": api_version, "kind": kind, **_message(kind, envelope.get(2, b""))}
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise bad_request(f"the body is not valid protobuf: {error}") from error


def _wire(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers with integers (varint) or bytes (length-delimited)."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        if tag & 7 == _VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, value
        elif tag & 7 == _LENGTH:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise IndexError("a field is longer than its message")
            yield tag >> 3, data[position : position + length]
            position += length
        else:
            raise bad_request("unexpected protobuf wire type")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return result, position


def _message(message: str, data: bytes) -> JsonObject:
    fields, result = MESSAGES[message], JsonObject()
    for number, raw in _wire(data):
        field = fields.get(number)
        if field is None:
            if _is_hollow(raw):
                continue
            raise unsupported_media_type(f"{MEDIA_TYPE} with field {number} of {message}")
        kind = field.type
        if kind.startswith("[]"):
            result.setdefault(field.name, []).append(_value(kind[2:], raw))
        elif kind.startswith("{}"):
            entry = dict(_wire(raw))
            result.setdefault(field.name, {})[entry.get(1, b"").decode()] = _value(kind[2:], entry.get(2, b""))
        elif (value := _value(kind, raw)) not in (None, ""):
            result[field.name] = value
    return result


def _is_hollow(raw: Any) -> bool:
    """Whether a field says nothing: Go writes the empty status of a new object out."""
    if not isinstance(raw, bytes):
        return not raw
    try:
        return all(_is_hollow(value) for _, value in _wire(raw))
    except (IndexError, ApiError):
        return False


def _value(kind: str, raw: Any) -> Any:
    scalar = _SCALARS.get(kind)
    return scalar(raw) if scalar is not None else _message(kind, raw)


def _signed(raw: int) -> int:
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _quantity(raw: bytes) -> str:
    return str(dict(_wire(raw)).get(1, b"0").decode())


def _int_or_string(raw: bytes) -> Any:
    parts = dict(_wire(raw))
    return parts.get(3, b"").decode() if parts.get(1, 0) == 1 else _signed(parts.get(2, 0))


def _time(raw: bytes) -> str | None:
    parts = dict(_wire(raw))
    moment = parts.get(1)
    return None if moment is None else datetime.fromtimestamp(_signed(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "string": lambda raw: raw.decode(),
    "bytes": lambda raw: base64.b64encode(raw).decode(),
    "int": _signed,
    "positive": lambda raw: _signed(raw) or None,
    "bool": lambda raw: bool(raw) or None,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
}
