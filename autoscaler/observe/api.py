"""The read-only routes: metrics, health, the status page and its data as JSON."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from autoscaler.clock import Clock
from autoscaler.observe import exposition
from autoscaler.observe.answers import (
    ExplainAsked,
    Explanation,
    GroupList,
    NodeList,
    NodesAsked,
    PlanList,
    PlansAsked,
    PodList,
    PodsAsked,
    Slice,
    StatusAnswer,
    Totals,
)
from autoscaler.observe.endpoint import Endpoint, Nothing, asked
from autoscaler.observe.explaining import explain_group, explain_node, explain_pod
from autoscaler.observe.health import HealthCheck, Verdict
from autoscaler.observe.page import PageOptions, status_page
from autoscaler.observe.page_style import CONTENT_SECURITY_POLICY
from autoscaler.observe.routing import HTML, Handler, HttpProblem, Request, Response, Routes
from autoscaler.observe.status import Board, View

List = TypeVar("List", GroupList, NodeList, PodList, PlanList)


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
        options = asked(request.query, PageOptions)
        now = clock.now()
        text = status_page(board.view, now.wall, options, health.alive(now))
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
        **_endpoints(board),
    }
    return {path: {"GET": handler} for path, handler in handlers.items()}


def _endpoints(board: Board) -> dict[str, Handler]:
    return {
        "/api/v1/status": Endpoint(
            summary="The process, its last pass and the cluster as a whole.",
            asks=Nothing,
            answers=StatusAnswer,
            answer=lambda _: _status(board.view),
        ),
        "/api/v1/groups": Endpoint(
            summary="The node groups: sizes, limits, health, backoff.",
            asks=Slice,
            answers=GroupList,
            answer=lambda part: _listed(GroupList, board.view, board.view.status.groups, part),
        ),
        "/api/v1/nodes": Endpoint(
            summary="The nodes: how full they are, and why they stay.",
            asks=NodesAsked,
            answers=NodeList,
            answer=lambda wanted: _nodes(board.view, wanted),
        ),
        "/api/v1/pods": Endpoint(
            summary="The pods without a node: why they wait, and what is done for them.",
            asks=PodsAsked,
            answers=PodList,
            answer=lambda wanted: _pods(board.view, wanted),
        ),
        "/api/v1/plans": Endpoint(
            summary="What was decided in the last hours, newest first.",
            asks=PlansAsked,
            answers=PlanList,
            answer=lambda wanted: _plans(board.view, wanted),
        ),
        "/api/v1/explain": Endpoint(
            summary="Why one pod, node or node group fared as it did in the last pass.",
            asks=ExplainAsked,
            answers=Explanation,
            answer=lambda wanted: _explain(board.view, wanted),
            may_miss=True,
        ),
    }


def _status(view: View) -> StatusAnswer:
    status = view.status
    return StatusAnswer(
        process=status.process,
        state=status.state,
        message=status.message,
        last_pass=status.last_pass,
        cluster=status.cluster,
        totals=Totals(
            groups=len(status.groups),
            nodes=len(status.nodes),
            pending_pods=len(status.pods),
            unneeded_nodes=sum(node.unneeded_since_at is not None for node in status.nodes),
        ),
        events=status.events,
    )


def _nodes(view: View, wanted: NodesAsked) -> NodeList:
    nodes = [
        node
        for node in view.status.nodes
        if wanted.group in (msgspec.UNSET, node.group) and wanted.state in (msgspec.UNSET, node.state)
    ]
    return _listed(NodeList, view, nodes, wanted)


def _pods(view: View, wanted: PodsAsked) -> PodList:
    pods = [pod for pod in view.status.pods if wanted.namespace in (msgspec.UNSET, pod.namespace)]
    return _listed(PodList, view, pods, wanted)


def _plans(view: View, wanted: PlansAsked) -> PlanList:
    newest_first = [one for one in reversed(view.history) if wanted.group in (msgspec.UNSET, one.group)]
    return _listed(PlanList, view, newest_first, wanted)


def _listed(kind: Callable[..., List], view: View, items: Sequence[msgspec.Struct], part: Slice) -> List:
    last = view.status.last_pass
    return kind(
        pass_started_at=None if last is None else last.started_at,
        total=len(items),
        items=tuple(items[part.offset : part.offset + part.limit]),
    )


def _explain(view: View, wanted: ExplainAsked) -> Explanation:
    explainers = (
        ("pod", wanted.pod, explain_pod),
        ("node", wanted.node, explain_node),
        ("group", wanted.group, explain_group),
    )
    named = [(kind, name, explain) for kind, name, explain in explainers if name is not msgspec.UNSET]
    if len(named) != 1:
        raise HttpProblem(400, "invalid_parameter", "name exactly one pod, node or group: ?pod=NAMESPACE/NAME")
    kind, name, explain = named[0]
    found = explain(view, name)
    if found is None:
        missing = {"pod": "pod without a node", "node": "node", "group": "node group"}[kind]
        raise HttpProblem(404, "not_found", f"the last pass saw no {missing} called {name}", kind)
    return found
