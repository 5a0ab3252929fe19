"""`/snapshotz`: returns the data of the next complete pass, in Cluster Autoscaler's form."""

import threading
from collections.abc import Callable

import msgspec

from autoscaler.clock import Clock
from autoscaler.loop.companion import Companion
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.encode import Plain, PodForms, node_form
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.observe.http.endpoint import Anything, Endpoint, EndpointRoutes, JsonMapping, SuccessResponse
from autoscaler.observe.http.routing import JSON, HttpProblem, Response
from autoscaler.observe.report import PassReport
from autoscaler.reasons import Waiting
from autoscaler.scenario.bare import bare_node

PATH = "/snapshotz"
_TIMEOUT_S = 120.0
_CLIENT_CHECK_S = 1.0
"""Seconds between two checks whether the client is still connected; a lost client must not keep others waiting."""


_NodesWithPods = tuple[tuple[Node, tuple[Pod, ...]], ...]


class _SeenPass(msgspec.Struct, frozen=True):
    report: PassReport
    nodes: _NodesWithPods
    """Nodes of the simulated cluster, including upcoming ones."""


class Snapshots(Companion):
    """Passes a pass to the one request that waits for it."""

    name = "snapshotz"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._request_lock = threading.Lock()
        self._pass_ended = threading.Condition()
        self._requested_at: float | None = None
        self._pass: _SeenPass | None = None

    def after_pass(self, ended: EndedPass) -> None:
        """Publish the pass if it began after a request; the simulated cluster stays on this thread."""
        with self._pass_ended:
            if self._requested_at is not None and ended.report.now.mono >= self._requested_at:
                self._pass = _SeenPass(report=ended.report, nodes=_simulated_nodes(ended))
                self._pass_ended.notify_all()

    @property
    def requested(self) -> bool:
        """Whether a request waits for the next pass."""
        return self._requested_at is not None

    def routes(self) -> EndpointRoutes:
        """Return the route."""
        endpoint = Endpoint(
            summary="The data of the next whole pass, in Cluster Autoscaler's form.",
            exposes="the data of every node and pod that decisions read, with labels and some annotations",
            query=Anything,
            serve=lambda _, request: self._answer(request.client_gone),
            responses={
                200: SuccessResponse(text="What the pass saw.", forms=(JsonMapping,)),
                500: SuccessResponse(text="The pass failed; `Error` says why.", forms=(JsonMapping,)),
            },
            errors={429: "Another request waits for a snapshot.", 503: "No pass ended in time."},
            when="with `--debugging-snapshot-enabled`",
        )
        return {PATH: {"GET": endpoint}}

    def _answer(self, client_gone: Callable[[], bool]) -> Response:
        if not self._request_lock.acquire(blocking=False):
            raise HttpProblem(429, "busy", "another request waits for a snapshot; one at a time")
        try:
            seen = self._next_pass(client_gone)
        finally:
            self._request_lock.release()
        if seen is None:
            raise HttpProblem(503, "no_pass", f"no pass ended within {_TIMEOUT_S:g} s; does this replica lead?")
        content = _snapshot(seen)
        return Response(msgspec.json.encode(content), JSON, 500 if "Error" in content else 200)

    def _next_pass(self, client_gone: Callable[[], bool]) -> _SeenPass | None:
        """Return the next pass; None if none ends in time, or the client has disconnected."""
        with self._pass_ended:
            self._requested_at, self._pass = self._clock.now().mono, None
            for _ in range(int(_TIMEOUT_S / _CLIENT_CHECK_S)):
                if client_gone() or self._pass_ended.wait_for(lambda: self._pass is not None, _CLIENT_CHECK_S):
                    break
            self._requested_at = None
            return self._pass


def _simulated_nodes(ended: EndedPass) -> _NodesWithPods:
    """Return the nodes on which a pass decided; if it ended before that, the nodes of the cluster."""
    view = ended.report.view
    if view is None:
        return ()
    if ended.placer is None:
        return tuple(zip(view.nodes, view.pods, strict=True))
    trial = ended.placer.trial
    return tuple(
        (trial.node(position), view.pods[position] if template is None else template.pods)
        for position in range(trial.count)
        if trial.alive[position]
        for template in (trial.template(position),)
    )


def _snapshot(seen: _SeenPass) -> Plain:
    """Return what a pass saw: nodes with their pods, including upcoming ones, pods that found room, and templates."""
    report, forms = seen.report, PodForms()

    def with_pods(node: Node, pods: tuple[Pod, ...]) -> Plain:
        return {"Node": node_form(bare_node(node)), "Pods": [forms.form(pod) for pod in pods]}

    content: Plain = {
        "NodeList": [with_pods(node, pods) for node, pods in seen.nodes],
        "UnscheduledPodsCanBeScheduled": [],
        "TemplateNodes": {},
    }
    if report.view is None:
        content["Error"] = report.error or "the cluster could not be observed"
    if report.view is not None:
        schedulable_pods = [pod for pod in report.view.pending if report.pods.waiting.get(pod.key) is Waiting.FITS]
        content["UnscheduledPodsCanBeScheduled"] = [forms.form(pod) for pod in schedulable_pods]
    content["TemplateNodes"] = {
        group: with_pods(template.node, template.pods) for group, template in report.templates.items()
    }
    content["StartTimestamp"] = rfc3339(report.now.wall)
    content["EndTimestamp"] = rfc3339(report.now.wall + report.timings.get("pass", 0.0))
    return content
