"""Reads Kubernetes' protobuf bodies: typed Go clients send them by default, and take JSON answers.

Only what `objects.protobuf_schema` lists is understood; any other field in a body is refused, never dropped.
"""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from autoscaler.objects import protobuf
from autoscaler.objects.protobuf_schema import MESSAGES
from autoscaler.simulator.apiserver.errors import JsonObject, bad_request, unsupported_media_type

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


def decode(body: bytes) -> JsonObject:
    """Return the body as a JSON object; raises ApiError 400 (malformed) or 415 (kinds and fields not listed)."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body lacks the protobuf prefix")
    try:
        envelope = dict(protobuf.fields(body[len(_MAGIC) :]))
        names = {number: value.decode() for number, value in protobuf.fields(envelope[1])}
        api_version, kind = names.get(1, ""), names.get(2, "")
        if kind not in MESSAGES:
            raise unsupported_media_type(f"{MEDIA_TYPE} with kind {kind}")
        return {"apiVersion": api_version, "kind": kind, **_message(kind, envelope.get(2, b""))}
    except (KeyError, ValueError) as error:
        raise bad_request(f"the body is not valid protobuf: {error}") from error


def _message(message: str, data: bytes) -> JsonObject:
    fields, result = MESSAGES[message], JsonObject()
    for number, raw in protobuf.fields(data):
        field = fields.get(number)
        if field is None:
            if _is_hollow(raw):
                continue
            raise unsupported_media_type(f"{MEDIA_TYPE} with field {number} of {message}")
        kind = field.type
        if field.inline:
            result.update(_message(kind, raw))
        elif kind.startswith("[]"):
            result.setdefault(field.name, []).append(_value(kind[2:], raw))
        elif kind.startswith("{}"):
            entry = dict(protobuf.fields(raw))
            result.setdefault(field.name, {})[entry.get(1, b"").decode()] = _value(kind[2:], entry.get(2, b""))
        elif (value := _value(kind, raw)) not in (None, ""):
            result[field.name] = value
    return result


def _is_hollow(raw: Any) -> bool:
    """Whether a field says nothing: Go writes the empty status of a new object out."""
    if not isinstance(raw, bytes):
        return not raw
    try:
        return all(_is_hollow(value) for _, value in protobuf.fields(raw))
    except ValueError:
        return False


def _value(kind: str, raw: Any) -> Any:
    scalar = _SCALARS.get(kind)
    return scalar(raw) if scalar is not None else _message(kind, raw)


def _signed(raw: int) -> int:
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _quantity(raw: bytes) -> str:
    return str(dict(protobuf.fields(raw)).get(1, b"0").decode())


def _int_or_string(raw: bytes) -> Any:
    parts = dict(protobuf.fields(raw))
    return parts.get(3, b"").decode() if parts.get(1, 0) == 1 else _signed(parts.get(2, 0))


def _time(raw: bytes) -> str | None:
    parts = dict(protobuf.fields(raw))
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
