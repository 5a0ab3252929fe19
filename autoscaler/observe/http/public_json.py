"""The JSON form of published values: camelCase names with units, RFC 3339 times, null for unknown.

Field names are converted. Mapping keys are not, because they are names of groups, resources or reasons.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec

_UNITS = {"s": "Seconds", "milli": "Milli", "bytes": "Bytes"}


def public(value: object) -> Any:
    """Convert a value and the structs in it to plain JSON data with public names; only unset fields are left out."""
    if isinstance(value, msgspec.Struct):
        return _tag(type(value)) | {
            name: rfc3339(member) if is_time and isinstance(member, int | float) else public(member)
            for field, name, is_time in _public_fields(type(value))
            if (member := getattr(value, field)) is not msgspec.UNSET
        }
    if isinstance(value, Mapping):
        return {key: public(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [public(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def public_json(value: object) -> bytes:
    """Return `public` as JSON."""
    return msgspec.json.encode(public(value))


def public_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the JSON schema of a struct to the schema of its `public` form, in which every field is required."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    if not properties:
        return dict(schema)
    always = [name for name, form in properties.items() if name in schema["required"] or "default" in form]
    return {
        **schema,
        "properties": {_public_name(name): _shown_schema(name, form) for name, form in properties.items()},
        "required": [_public_name(name) for name in always],
    }


def rfc3339(wall: float) -> str:
    """Return a time in UTC with milliseconds."""
    moment = datetime.fromtimestamp(round(wall * 1000) / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _shown_schema(name: str, schema: Mapping[str, Any]) -> Any:
    kept = {key: value for key, value in schema.items() if key != "default"}
    if not _is_time(name):
        return kept
    if "anyOf" in kept:
        return {**kept, "anyOf": [_shown_schema(name, option) for option in kept["anyOf"]]}
    return {"type": "string", "format": "date-time"} if kept.get("type") == "number" else kept


@lru_cache(256)
def _public_fields(form: type[msgspec.Struct]) -> tuple[tuple[str, str, bool], ...]:
    """Return attribute and public name of each field, and whether it is a time."""
    return tuple(
        (field.name, _public_name(field.encode_name), _is_time(field.encode_name))
        for field in msgspec.structs.fields(form)
    )


@lru_cache(256)
def _tag(form: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the field that distinguishes the possible types of a value."""
    config = form.__struct_config__
    return {} if config.tag_field is None else {config.tag_field: config.tag}


def _public_name(name: str) -> str:
    first, *rest = name.split("_")
    if rest and rest[-1] in _UNITS:
        rest[-1] = _UNITS[rest[-1]]
    return first + "".join(word[0].upper() + word[1:] for word in rest)


def _is_time(name: str) -> bool:
    return name == "at" or name.endswith("_at")
