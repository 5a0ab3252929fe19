"""Parses untrusted JSON: refuses duplicate keys, excessive depth and extensions of JSON."""

import json
import re
from typing import Any

_DEEPEST = 64
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
"""One that does not end is one too, or looking for its end would begin anew at every quote in it."""
_BRACKETS = re.compile(rb"[\[\]{}]")


def read_object(body: bytes) -> dict[str, Any]:
    """Read a JSON object; raises `ValueError` for anything else."""
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > _DEEPEST:
            raise ValueError(f"is nested deeper than {_DEEPEST}")
    data = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    if not isinstance(data, dict):
        raise ValueError("is no object")
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("has a key twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"has {name}, which is not JSON")
