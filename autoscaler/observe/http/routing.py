"""Routes of the HTTP server: handlers, their selection for a request, and error answers.

Errors are JSON: `{"error":{"code","message","field"}}`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from autoscaler.errors import AutoscalerError
from autoscaler.logs import Log

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"

MAX_BODY_BYTES = 1024 * 1024
"""Maximum size of a request body, unless a listener sets another limit."""

PROBES = frozenset({"/health-check", "/healthz", "/readyz"})
"""Routes that are answered even if the server is busy, because a kubelet calls them without credentials."""

_MAX_SHOWN = 200
_HEADER_LINE = re.compile(r"[A-Za-z0-9-]+: [\t -~]*")

log = Log(__name__)


class BodyVerifier(Protocol):
    """Verifies the sender of a body, piece by piece as the body arrives."""

    def update(self, piece: bytes) -> None:
        """Take the next piece of the body."""
        ...

    def check(self) -> None:
        """Raise `HttpProblem` if the whole body does not come from the expected sender."""
        ...


class Request(msgspec.Struct, frozen=True):
    """The input of a handler; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    source: str = ""
    """Address of the peer."""
    took_s: float = 0.0
    """Seconds that head and body took to arrive."""
    verifier: BodyVerifier | None = None
    """Has verified the whole body; None if the sender was not verified."""
    client_gone: Callable[[], bool] = lambda: False
    """Whether the client has closed the connection, so that the response is no longer needed."""


class Response(msgspec.Struct, frozen=True):
    """The result of a handler; `headers` extend and override the server's own.

    Raises `ValueError` for a header that does not fit in one line.
    """

    body: bytes
    content_type: str = TEXT
    status: int = 200
    headers: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        """Check the headers."""
        for name, value in (("Content-Type", self.content_type), *self.headers.items()):
            if not _HEADER_LINE.fullmatch(f"{name}: {value}"):
                raise ValueError(f"header {name!r} is not one line of ASCII")


class HttpProblem(AutoscalerError):
    """A request that cannot be served.

    `code` is snake_case and stable; `field` names the invalid field, if there is one.
    """

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field
        self.headers = headers or {}


Handler = Callable[[Request], Response]
"""A handler that authenticates its callers has `authenticate`, which `verifier_for` calls."""
Routes = Mapping[str, Mapping[str, Handler]]
"""Handlers by path and method; each GET handler also serves HEAD. A path segment in braces matches any segment."""


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a request."""

    code: str
    message: str
    field: str | msgspec.UnsetType = msgspec.UNSET


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    error: Problem


def problem_response(problem: HttpProblem) -> Response:
    """Return the error envelope."""
    field = msgspec.UNSET if problem.field is None else problem.field
    envelope = ErrorEnvelope(Problem(problem.code, str(problem), field))
    return Response(msgspec.json.encode(envelope), JSON, problem.status, problem.headers)


def match_route(routes: Routes, method: str, path: str) -> tuple[str, Handler]:
    """Return the route of a path and the handler of a method there; raises `HttpProblem`."""
    pattern = path if path in routes else next((other for other in routes if _path_matches(other, path)), None)
    lookup_method = "GET" if method == "HEAD" else method
    handlers = {} if pattern is None else routes[pattern]
    if lookup_method in handlers:
        return pattern or path, handlers[lookup_method]
    if pattern is None and any(lookup_method in methods for methods in routes.values()):
        raise HttpProblem(404, "not_found", f"there is nothing at {path[:_MAX_SHOWN]}")
    allowed = sorted({*handlers, *(("HEAD",) if "GET" in handlers else ())} or _all_methods(routes))
    message = f"{method} is not possible here, only {', '.join(allowed)}"
    raise HttpProblem(405, "method_not_allowed", message, headers={"Allow": ", ".join(allowed)})


def verifier_for(handler: Handler, head: Request) -> BodyVerifier | None:
    """Let a handler check a request before its body is read; raises `HttpProblem` if it refuses the request.

    Returns the verifier for the body; None if the handler requires no authentication.
    """
    authenticate: Callable[[Request], BodyVerifier | None] | None = getattr(handler, "authenticate", None)
    return None if authenticate is None else authenticate(head)


def _path_matches(pattern: str, path: str) -> bool:
    expected, actual = pattern.split("/"), path.split("/")
    return len(expected) == len(actual) and all(
        (segment[:1] == "{" and other != "") or segment == other
        for segment, other in zip(expected, actual, strict=True)
    )


def _all_methods(routes: Routes) -> set[str]:
    methods = {method for handlers in routes.values() for method in handlers}
    return methods | ({"HEAD"} if "GET" in methods else set())


def route(routes: Routes, request: Request) -> Response:
    """Answer one request; the response to HEAD still has its body."""
    try:
        _, handler = match_route(routes, request.method, request.path)
    except HttpProblem as problem:
        return problem_response(problem)
    return answer(handler, request)


def answer(handler: Handler, request: Request) -> Response:
    """Call the handler and return its response; turn any exception into an error response."""
    try:
        return handler(request)
    except HttpProblem as problem:
        return problem_response(problem)
    except Exception:  # noqa: BLE001  # top of a thread: one bad request must not look like a dead server
        log.crashed("http.failed", path=request.path)
        return problem_response(HttpProblem(500, "internal", "the request failed; the log says why"))
