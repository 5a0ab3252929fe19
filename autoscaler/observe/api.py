"""The read-only routes: metrics, health, the status page and its data as JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from autoscaler.clock import Clock
from autoscaler.observe import exposition
from autoscaler.observe.health import HealthCheck, Verdict
from autoscaler.observe.page import DEFAULT_REFRESH_S, PageOptions, status_page
from autoscaler.observe.page_style import CONTENT_SECURITY_POLICY
from autoscaler.observe.public import public, public_json
from autoscaler.observe.status import Board, View
from autoscaler.observe.web import HTML, JSON, Handler, HttpProblem, Request, Response, Routes

_LARGEST_LIMIT = 100_000
_LONGEST_REFRESH_S = 3600


class Scraped(Protocol):
    """Has metrics as text."""

    def scrape(self) -> bytes:
        """Return them in `exposition.CONTENT_TYPE`."""
        ...


def read_routes(board: Board, metrics: Scraped, health: HealthCheck, clock: Clock) -> Routes:
    """Return the routes of every replica, leading or not."""

    def scrape(_: Request) -> Response:
        return Response(metrics.scrape(), exposition.CONTENT_TYPE)

    def page(request: Request) -> Response:
        _only(request, "all", "refresh")
        options = PageOptions(
            all_rows=_flag(request, "all"),
            refresh_s=_number(request, "refresh", DEFAULT_REFRESH_S, 0, _LONGEST_REFRESH_S),
        )
        text = status_page(board.view, clock.now().wall, options)
        return Response(text.encode(), HTML, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})

    def home(_: Request) -> Response:
        return Response(b"see /status\n", status=302, headers={"Location": "/status"})

    def checked(check: Callable[[], Verdict]) -> Handler:
        def answer(_: Request) -> Response:
            verdict = check()
            return Response(verdict.text.encode(), status=200 if verdict.ok else 500)

        return answer

    handlers: dict[str, Handler] = {
        "/": home,
        "/metrics": scrape,
        "/health-check": checked(lambda: health.alive(clock.now())),
        "/healthz": checked(lambda: health.alive(clock.now())),
        "/readyz": checked(lambda: health.ready(clock.now())),
        "/status": page,
        "/api/v1/status": lambda request: _status(board.view, request),
        "/api/v1/groups": lambda request: _groups(board.view, request),
        "/api/v1/nodes": lambda request: _nodes(board.view, request),
        "/api/v1/pods": lambda request: _pods(board.view, request),
        "/api/v1/plans": lambda request: _plans(board.view, request),
    }
    return {path: {"GET": handler} for path, handler in handlers.items()}


def _status(view: View, request: Request) -> Response:
    _only(request)
    status = view.status
    answer: dict[str, Any] = {
        "process": status.process,
        "state": status.state,
        "message": status.message,
        "last_pass": status.last_pass,
        "cluster": status.cluster,
        "totals": {
            "groups": len(status.groups),
            "nodes": len(status.nodes),
            "pending_pods": len(status.pods),
            "unneeded_nodes": sum(node.unneeded_since_at is not None for node in status.nodes),
        },
        "events": status.events,
    }
    return Response(public_json(answer), JSON)


def _groups(view: View, request: Request) -> Response:
    _only(request, "limit")
    return _list(view, request, view.status.groups)


def _nodes(view: View, request: Request) -> Response:
    _only(request, "limit", "group", "state")
    group, state = request.query.get("group"), request.query.get("state")
    nodes = [
        node
        for node in view.status.nodes
        if (group is None or node.group == group) and (state is None or node.state == state)
    ]
    return _list(view, request, nodes)


def _pods(view: View, request: Request) -> Response:
    _only(request, "limit", "namespace")
    namespace = request.query.get("namespace")
    return _list(view, request, [pod for pod in view.status.pods if namespace in (None, pod.namespace)])


def _plans(view: View, request: Request) -> Response:
    _only(request, "limit", "group")
    group = request.query.get("group")
    newest_first = [one for one in reversed(view.history) if group in (None, one.group)]
    return _list(view, request, newest_first)


def _list(view: View, request: Request, items: Sequence[msgspec.Struct]) -> Response:
    limit = _number(request, "limit", _LARGEST_LIMIT, 1, _LARGEST_LIMIT)
    last = view.status.last_pass
    answer: Mapping[str, Any] = {
        "passStartedAt": None if last is None else public({"at": last.started_at})["at"],
        "total": len(items),
        "items": public(items[:limit]),
    }
    return Response(msgspec.json.encode(answer), JSON)


def _only(request: Request, *known: str) -> None:
    for name in request.query:
        if name not in known:
            raise HttpProblem(400, "invalid_parameter", f"there is no parameter {name[:100]}", name[:100])


def _flag(request: Request, name: str) -> bool:
    return _number(request, name, 0, 0, 1) == 1


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and least <= int(text) <= most):
        raise HttpProblem(400, "invalid_parameter", f"{name} must be a number from {least} to {most}", name)
    return int(text)
