"""How published values look in JSON: camelCase names with their unit spelt out, times in RFC 3339, unknown is null."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

_UNITS = {"s": "Seconds", "milli": "Milli", "bytes": "Bytes"}


def public(value: object) -> Any:
    """Turn structs into plain JSON data under their public names."""
    return _renamed(msgspec.to_builtins(value))


def public_json(value: object) -> bytes:
    """Return `public` as JSON."""
    return msgspec.json.encode(public(value))


def public_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the JSON schema of a struct into that of what `public` makes of it: no field is ever left out."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    if not properties:
        return dict(schema)
    always = [name for name, one in properties.items() if name in schema["required"] or "default" in one]
    return {
        **schema,
        "properties": {_public_name(name): _shown_schema(name, one) for name, one in properties.items()},
        "required": [_public_name(name) for name in always],
    }


def rfc3339(wall: float) -> str:
    """Return a time in UTC with milliseconds."""
    moment = datetime.fromtimestamp(round(wall * 1000) / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _renamed(data: Any) -> Any:
    if isinstance(data, dict):
        return {_public_name(name): _shown(name, value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_renamed(one) for one in data]
    return data


def _shown(name: str, value: Any) -> Any:
    if _is_time(name) and isinstance(value, int | float):
        return rfc3339(value)
    return _renamed(value)


def _shown_schema(name: str, schema: Mapping[str, Any]) -> Any:
    kept = {key: value for key, value in schema.items() if key != "default"}
    if not _is_time(name):
        return kept
    if "anyOf" in kept:
        return {**kept, "anyOf": [_shown_schema(name, one) for one in kept["anyOf"]]}
    return {"type": "string", "format": "date-time"} if kept.get("type") == "number" else kept


@lru_cache(1024)
def _public_name(name: str) -> str:
    first, *rest = name.split("_")
    if rest and rest[-1] in _UNITS:
        rest[-1] = _UNITS[rest[-1]]
    return first + "".join(word[0].upper() + word[1:] for word in rest)


def _is_time(name: str) -> bool:
    return name == "at" or name.endswith("_at")
