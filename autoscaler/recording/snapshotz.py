"""`/snapshotz`: returns the data of the next complete pass, in Cluster Autoscaler's form."""

import threading
from collections.abc import Callable

import msgspec

from autoscaler.clock import Clock, Instant
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.stages import Observed
from autoscaler.objects.encode import Plain, PodForms, node_form
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.observe.http.endpoint import Endpoint, EndpointRoutes, JsonMapping, Nothing, SuccessResponse
from autoscaler.observe.http.routing import JSON, HttpProblem, Response
from autoscaler.reasons import Waiting
from autoscaler.scenario.bare import bare_node

PATH = "/snapshotz"
_PATIENCE_S = 120.0
_LOOK_UP_S = 1.0
"""How often a request looks whether its client is still there: it keeps others out."""


class Snapshots:
    """A `loop.companion.Companion` that hands a pass to the one request that waits for it."""

    name = "snapshotz"
    interval_s = None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asking = threading.Lock()
        self._arrived = threading.Condition()
        self._since: float | None = None
        self._pass: EndedPass | None = None

    def before_pass(self, observed: Observed) -> Observed:
        """Leave the pass as it is."""
        return observed

    def after_pass(self, p: EndedPass) -> None:
        """Hand the pass over, if it began after somebody asked."""
        with self._arrived:
            if self._since is not None and p.report.now.mono >= self._since:
                self._pass = p
                self._arrived.notify_all()

    def tick(self, now: Instant) -> None:
        """Nothing is due."""

    def leave(self) -> None:
        """Who waits will hear that nothing came."""

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for the next pass."""
        return self._since is not None

    def routes(self) -> EndpointRoutes:
        """Return the route."""
        endpoint = Endpoint(
            summary="The data of the next whole pass, in Cluster Autoscaler's form.",
            exposes="the data of every node and pod that decisions read, with labels and some annotations",
            query=Nothing,
            any_query=True,
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
        if not self._asking.acquire(blocking=False):
            raise HttpProblem(429, "busy", "another request waits for a snapshot; one at a time")
        try:
            p = self._next_pass(client_gone)
        finally:
            self._asking.release()
        if p is None:
            raise HttpProblem(503, "no_pass", f"no pass ended within {_PATIENCE_S:g} s; does this replica lead?")
        content = snapshot(p)
        return Response(msgspec.json.encode(content), JSON, 500 if "Error" in content else 200)

    def _next_pass(self, client_gone: Callable[[], bool]) -> EndedPass | None:
        """Return the next pass; None where none comes in time, or nobody waits for it any more."""
        with self._arrived:
            self._since, self._pass = self._clock.now().mono, None
            for _ in range(int(_PATIENCE_S / _LOOK_UP_S)):
                if client_gone() or self._arrived.wait_for(lambda: self._pass is not None, _LOOK_UP_S):
                    break
            self._since = None
            return self._pass


def snapshot(p: EndedPass) -> Plain:
    """Return what a pass saw: nodes with their pods, upcoming ones included, pods that found room, and templates."""
    report, forms = p.report, PodForms()

    def with_pods(node: Node, pods: tuple[Pod, ...]) -> Plain:
        return {"Node": node_form(bare_node(node)), "Pods": [forms.form(pod) for pod in pods]}

    content: Plain = {"NodeList": [], "UnscheduledPodsCanBeScheduled": [], "TemplateNodes": {}}
    if report.view is None:
        content["Error"] = report.error or "the cluster could not be observed"
    elif p.placer is not None:
        trial = p.placer.trial
        nodes = [
            with_pods(trial.node(at), report.view.pods[at] if template is None else template.pods)
            for at in range(trial.count)
            if trial.alive[at]
            for template in (trial.template(at),)
        ]
        content["NodeList"] = nodes
    else:
        content["NodeList"] = [with_pods(node, report.view.pods[at]) for at, node in enumerate(report.view.nodes)]
    if report.view is not None:
        fitting = [pod for pod in report.view.pending if report.pods.waiting.get(pod.key) is Waiting.FITS]
        content["UnscheduledPodsCanBeScheduled"] = [forms.form(pod) for pod in fitting]
    content["TemplateNodes"] = {group: with_pods(one.node, one.pods) for group, one in report.templates.items()}
    content["StartTimestamp"] = rfc3339(report.now.wall)
    content["EndTimestamp"] = rfc3339(report.now.wall + report.timings.get("pass", 0.0))
    return content
