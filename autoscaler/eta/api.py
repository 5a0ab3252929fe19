"""The routes of pod start estimates: JSON under `/api/v1/`, and the page `/status/starts`."""

import heapq
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from autoscaler.eta.answers import EtaList, HistoryList, PodEstimate, WhatIf, pod_answer, pod_answers, summary
from autoscaler.eta.history import PodRecord, PodStage, records_of
from autoscaler.eta.hypothetical_pod import HypotheticalPod, read_pod
from autoscaler.eta.status import EtaStatus
from autoscaler.observe.api.answers import Name
from autoscaler.observe.http.endpoint import Body, Endpoint, EndpointRoutes, Nothing, SuccessResponse, json_endpoint
from autoscaler.observe.http.public_json import public_json
from autoscaler.observe.http.routing import HTML, JSON, HttpProblem, Request, Response
from autoscaler.observe.page.document import PageOptions

PageRenderer = Callable[[EtaStatus, float, PageOptions], Response]
EstimateLimit = Annotated[int, Meta(ge=1, le=1000, description="Maximum number of items to return.")]

_AGAIN = {"Retry-After": "1"}
_SWITCHED_ON = "unless `--pod-start-estimates=false`"


class EstimatesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The estimates to return."""

    namespace: Annotated[Name, Meta(description="Only pods of this namespace.")] | UnsetType = UNSET
    pod: Annotated[Name, Meta(description="Only this pod, `NAMESPACE/NAME`, pending or not.")] | UnsetType = UNSET
    limit: EstimateLimit = 100


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The pod histories to return."""

    namespace: Annotated[Name, Meta(description="Only pods of this namespace.")] | UnsetType = UNSET
    state: Annotated[PodStage, Meta(description="Only pods in this stage.")] | UnsetType = UNSET
    since: (
        Annotated[
            datetime, Meta(tz=True, description="Only pods requested at this time or later: 2026-11-20T10:00:00Z.")
        ]
        | UnsetType
    ) = UNSET
    limit: EstimateLimit = 100


class EtaPages:
    """Answers requests, from any thread."""

    def __init__(self, status: Callable[[], EtaStatus], wall: Callable[[], float], page: PageRenderer) -> None:
        self._status = status
        self._wall = wall
        self._page = page
        self._asking = threading.Lock()
        self._imagined = WhatIf()

    def routes(self) -> EndpointRoutes:
        """Return the routes."""
        return {
            "/api/v1/eta": {
                "GET": json_endpoint(
                    summary="When pending pods, or one pod, will be ready, and the basis of the estimate.",
                    exposes="names and namespaces of pods, their nodes and groups; capacity of each group",
                    query=EstimatesQuery,
                    answers=(EtaList, PodEstimate, PodRecord),
                    answer=self._estimates,
                    errors={404: "There is no pod of that name."},
                    when=_SWITCHED_ON,
                ),
                "POST": Endpoint(
                    summary="When a hypothetical pod would be ready. Nothing is created.",
                    exposes="which node or group would take a pod; uses CPU time, for one request at a time",
                    query=Nothing,
                    body=Body(text="A Pod, whatever the content type says.", forms={JSON: HypotheticalPod}),
                    serve=lambda _, request: self._what_if(request),
                    responses={200: SuccessResponse(forms=(PodEstimate,))},
                    errors={
                        422: "The body is no pod that could be placed; `field` is what is wrong with it.",
                        429: "Another such request is being answered; they are taken one at a time.",
                    },
                    when=_SWITCHED_ON,
                ),
            },
            "/api/v1/pods/history": {
                "GET": json_endpoint(
                    summary="The life of each pod with the error of its first estimate, newest first.",
                    exposes="names and namespaces of pods, their nodes, and when they started",
                    query=HistoryQuery,
                    answers=HistoryList,
                    answer=self._history,
                    when=_SWITCHED_ON,
                )
            },
            "/status/starts": {
                "GET": Endpoint(
                    summary="Capacity, boot times and active pods, for people.",
                    exposes="what `/api/v1/eta` exposes",
                    query=PageOptions,
                    serve=lambda options, _: self._page(self._status(), self._wall(), options),
                    responses={200: SuccessResponse(content_type=HTML)},
                    when=_SWITCHED_ON,
                )
            },
        }

    def _estimates(self, wanted: EstimatesQuery) -> EtaList | PodEstimate | PodRecord:
        status = self._status()
        if wanted.pod is not UNSET:
            return _of_pod(status, wanted.pod)
        items = pod_answers(status, None if wanted.namespace is UNSET else wanted.namespace)
        known = summary(status, self._wall())
        return EtaList(**msgspec.structs.asdict(known), total=len(items), items=items[: wanted.limit])

    def _what_if(self, request: Request) -> Response:
        if not self._asking.acquire(blocking=False):
            raise HttpProblem(429, "busy", "another pod is being asked about; one at a time", headers=_AGAIN)
        try:
            pod = read_pod(request.body)
            return Response(public_json(self._imagined.ask(self._status(), pod, lambda: _stay(request))), JSON)
        finally:
            self._asking.release()

    def _history(self, wanted: HistoryQuery) -> HistoryList:
        since = None if wanted.since is UNSET else wanted.since.timestamp()
        chosen = heapq.nlargest(
            wanted.limit,
            (
                record
                for record in _records(self._status())
                if wanted.namespace in (UNSET, record.namespace)
                and wanted.state in (UNSET, record.state)
                and (since is None or (record.requested_at or 0.0) >= since)
            ),
            key=lambda record: (record.requested_at or 0.0, record.uid),
        )
        return HistoryList(items=tuple(chosen))


def _stay(request: Request) -> None:
    """Raise `HttpProblem` if the client no longer waits for the answer."""
    if request.client_gone():
        raise HttpProblem(408, "client_gone", "the client has hung up")


def _of_pod(status: EtaStatus, key: str) -> PodEstimate | PodRecord:
    for pod in () if status.view is None else status.view.pending:
        if pod.key == key:
            return pod_answer(status, pod)
    if status.view is not None:
        namespace, _, name = key.partition("/")
        for record in records_of(status.live, status.view):
            if (record.namespace, record.name) == (namespace, name):
                return record
    raise HttpProblem(404, "pod_not_found", f"there is no pod {key}", "pod")


def _records(status: EtaStatus) -> Iterator[PodRecord]:
    yield from status.ended
    if status.view is not None:
        yield from records_of(status.live, status.view)
