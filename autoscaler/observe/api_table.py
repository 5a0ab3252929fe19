"""The table of paths in docs/api.md, written from the endpoints."""

from collections.abc import Iterator
from typing import Any

import msgspec

from autoscaler.observe.endpoint import Described, Endpoint


def path_table(routes: Described) -> list[str]:
    """Return the lines of the table, in Markdown, sorted by path."""
    rows = [
        _row(path, method, endpoint) for path, methods in sorted(routes.items()) for method, endpoint in methods.items()
    ]
    return ["| method and path | answer | parameters |", "|---|---|---|", *rows]


def _row(path: str, method: str, endpoint: Endpoint[Any]) -> str:
    where = f" Served {endpoint.when}." if endpoint.when else ""
    parameters = ", ".join(_asked(endpoint))
    return f"| `{method} {path}` | {endpoint.summary}{where} |{parameters and f' {parameters}'} |"


def _asked(endpoint: Endpoint[Any]) -> Iterator[str]:
    for field in msgspec.structs.fields(endpoint.asks):
        yield f"`{field.encode_name}`"
    if endpoint.takes is not None:
        yield "a body"
