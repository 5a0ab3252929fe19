"""Generates the tables of paths in docs/api.md and docs/security.md from the endpoints."""

from collections.abc import Iterator
from typing import Any

import msgspec

from autoscaler.observe.http.endpoint import Endpoint, EndpointRoutes


def path_table(routes: EndpointRoutes) -> list[str]:
    """Return the lines of the table, in Markdown, sorted by path."""
    rows = [
        _row(path, method, endpoint) for path, methods in sorted(routes.items()) for method, endpoint in methods.items()
    ]
    return ["| method and path | answer | parameters |", "|---|---|---|", *rows]


def access_table(routes: EndpointRoutes) -> list[str]:
    """Return the lines of the table of who may call what, in Markdown, sorted by path."""
    rows = [
        f"| `{method} {path}` | {endpoint.exposes} | {_callers(endpoint)} | {endpoint.when or 'always'} |"
        for path, methods in sorted(routes.items())
        for method, endpoint in methods.items()
    ]
    return ["| method and path | exposes | who may call it | served |", "|---|---|---|---|", *rows]


def _callers(endpoint: Endpoint[Any]) -> str:
    signatures = " and ".join(f"`{name}`" for name in endpoint.signed_by)
    return f"a client that signs it: {signatures}" if signatures else "any client that reaches the port"


def _row(path: str, method: str, endpoint: Endpoint[Any]) -> str:
    where = f" Served {endpoint.when}." if endpoint.when else ""
    parameters = ", ".join(_parameters(endpoint))
    return f"| `{method} {path}` | {endpoint.summary}{where} |{parameters and f' {parameters}'} |"


def _parameters(endpoint: Endpoint[Any]) -> Iterator[str]:
    for field in msgspec.structs.fields(endpoint.query):
        yield f"`{field.encode_name}`"
    if endpoint.body is not None:
        yield "a body"
