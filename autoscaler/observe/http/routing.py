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
"""Of a request, unless a listener says otherwise."""

PROBES = frozenset({"/health-check", "/healthz", "/readyz"})
"""Routes that are answered however busy a server is: a kubelet asks them, without credentials."""

_MAX_SHOWN = 200
_HEADER_LINE = re.compile(r"[A-Za-z0-9-]+: [\t -~]*")

log = Log(__name__)


class BodyVerifier(Protocol):
    """Proves who sent a body, which it is shown piece by piece while it arrives."""

    def update(self, piece: bytes) -> None:
        """Take the next piece of the body."""
        ...

    def check(self) -> None:
        """Raise `HttpProblem` where the whole body is not from whom it should be."""
        ...


class Request(msgspec.Struct, frozen=True):
    """What a handler gets; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    source: str = ""
    """Address of the socket's other end."""
    took_s: float = 0.0
    """How long head and body took to arrive."""
    verifier: BodyVerifier | None = None
    """It was shown the whole body; None: nobody has looked at who sent it."""
    client_gone: Callable[[], bool] = lambda: False
    """Whether the client has hung up, so that nobody waits for the answer."""


class Response(msgspec.Struct, frozen=True):
    """What a handler returns; `headers` come on top of, and override, the server's own.

    Raises `ValueError` for headers that would not be one line each.
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
    """A request that cannot be served. `code` is snake_case and stable; `field` names the culprit, if it is one."""

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field
        self.headers = headers or {}


Handler = Callable[[Request], Response]
"""One that checks who asks has `authenticate`, which `verifier_for` calls."""
Routes = Mapping[str, Mapping[str, Handler]]
"""Handlers by path and method; whatever takes GET takes HEAD. A segment in braces of a path stands for any one."""


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
    """Ask a handler, before the body is read, whether it takes the request at all; raises `HttpProblem` if not.

    Returns what has to be shown the body; None: anybody may ask.
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
    """Answer one request; a HEAD answer still has its body."""
    try:
        _, handler = match_route(routes, request.method, request.path)
    except HttpProblem as problem:
        return problem_response(problem)
    return answer(handler, request)


def answer(handler: Handler, request: Request) -> Response:
    """Answer one request by its handler, whatever that raises."""
    try:
        return handler(request)
    except HttpProblem as problem:
        return problem_response(problem)
    except Exception:  # noqa: BLE001  # top of a thread: one bad request must not look like a dead server
        log.crashed("http.failed", path=request.path)
        return problem_response(HttpProblem(500, "internal", "the request failed; the log says why"))
