"""ProvisioningRequests: which one is next, its fake pods, and the conditions it gets.

Source: Cluster Autoscaler's `processors/provreq` and `provisioningrequest`. Everything is a function of the requests
as they are known: the API server's, brought up to date by `scaleup.request_memory`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Features
from autoscaler.objects.capacity import (
    ATOMIC_SCALE_UP,
    CHECK_CAPACITY,
    CLASS_NAME,
    CONSUMES,
    ProvisioningRequest,
    RequestCondition,
    StatusCondition,
    StoredTemplate,
)
from autoscaler.objects.pod import Pod, Unscheduled
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.reasons import RequestReason
from autoscaler.scaleup.fake_pods import REQUEST_KIND, class_of_fake_pods
from autoscaler.scaleup.status_change import StatusChange, change_of, condition

BOOKING_S = 600.0
"""How long provisioned capacity is held for the pods that will consume it."""
UNMET_S = 7 * 86400.0
"""How long a request may stay unmet before it fails."""
TERMINAL_S = 7 * 86400.0
"""How long a request that is over is kept."""
MOST_UPDATES = 20
"""Requests that one pass expires, and that it deletes."""
_INSTANCE = "processorInstance"
_NO_RETRY = "noRetry"
_MESSAGES: Mapping[RequestReason, str] = {
    RequestReason.ACCEPTED: "ProvisioningRequest is accepted by ClusterAutoscaler",
    RequestReason.FOUND: "Capacity is found in the cluster",
    RequestReason.PROVISIONED: "Capacity is found in the cluster, nodes for the rest are on their way",
    RequestReason.NOT_FOUND: "Capacity is not found, CA will try to find it later.",
    RequestReason.RESERVATION_EXPIRED: "Capacity reservation time is expired",
    RequestReason.CONSUMED: "All pods of the request are scheduled",
    RequestReason.EXPIRED: "ProvisioningRequest is expired",
}


class Retirement(msgspec.Struct, frozen=True):
    """Requests whose time is over."""

    changes: tuple[StatusChange, ...] = ()
    deleted: tuple[ProvisioningRequest, ...] = ()


def served_here(request: ProvisioningRequest, features: Features) -> bool:
    """Whether this process is the one to serve the request: its class, and for check-capacity its instance."""
    instance = features.check_capacity_processor_instance or ""
    if request.spec.provisioning_class_name == CHECK_CAPACITY:
        return request.spec.parameters.get(_INSTANCE, "") == instance
    return request.spec.provisioning_class_name == ATOMIC_SCALE_UP and not instance


def retired(requests: Iterable[ProvisioningRequest], now: Instant) -> Retirement:
    """Return bookings that no pod used, requests that could not be met, and those that are long over."""
    changes: list[StatusChange] = []
    deleted: list[ProvisioningRequest] = []
    for request in requests:
        if _long_over(request, now):
            if len(deleted) < MOST_UPDATES:
                deleted.append(request)
            continue
        if len(changes) >= MOST_UPDATES or _over(request):
            continue
        provisioned = request.condition(RequestCondition.PROVISIONED)
        if provisioned is not None and provisioned.status == "True":
            if provisioned.since + BOOKING_S < now.wall:
                changes.append(
                    _set(request, RequestCondition.BOOKING_EXPIRED, "True", RequestReason.RESERVATION_EXPIRED, now)
                )
        elif request.created + UNMET_S < now.wall:
            changes.append(_set(request, RequestCondition.FAILED, "True", RequestReason.EXPIRED, now))
    return Retirement(tuple(changes), tuple(deleted))


def _over(request: ProvisioningRequest) -> bool:
    return request.has(RequestCondition.BOOKING_EXPIRED) or request.has(RequestCondition.FAILED)


def _long_over(request: ProvisioningRequest, now: Instant) -> bool:
    ends = (request.condition(kind) for kind in (RequestCondition.BOOKING_EXPIRED, RequestCondition.FAILED))
    return any(end is not None and end.status == "True" and end.since + TERMINAL_S < now.wall for end in ends)


def booked(request: ProvisioningRequest) -> bool:
    """Whether capacity is held for the request."""
    revoked = request.has(RequestCondition.CAPACITY_REVOKED)
    return request.has(RequestCondition.PROVISIONED) and not revoked and not _over(request)


def due(
    requests: Sequence[ProvisioningRequest], waits: Mapping[str, float], features: Features, now: Instant
) -> tuple[ProvisioningRequest, ...]:
    """Return the requests to serve in this pass: one, or a batch where batches of check-capacity are asked for."""
    batch: list[ProvisioningRequest] = []
    most = 1
    for request in requests:
        if not _waits_for_capacity(request, waits, features, now):
            continue
        checks = request.spec.provisioning_class_name == CHECK_CAPACITY
        if not batch and checks and features.check_capacity_batch_processing:
            most = features.check_capacity_provisioning_request_max_batch_size
        if not batch or checks:
            batch.append(request)
        if len(batch) >= most:
            break
    return tuple(batch)


def _waits_for_capacity(
    request: ProvisioningRequest, waits: Mapping[str, float], features: Features, now: Instant
) -> bool:
    if _over(request) or request.has(RequestCondition.PROVISIONED):
        return False
    provisioned = request.condition(RequestCondition.PROVISIONED)
    if provisioned is None:
        return True
    if provisioned.status != "False":
        return False
    wait_s = waits.get(request.uid, features.provisioning_request_initial_backoff_time_s)
    return provisioned.since + wait_s < now.wall


class NoPods(Exception):
    """The pods of a request cannot be made; the message says why."""


def pods_of(
    request: ProvisioningRequest, templates: Mapping[str, StoredTemplate], interner: PodInterner
) -> tuple[Pod, ...]:
    """Return the fake pods of a request; name, owner and annotations make them one equivalence group.

    Raises `NoPods` where a template is missing.
    """
    return tuple(_pods_of(request, templates, interner))


def _pods_of(
    request: ProvisioningRequest, templates: Mapping[str, StoredTemplate], interner: PodInterner
) -> Iterator[Pod]:
    mark = {CONSUMES: request.name, CLASS_NAME: request.spec.provisioning_class_name}
    for number, pod_set in enumerate(request.spec.pod_sets):
        stored = templates.get(f"{request.namespace}/{pod_set.pod_template_ref.name}")
        if stored is None:
            raise NoPods(f"there is no PodTemplate {pod_set.pod_template_ref.name} in namespace {request.namespace}")
        try:
            cls = class_of_fake_pods(f"{request.name}-{number}", request, REQUEST_KIND, stored, mark, interner)
        except ValueError as error:
            raise NoPods(f"PodTemplate {stored.name}: {error}") from error
        for index in range(pod_set.count):
            name = f"{request.name}-{number}-{index}"
            yield Pod(
                name=name,
                cls=cls,
                uid=f"{request.uid}/{name}",
                created=request.created,
                unscheduled=Unscheduled("Unschedulable", request.created),
            )


def accepted(request: ProvisioningRequest, now: Instant) -> StatusChange:
    """Return that a request is taken on."""
    return _set(request, RequestCondition.ACCEPTED, "True", RequestReason.ACCEPTED, now)


def found(request: ProvisioningRequest, now: Instant) -> StatusChange:
    """Return that the capacity is there."""
    return _set(request, RequestCondition.PROVISIONED, "True", RequestReason.FOUND, now)


def bought(request: ProvisioningRequest, now: Instant) -> StatusChange:
    """Return that the missing capacity has been asked for."""
    return _set(request, RequestCondition.PROVISIONED, "True", RequestReason.PROVISIONED, now)


def not_found(request: ProvisioningRequest, rules: Rules, now: Instant) -> StatusChange:
    """Return that there is no capacity: to be tried again, or for good where a check-capacity request says so."""
    checks = request.spec.provisioning_class_name == CHECK_CAPACITY
    if rules.check_capacity_no_retry and checks and request.spec.parameters.get(_NO_RETRY) == "true":
        text = "Capacity is not found, and the request asks not to try again."
        return _set(request, RequestCondition.FAILED, "True", RequestReason.NOT_FOUND, now, text)
    return _set(request, RequestCondition.PROVISIONED, "False", RequestReason.NOT_FOUND, now)


def broken(request: ProvisioningRequest, reason: RequestReason, error: NoPods, now: Instant) -> StatusChange:
    """Return that the pods of a request cannot be made."""
    return _set(request, RequestCondition.FAILED, "True", reason, now, str(error))


def consumed(request: ProvisioningRequest, now: Instant) -> StatusChange:
    """Return that all pods of a request run, so that nothing needs to be held any more."""
    return _set(request, RequestCondition.BOOKING_EXPIRED, "True", RequestReason.CONSUMED, now)


def _set(
    request: ProvisioningRequest,
    kind: RequestCondition,
    status: str,
    reason: RequestReason,
    now: Instant,
    message: str | None = None,
) -> StatusChange:
    text = _MESSAGES[reason] if message is None else message
    made: StatusCondition = condition(kind, status, reason, text, now.wall, request.metadata.generation)
    return change_of(request, made)
