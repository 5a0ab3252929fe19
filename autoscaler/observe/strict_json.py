"""Parses untrusted JSON: refuses duplicate keys, excessive depth and extensions of JSON."""

import json
import re
from typing import Any

_MAX_DEPTH = 64
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
"""A string without an end counts too; otherwise the search for its end would start again at every quote in it."""
_BRACKET = re.compile(rb"[\[\]{}]")


def read_object(body: bytes) -> dict[str, Any]:
    """Read a JSON object; raises `ValueError` for anything else."""
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > _MAX_DEPTH:
            raise ValueError(f"is nested deeper than {_MAX_DEPTH}")
    data = json.loads(body.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    if not isinstance(data, dict):
        raise ValueError("is no object")
    return data


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("has a key twice")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(f"has {name}, which is not JSON")
