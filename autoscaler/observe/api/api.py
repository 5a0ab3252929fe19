"""The read-only routes: metrics, health, the status page and its data as JSON."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from autoscaler.clock import Clock, Instant
from autoscaler.observe.api.answers import (
    ApiServerStatus,
    GroupList,
    ListQuery,
    NodeList,
    NodesQuery,
    PlanList,
    PlansQuery,
    PodList,
    PodsQuery,
    StatusAnswer,
    Totals,
    WatchStatus,
)
from autoscaler.observe.cost import cost_of
from autoscaler.observe.http.endpoint import Anything, Endpoint, EndpointRoutes, Nothing, SuccessResponse, json_endpoint
from autoscaler.observe.http.health import HealthCheck, HealthResult
from autoscaler.observe.http.routing import HTML, TEXT, Request, Response
from autoscaler.observe.metrics import exposition
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.page.document import PageOptions, page_response
from autoscaler.observe.page.page import status_page
from autoscaler.observe.page.section import CompanionSection
from autoscaler.observe.status_board import StatusBoard, StatusView

List = TypeVar("List", GroupList, NodeList, PodList, PlanList)


def read_routes(
    board: StatusBoard, metrics: Metrics, health: HealthCheck, clock: Clock, blocks: Sequence[CompanionSection] = ()
) -> EndpointRoutes:
    """Return the routes of every replica, leading or not; `blocks` are what companions add to the page."""
    endpoints = {
        **_pages(board, metrics, clock, health, blocks),
        **_lists(board, health, clock),
        **_checks(health, clock),
    }
    return {path: {"GET": endpoint} for path, endpoint in endpoints.items()}


def _pages(
    board: StatusBoard, metrics: Metrics, clock: Clock, health: HealthCheck, blocks: Sequence[CompanionSection]
) -> dict[str, Endpoint[Any]]:
    def page(options: PageOptions, _: Request) -> Response:
        now = clock.now()
        return page_response(
            status_page(board.view, now.wall, options, health.alive(now), blocks, health.complaints(now))
        )

    def home(_: Anything, __: Request) -> Response:
        return Response(b"see /status\n", status=302, headers={"Location": "/status"})

    return {
        "/": Endpoint(
            summary="Redirects to the status page.",
            exposes="nothing",
            query=Anything,
            serve=home,
            responses={302: SuccessResponse(text="The status page is at `Location`.", content_type=TEXT)},
        ),
        "/metrics": Endpoint(
            summary="Metrics in the Prometheus text format.",
            exposes="counts, durations and names of node groups",
            query=Anything,
            serve=lambda _, __: Response(metrics.scrape(), exposition.CONTENT_TYPE),
            responses={200: SuccessResponse(content_type=exposition.CONTENT_TYPE)},
        ),
        "/status": Endpoint(
            summary="The status page, for people.",
            exposes="what the other routes for groups, nodes, pods, plans and companions expose",
            query=PageOptions,
            serve=page,
            responses={200: SuccessResponse(content_type=HTML)},
        ),
    }


def _checks(health: HealthCheck, clock: Clock) -> dict[str, Endpoint[Any]]:
    def check(summary: str, ask: Callable[[Instant], HealthResult]) -> Endpoint[Anything]:
        def serve(_: Anything, __: Request) -> Response:
            verdict = ask(clock.now())
            return Response(verdict.text.encode(), TEXT, 200 if verdict.ok else 500)

        good, bad = (
            SuccessResponse(text=text, content_type=TEXT)
            for text in ("The check passed.", "The check failed; the text says why.")
        )
        return Endpoint(
            summary=summary,
            exposes="whether the autoscaler works, and since when it does not",
            query=Anything,
            serve=serve,
            responses={200: good, 500: bad},
        )

    return {
        "/health-check": check("Whether passes start and succeed in time.", health.alive),
        "/healthz": check("The same as `/health-check`.", health.alive),
        "/readyz": check(
            "Whether a pass has succeeded, or another replica leads, and the API server responds.", health.ready
        ),
    }


def _lists(board: StatusBoard, health: HealthCheck, clock: Clock) -> dict[str, Endpoint[Any]]:
    return {
        "/api/v1/status": json_endpoint(
            summary="The process, its last pass and totals of the cluster.",
            exposes="version, identity of the replica, totals, recent events with names of pods and nodes",
            query=Nothing,
            answers=StatusAnswer,
            answer=lambda _: _status(board.view, health, clock.now()),
        ),
        "/api/v1/groups": json_endpoint(
            summary="The node groups: sizes, limits, health, backoff.",
            exposes="names of node groups, machine types, limits, error texts of the cloud",
            query=ListQuery,
            answers=GroupList,
            answer=lambda part: _listed(GroupList, board.view, board.view.status.groups, part),
        ),
        "/api/v1/nodes": json_endpoint(
            summary="The nodes: their utilisation, and why they stay.",
            exposes="names of nodes, and of the pods that keep them",
            query=NodesQuery,
            answers=NodeList,
            answer=lambda wanted: _nodes(board.view, wanted),
        ),
        "/api/v1/pods": json_endpoint(
            summary="The pending pods: why they wait, and what was done for them.",
            exposes="names, namespaces and requests of pending pods",
            query=PodsQuery,
            answers=PodList,
            answer=lambda wanted: _pods(board.view, wanted),
        ),
        "/api/v1/plans": json_endpoint(
            summary="Decisions of the last six hours, newest first.",
            exposes="names of the node groups, nodes and pods in question",
            query=PlansQuery,
            answers=PlanList,
            answer=lambda wanted: _plans(board.view, wanted),
        ),
    }


def _status(view: StatusView, health: HealthCheck, now: Instant) -> StatusAnswer:
    status, server = view.status, health.api_server(now)
    return StatusAnswer(
        process=status.process,
        state=status.state,
        headline=status.headline,
        message=status.message,
        last_pass=status.last_pass,
        cluster=status.cluster,
        totals=Totals(
            groups=len(status.groups),
            nodes=len(status.nodes),
            pending_pods=len(status.pods),
            unneeded_nodes=sum(node.unneeded_since_at is not None for node in status.nodes),
        ),
        cost=cost_of(status.groups, status.process.currency),
        gangs=status.gangs,
        events=status.events,
        api_server=ApiServerStatus(
            problems=health.complaints(now),
            clock_ahead_s=server.clock_ahead_s,
            kinds=tuple(
                WatchStatus(path=path, silent_s=watch.silent_s, error=watch.error or None)
                for path, watch in server.kinds.items()
            ),
        ),
        undecoded=status.undecoded,
    )


def _nodes(view: StatusView, wanted: NodesQuery) -> NodeList:
    nodes = [
        node
        for node in view.status.nodes
        if wanted.group in (msgspec.UNSET, node.group) and wanted.state in (msgspec.UNSET, node.state)
    ]
    return _listed(NodeList, view, nodes, wanted)


def _pods(view: StatusView, wanted: PodsQuery) -> PodList:
    pods = [pod for pod in view.status.pods if wanted.namespace in (msgspec.UNSET, pod.namespace)]
    return _listed(PodList, view, pods, wanted)


def _plans(view: StatusView, wanted: PlansQuery) -> PlanList:
    newest_first = [decision for decision in reversed(view.history) if wanted.group in (msgspec.UNSET, decision.group)]
    return _listed(PlanList, view, newest_first, wanted)


def _listed(kind: Callable[..., List], view: StatusView, items: Sequence[msgspec.Struct], part: ListQuery) -> List:
    last = view.status.last_pass
    return kind(
        pass_started_at=None if last is None else last.started_at,
        total=len(items),
        items=tuple(items[part.offset : part.offset + part.limit]),
    )
