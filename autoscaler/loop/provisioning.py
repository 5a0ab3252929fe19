"""ProvisioningRequests in a pass: retires old ones, provisions others, and holds their capacity until it is used.

A status is remembered, and written again if necessary, until the API server shows it. A provisioned request therefore
stays provisioned even if the write of its status fails. If the process restarts before the write succeeds, the pods fit
on the upcoming machines, so nothing is bought twice.
"""

import numpy as np
from msgspec.structs import replace

from autoscaler.actuation.status_writes import WriteOutcome
from autoscaler.logs import Log
from autoscaler.loop.buying import Buying, scale_up_report
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.pass_time import TimeBox
from autoscaler.loop.stages import (
    AcceptedRequest,
    Grown,
    Observed,
    ObservedT,
    PodsSorted,
    Simulated,
    next_stage,
    remember,
)
from autoscaler.objects.capacity import CHECK_CAPACITY, ProvisioningRequest, consumed_request
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.observe.report import ScaleUpReport
from autoscaler.reasons import RequestReason, ScaleUpResult
from autoscaler.registry import memory as memories
from autoscaler.scaleup import provisioning, request_memory
from autoscaler.scaleup.fake_placement import place_all, place_where_fits
from autoscaler.scaleup.provisioning import NoPods
from autoscaler.scaleup.status_change import StatusChange
from autoscaler.snapshot.cluster import ClusterView

log = Log(__name__)


