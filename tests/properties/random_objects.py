"""Random objects of the API, valid by its own OpenAPI documents (Kubernetes 1.32, trimmed to types and names)."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

_API = json.loads(gzip.decompress((Path(__file__).parent / "openapi.json.gz").read_bytes()))
SCHEMAS: dict[str, Any] = _API["schemas"]
KINDS: dict[str, str] = _API["kinds"]
_QUANTITIES = ("0", "1", "100m", "4Gi", "9223372036854775807", "1e3", ".5", "0.1u")
_TIMES = ("2026-01-05T12:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-05T12:00:00.000001Z")
_TEXTS = ("", "x", "ключ", "\U0001f6a2", "a" * 3000, "null", "In", "Unheard", "\x00", "..")
_DEEPEST = 7


def an_object(rng: random.Random, kind: str, name: str) -> dict[str, Any]:
    """Return an object of a kind: each optional field absent, null, empty, extreme or ordinary."""
    made: dict[str, Any] = _of(rng, {"ref": KINDS[kind]}, 0)
    metadata = made.get("metadata") or {}
    made["metadata"] = {**metadata, "name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "7"}
    return made


def _of(rng: random.Random, schema: dict[str, Any], depth: int) -> Any:
    if "ref" in schema:
        name = schema["ref"]
        if name.endswith(".Quantity"):
            return rng.choice(_QUANTITIES)
        if name.endswith(".IntOrString"):
            return rng.choice((0, 2**31 - 1, "50%", ""))
        return _of(rng, SCHEMAS[name], depth)
    if "properties" in schema:
        return _struct(rng, schema, depth)
    match schema.get("type"):
        case "array":
            return [_of(rng, schema["items"], depth + 1) for _ in range(rng.choice((0, 1, 2)))]
        case "object":
            values = schema.get("values", {})
            return {rng.choice(_TEXTS) + "k": _of(rng, values, depth + 1) for _ in range(rng.choice((0, 1, 2)))}
        case "integer":
            most = 2**63 - 1 if schema.get("format") == "int64" else 2**31 - 1
            return rng.choice((0, 1, most, -1))
        case "boolean":
            return rng.choice((True, False))
        case "number":
            return rng.choice((0, 1.5))
        case _:
            return rng.choice(_TIMES if schema.get("format") == "date-time" else _TEXTS)


def _struct(rng: random.Random, schema: dict[str, Any], depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        if name not in schema.get("required", ()):
            if depth > _DEEPEST or rng.random() < min(0.85, 0.25 + 0.15 * depth):
                continue
            if rng.random() < 0.2:
                made[name] = None
                continue
        elif part.get("type") == "array" and rng.random() < 0.2:
            made[name] = None  # as the API server itself writes an empty list
            continue
        made[name] = _of(rng, part, depth + 1)
    return made
