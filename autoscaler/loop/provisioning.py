"""ProvisioningRequests in a pass: retired at its beginning, served beside pending pods, their capacity held until used.

Every status is remembered until the API server shows it, and written again until it is written: a request that was
provisioned stays so whatever becomes of the write. After a restart in between, its pods fit on the machines that are on
their way, so nothing is bought twice.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from autoscaler.actuation.status_writes import Statuses, WriteOutcome
from autoscaler.config.tree import Config
from autoscaler.logs import Log
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.pass_time import TimeBox
from autoscaler.loop.passing import PassState
from autoscaler.objects.capacity import CHECK_CAPACITY, ProvisioningRequest, consumed_request
from autoscaler.objects.pod import Pod, PodInterner
from autoscaler.reasons import RequestReason, ScaleUpResult, Waiting
from autoscaler.registry import memory as memories
from autoscaler.scaleup import provisioning, request_memory
from autoscaler.scaleup.fake_placement import place_all, place_where_fits
from autoscaler.scaleup.pending import UnschedulablePods
from autoscaler.scaleup.provisioning import NoPods
from autoscaler.scaleup.request_memory import RequestMemory
from autoscaler.scaleup.status_change import StatusChange

log = Log(__name__)

ServedRequest = tuple[ProvisioningRequest, tuple[Pod, ...]]
"""A request that is accepted, and the pods that stand for it."""
Buy = Callable[[PassState, Sequence[Pod]], PassState]
"""Buys nodes for all these pods or none; the result is in the report."""


class Provisioning:
    """Serves ProvisioningRequests. Does nothing where they are not enabled."""

    def __init__(self, config: Config, statuses: Statuses, herald: PassEventWriter, interner: PodInterner) -> None:
        self._config = config
        self._enabled = config.features.enable_provisioning_requests
        self._statuses = statuses
        self._herald = herald
        self._interner = interner

    def begin(self, p: PassState) -> PassState:
        """Return the pass with the requests as they are known, those of old retired."""
        if not self._enabled:
            return p
        now = p.report.now
        mine = {
            key: one
            for key, one in p.view.related.provisioning_requests.items()
            if provisioning.served_here(one, self._config.features)
        }
        requests, memory = request_memory.up_to_date(mine, p.remembered.requests, now)
        p = replace(_remembering(p, memory), requests=requests)
        by_uid = {one.uid: one for one in requests}
        for uid, known in memory.known.items():
            if not known.written:
                p, _ = self._told(p, by_uid[uid], known.change)
        retirement = provisioning.retired(p.requests, now)
        for change in retirement.changes:
            p, _ = self._told(p, by_uid[change.uid], change)
        for over in retirement.deleted:
            written = self._statuses.delete(over)
            if written.outcome is not WriteOutcome.FAILED:
                p = self._gone(p, over.uid)
            log.info("request.deleted", request=over.key, outcome=written.outcome.value, error=written.error)
        return p

    def without_consumers(self, needy: UnschedulablePods) -> UnschedulablePods:
        """Return who needs nodes: not pods that use a request's capacity."""
        if not self._enabled:
            return needy
        consumers = [pod for pod in needy.pods if consumed_request(pod.cls.annotations)]
        if not consumers:
            return needy
        self._herald.consume_requests(consumers)
        waiting = {pod.key: Waiting.CONSUMES_REQUEST for pod in consumers}
        left = tuple(pod for pod in needy.pods if pod.key not in waiting)
        return replace(needy, pods=left, waiting={**needy.waiting, **waiting})

    def booked(self, p: PassState) -> PassState:
        """Return the pass with provisioned capacity taken on the simulated cluster."""
        holding = [one for one in p.requests if provisioning.booked(one)]
        if not holding:
            return p
        placer = p.placer
        assert placer is not None
        used = _scheduled_consumers(p) if self._config.rules.consumed_bookings_end else {}
        for request in holding:
            if used.get(request.key, 0) >= request.pod_count:
                p, _ = self._told(p, request, provisioning.consumed(request, p.report.now))
                continue
            try:
                pods = self._pods_of(p, request)
            except NoPods as error:
                change = provisioning.broken(request, RequestReason.NO_BOOKING, error, p.report.now)
                p, _ = self._told(p, request, change)
                continue
            place_where_fits(placer, pods)
        return p

    def taken(self, p: PassState) -> tuple[PassState, tuple[ServedRequest, ...]]:
        """Return the requests that this pass may serve, accepted, with their pods among those that need nodes."""
        if not p.requests:
            return p, ()
        features, waits = self._config.features, p.remembered.requests.waits
        passed_over: set[str] = set()
        taken: tuple[ServedRequest, ...] = ()
        while not taken:
            candidates = [one for one in p.requests if one.uid not in passed_over]
            batch = provisioning.due(candidates, waits, features, p.report.now)
            if not batch:
                return p, ()
            for request in batch:
                passed_over.add(request.uid)
                p, pods = self._accepted(p, request)
                if pods:
                    taken = (*taken, (request, pods))
        injected = (pod for _, pods in taken for pod in pods)
        return p.with_report(replace(p.report, needy=(*p.report.needy, *injected))), taken

    def goes_first(self, p: PassState, *, pods_wait: bool) -> bool:
        """Whether the request is served in this pass, and not the pods that wait beside it: they take turns."""
        return not (pods_wait and p.remembered.requests.pods_next)

    def turned(self, p: PassState, *, pods_next: bool) -> PassState:
        """Return the pass with whose turn is next."""
        return _remembering(p, replace(p.remembered.requests, pods_next=pods_next)) if self._enabled else p

    def served(self, p: PassState, taken: Sequence[ServedRequest], buy: Buy) -> PassState:
        """Return the pass with requests served, in turn until the time for a batch is over."""
        features = self._config.features
        limit_s = features.check_capacity_provisioning_request_batch_timebox_s
        out_of_time = p.time.box(TimeBox.CHECK_CAPACITY_BATCH, limit_s)
        results: list[ScaleUpResult] = []
        for request, pods in taken:
            if results and out_of_time():
                break
            p = _remembering(p, request_memory.tried(p.remembered.requests, request, features))
            if request.spec.provisioning_class_name == CHECK_CAPACITY:
                p, result = self._checked(p, request, pods)
            else:
                p, result = self._bought(p, request, pods, buy)
            results.append(result)
        p = self.turned(p, pods_next=True)
        result = ScaleUpResult.SUCCESSFUL if ScaleUpResult.SUCCESSFUL in results else results[-1]
        return p.with_report(replace(p.report, scale_up_result=result, requests_served=len(results)))

    def _checked(
        self, p: PassState, request: ProvisioningRequest, pods: Sequence[Pod]
    ) -> tuple[PassState, ScaleUpResult]:
        """Look whether all pods fit; where they do, their room is taken and no node goes for a while."""
        assert p.placer is not None
        now = p.report.now
        if place_all(p.placer, pods):
            p, _ = self._told(p, request, provisioning.found(request, now))
            return p.with_memory(memories.scale_up_succeeded(p.remembered.registry, now)), ScaleUpResult.SUCCESSFUL
        p, _ = self._told(p, request, provisioning.not_found(request, self._config.rules, now))
        return p, ScaleUpResult.NO_OPTIONS

    def _bought(
        self, p: PassState, request: ProvisioningRequest, pods: Sequence[Pod], buy: Buy
    ) -> tuple[PassState, ScaleUpResult]:
        """Buy what is missing for all pods, or nothing."""
        assert p.placer is not None
        now = p.report.now
        with p.placer.trial.fork() as fork:
            left = place_where_fits(p.placer, pods)
            if left:
                p = buy(p, left)
            result = p.report.scale_up_result if left else ScaleUpResult.NOT_NEEDED
            assert result is not None
            if result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.NOT_NEEDED):
                fork.keep()
        match result:
            case ScaleUpResult.NOT_NEEDED:
                change = provisioning.found(request, now)
            case ScaleUpResult.SUCCESSFUL:
                change = provisioning.bought(request, now)
            case _:
                change = provisioning.not_found(request, self._config.rules, now)
        p, _ = self._told(p, request, change)
        return p, result

    def _accepted(self, p: PassState, request: ProvisioningRequest) -> tuple[PassState, tuple[Pod, ...]]:
        """Return the pods of a request that is accepted; none where it is gone, or where that cannot be written."""
        now = p.report.now
        try:
            pods = self._pods_of(p, request)
        except NoPods as error:
            p, _ = self._told(p, request, provisioning.broken(request, RequestReason.NO_PODS, error, now))
            return p, ()
        p, outcome = self._told(p, request, provisioning.accepted(request, now))
        return p, pods if outcome is WriteOutcome.DONE else ()

    def _pods_of(self, p: PassState, request: ProvisioningRequest) -> tuple[Pod, ...]:
        return provisioning.pods_of(request, p.view.related.pod_templates, self._interner)

    def _told(self, p: PassState, request: ProvisioningRequest, change: StatusChange) -> tuple[PassState, WriteOutcome]:
        """Write a status, and remember it until it is seen."""
        written = self._statuses.put(change)
        for one in change.conditions:
            log.info("request.status", request=request.key, condition=f"{one.type}={one.status}", reason=one.reason)
        if written.outcome is WriteOutcome.FAILED:
            log.warning("request.not_written", request=request.key, error=written.error, next="trying again")
        if written.outcome is WriteOutcome.GONE:
            return self._gone(p, request.uid), written.outcome
        done = written.outcome is WriteOutcome.DONE
        memory = request_memory.decided(p.remembered.requests, change, p.report.now, written=done)
        requests = tuple(request_memory.told(one, change) if one.uid == change.uid else one for one in p.requests)
        p = replace(_remembering(p, memory), requests=requests)
        return p.with_report(replace(p.report, status_changes=(*p.report.status_changes, change))), written.outcome

    def _gone(self, p: PassState, uid: str) -> PassState:
        memory = request_memory.forgotten(p.remembered.requests, uid)
        return replace(_remembering(p, memory), requests=tuple(one for one in p.requests if one.uid != uid))


def _remembering(p: PassState, memory: RequestMemory) -> PassState:
    return replace(p, remembered=replace(p.remembered, requests=memory))


def _scheduled_consumers(p: PassState) -> dict[str, int]:
    """Return how many pods on nodes use each request, by its key."""
    view = p.view
    names = {
        number: f"{cls.namespace}/{name}"
        for number, cls in enumerate(view.classes)
        if (name := consumed_request(cls.annotations))
    }
    if not names:
        return {}
    counts = np.bincount(view.pod_classes, minlength=len(view.classes))
    found: dict[str, int] = {}
    for number, key in names.items():
        found[key] = found.get(key, 0) + int(counts[number])
    return found