class Provisioning:
    """Serves ProvisioningRequests. Does nothing unless the configuration enables them."""

    def __init__(self, ports: PassPorts, interner: PodInterner, buying: Buying) -> None:
        self._statuses = ports.statuses
        self._interner = interner
        self._buying = buying

    def begin(self, stage: Observed) -> Observed:
        """Return the stage with the known requests; old ones have been retired."""
        features, now = stage.config.features, stage.now
        if not features.enable_provisioning_requests:
            return stage
        mine = {
            key: request
            for key, request in stage.view.related.provisioning_requests.items()
            if provisioning.served_here(request, features)
        }
        requests, memory = request_memory.up_to_date(mine, stage.memory.requests, now)
        stage = replace(remember(stage, requests=memory), requests=requests)
        by_uid = {request.uid: request for request in requests}
        for uid, known in memory.known.items():
            if not known.written:
                stage, _ = self._written(stage, by_uid[uid], known.change)
        retirement = provisioning.retired(stage.requests, now)
        for change in retirement.changes:
            stage, _ = self._written(stage, by_uid[change.uid], change)
        for over in retirement.deleted:
            written = self._statuses.delete(over)
            if written.outcome is not WriteOutcome.FAILED:
                stage = _without(stage, over.uid)
            log.info("request.deleted", request=over.key, outcome=written.outcome.value, error=written.error)
        return stage

    def prepare(self, stage: Simulated) -> Simulated:
        """Return the stage with the pods for which capacity is held, and the requests that it may serve."""
        return self._accept(self._book(stage)) if stage.requests else stage

    def _book(self, stage: Simulated) -> Simulated:
        """Hold capacity for provisioned requests until their pods have used it."""
        booked = [request for request in stage.requests if provisioning.booked(request)]
        if not booked:
            return stage
        used = _scheduled_consumers(stage.view) if stage.config.rules.consumed_bookings_end else {}
        bookings: list[tuple[Pod, ...]] = []
        for request in booked:
            if used.get(request.key, 0) >= request.pod_count:
                stage, _ = self._written(stage, request, provisioning.consumed(request, stage.now))
                continue
            try:
                bookings.append(self._pods_of(stage, request))
            except NoPods as error:
                change = provisioning.broken(request, RequestReason.NO_BOOKING, error, stage.now)
                stage, _ = self._written(stage, request, change)
        return replace(stage, bookings=tuple(bookings))

    def _accept(self, stage: Simulated) -> Simulated:
        """Accept the requests that are due; if none of them has pods, accept the next ones."""
        features, waits = stage.config.features, stage.memory.requests.waits
        tried: set[str] = set()
        accepted: list[AcceptedRequest] = []
        while not accepted:
            candidates = [request for request in stage.requests if request.uid not in tried]
            batch = provisioning.due(candidates, waits, features, stage.now)
            if not batch:
                return stage
            for request in batch:
                tried.add(request.uid)
                stage, pods = self._accepted(stage, request)
                if pods:
                    accepted.append(AcceptedRequest(request, pods))
        return replace(stage, accepted=tuple(accepted))

    def serve(self, stage: PodsSorted) -> Grown:
        """Return the stage with requests served in order, until the time for a batch has run out."""
        with stage.time.phase("scale_up"):
            features = stage.config.features
            limit_s = features.check_capacity_provisioning_request_batch_timebox_s
            out_of_time = stage.time.box(TimeBox.CHECK_CAPACITY_BATCH, limit_s)
            report, results = ScaleUpReport(), list[ScaleUpResult]()
            for accepted in stage.served_now:
                if results and out_of_time():
                    break
                memory = request_memory.tried(stage.memory.requests, accepted.request, features)
                stage = remember(stage, requests=memory)
                if accepted.request.spec.provisioning_class_name == CHECK_CAPACITY:
                    stage, result = self._checked(stage, accepted)
                else:
                    stage, result, bought = self._bought(stage, accepted)
                    report = bought or report
                results.append(result)
            stage = remember(stage, requests=replace(stage.memory.requests, pods_next=True))
            result = ScaleUpResult.SUCCESSFUL if ScaleUpResult.SUCCESSFUL in results else results[-1]
            return next_stage(stage, Grown, scale_up=replace(report, result=result), requests_served=len(results))

    def _checked(self, stage: PodsSorted, accepted: AcceptedRequest) -> tuple[PodsSorted, ScaleUpResult]:
        """Check whether all pods fit. If so, reserve their room and keep their nodes from removal for a while."""
        request = accepted.request
        if place_all(stage.placer, accepted.pods):
            stage, _ = self._written(stage, request, provisioning.found(request, stage.now))
            memory = memories.scale_up_succeeded(stage.memory.registry, stage.now)
            return remember(stage, registry=memory), ScaleUpResult.SUCCESSFUL
        stage, _ = self._written(stage, request, provisioning.not_found(request, stage.config.rules, stage.now))
        return stage, ScaleUpResult.NO_OPTIONS

    def _bought(
        self, stage: PodsSorted, accepted: AcceptedRequest
    ) -> tuple[PodsSorted, ScaleUpResult, ScaleUpReport | None]:
        """Buy the capacity that is missing for all pods, or nothing; the report is None if no capacity is missing."""
        request, report, result = accepted.request, None, ScaleUpResult.NOT_NEEDED
        with stage.placer.trial.fork() as fork:
            left = place_where_fits(stage.placer, accepted.pods)
            if left:
                stage, plan, done = self._buying.attempt(stage, left, atomic=True)
                result = ScaleUpResult.ERROR if any(resized.error is not None for resized in done) else plan.result
                report = scale_up_report(plan, done, result)
            if result is ScaleUpResult.SUCCESSFUL:
                memory = memories.scale_up_succeeded(stage.memory.registry, stage.now)
                stage = remember(stage, registry=memory)
            if result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.NOT_NEEDED):
                fork.keep()
        match result:
            case ScaleUpResult.NOT_NEEDED:
                change = provisioning.found(request, stage.now)
            case ScaleUpResult.SUCCESSFUL:
                change = provisioning.bought(request, stage.now)
            case _:
                change = provisioning.not_found(request, stage.config.rules, stage.now)
        stage, _ = self._written(stage, request, change)
        return stage, result, report

    def _accepted(self, stage: Simulated, request: ProvisioningRequest) -> tuple[Simulated, tuple[Pod, ...]]:
        """Return the pods of an accepted request; none if the request no longer exists or its status cannot be
        written.
        """
        try:
            pods = self._pods_of(stage, request)
        except NoPods as error:
            stage, _ = self._written(
                stage, request, provisioning.broken(request, RequestReason.NO_PODS, error, stage.now)
            )
            return stage, ()
        stage, outcome = self._written(stage, request, provisioning.accepted(request, stage.now))
        return stage, pods if outcome is WriteOutcome.DONE else ()

    def _pods_of(self, stage: Observed, request: ProvisioningRequest) -> tuple[Pod, ...]:
        return provisioning.pods_of(request, stage.view.related.pod_templates, self._interner)

    def _written(
        self, stage: ObservedT, request: ProvisioningRequest, change: StatusChange
    ) -> tuple[ObservedT, WriteOutcome]:
        """Write a status, and remember it until the API server shows it."""
        written = self._statuses.put(change)
        for condition in change.conditions:
            log.info(
                "request.status",
                request=request.key,
                condition=f"{condition.type}={condition.status}",
                reason=condition.reason,
            )
        if written.outcome is WriteOutcome.FAILED:
            log.warning("request.not_written", request=request.key, error=written.error, next="trying again")
        if written.outcome is WriteOutcome.GONE:
            return _without(stage, request.uid), written.outcome
        done = written.outcome is WriteOutcome.DONE
        memory = request_memory.decided(stage.memory.requests, change, stage.now, written=done)
        requests = tuple(
            request_memory.told(known, change) if known.uid == change.uid else known for known in stage.requests
        )
        changes = (*stage.status_changes, change)
        return replace(remember(stage, requests=memory), requests=requests, status_changes=changes), written.outcome


def _without(stage: ObservedT, uid: str) -> ObservedT:
    """Return the stage without a request that no longer exists."""
    requests = tuple(request for request in stage.requests if request.uid != uid)
    return replace(remember(stage, requests=request_memory.forgotten(stage.memory.requests, uid)), requests=requests)


def _scheduled_consumers(view: ClusterView) -> dict[str, int]:
    """Return the number of placed pods that use each request, by request key."""
    names = {
        number: f"{cls.namespace}/{name}"
        for number, cls in enumerate(view.classes)
        if (name := consumed_request(cls.annotations))
    }
    if not names:
        return {}
    counts = np.bincount(view.pod_classes, minlength=len(view.classes))
    used: dict[str, int] = {}
    for number, key in names.items():
        used[key] = used.get(key, 0) + int(counts[number])
    return used
