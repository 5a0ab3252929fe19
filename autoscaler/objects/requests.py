"""What a pod requests, all its containers together."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from autoscaler.objects import quantity
from autoscaler.objects.podspec import Container, ContainerStatus, PodSpec, PodStatusWire, Quantities, Resources

Requests = Mapping[str, int]
"""Amounts by resource name in the engine's units (`objects.quantity`)."""
Pick = Callable[[int, int], int]

INFEASIBLE = "Infeasible"
DEFERRED = "Deferred"
_RESIZE_PENDING = "PodResizePending"
_HUGEPAGES = "hugepages-"
_CLOUD_TPU = "cloud-tpus.google.com/"


class PodResize(msgspec.Struct, frozen=True, gc=False):
    """A resize in place that is not finished: what is held meanwhile, where that is not what the spec asks for."""

    containers: dict[str, Quantities] = {}
    """By name: the larger of what the kubelet has allocated and what it has set."""
    pod: Quantities = {}
    """The same for requests of the pod as a whole."""
    pending: str = ""
    """Why it has not begun, `Infeasible` or `Deferred`; empty: it has."""


NO_RESIZE = PodResize()


def resize_of(spec: PodSpec, status: PodStatusWire) -> PodResize:
    """Return the resize of a pod; init containers that end are ignored. Raises `ValueError`."""
    if not (status.container_statuses or status.init_container_statuses or spec.resources.requests):
        return NO_RESIZE
    asked = {container.name: container.resources.requests for container in spec.containers}
    asked.update(
        (container.name, container.resources.requests) for container in spec.init_containers if container.sidecar
    )
    containers: dict[str, Quantities] = {}
    for name, held in _held((*status.container_statuses, *status.init_container_statuses)):
        if name in asked and held != asked[name]:
            containers[name] = held
    pod = _of_pod(spec, status) if spec.resources.requests else {}
    if not containers and not pod:
        return NO_RESIZE
    return PodResize(containers, pod, _pending(status))


def _held(statuses: Sequence[ContainerStatus]) -> Iterator[tuple[str, Quantities]]:
    for status in statuses:
        if status.allocated_resources or status.resources.requests:
            yield status.name, _larger(status.allocated_resources, status.resources.requests)


def _of_pod(spec: PodSpec, status: PodStatusWire) -> Quantities:
    """Return what the pod as a whole holds, without its overhead, where that is not what it asks for."""
    held = _larger(status.allocated_resources, status.resources.requests)
    overhead = quantity.amounts(spec.overhead)
    net = {name: value - overhead.get(name, 0) for name, value in quantity.amounts(held).items()}
    kept = {name: value for name, value in net.items() if name in spec.resources.requests}
    return {} if kept == quantity.amounts(spec.resources.requests) else _texts(kept)


def _larger(quantities: Quantities, other: Quantities) -> Quantities:
    if not other or quantities == other:
        return quantities
    if not quantities:
        return other
    return _texts(_merged(quantity.amounts(quantities), quantity.amounts(other), max))


def _texts(amounts: Requests) -> Quantities:
    return {resource: quantity.text(resource, value) for resource, value in amounts.items()}


def _pending(status: PodStatusWire) -> str:
    """Return why a resize waits: the reason of its condition, or the status field of before Kubernetes 1.33."""
    reason = next(
        (condition.reason for condition in status.conditions if condition.type == _RESIZE_PENDING), status.resize
    )
    return reason if reason in (INFEASIBLE, DEFERRED) else ""


def without_cloud_tpus(spec: PodSpec) -> PodSpec:
    """Return the spec without requests for Cloud TPUs, which come from outside: no node has any.

    Source: Cluster Autoscaler's `utils/tpu`.
    """
    if not any(name.startswith(_CLOUD_TPU) for container in spec.containers for name in container.resources.requests):
        return spec
    return replace(spec, containers=[_without_cloud_tpus(container) for container in spec.containers])


def _without_cloud_tpus(container: Container) -> Container:
    requests = container.resources.requests
    kept = {name: amount for name, amount in requests.items() if not name.startswith(_CLOUD_TPU)}
    return replace(container, resources=Resources(kept))


def effective_requests(spec: PodSpec, resize: PodResize = NO_RESIZE, pick: Pick = max) -> dict[str, int]:
    """Return what the scheduler reserves for a pod.

    Per resource: the larger of all containers together with all sidecars, and of each ordinary init container with
    the sidecars declared before it; pod-level requests replace that sum for what they name; then the overhead. Of a
    container that is being resized counts the larger of what it asks for and what it holds (`pick` chooses), and only
    what it holds where the resize is infeasible. Source: the scheduler's NodeResourcesFit plug-in and `PodRequests`
    of Kubernetes 1.33.
    """
    running: dict[str, int] = {}
    for container in spec.containers:
        add_amounts(running, _requests_of(container, resize, pick))
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in spec.init_containers:
        own = _requests_of(container, resize, pick)
        if container.sidecar:
            add_amounts(sidecars, own)
        else:
            # What it does not ask for itself, all sidecars together exceed anyway.
            for resource, value in own.items():
                peak[resource] = max(peak.get(resource, 0), value + sidecars.get(resource, 0))
    add_amounts(running, sidecars)
    running = _merged(running, peak, max)
    of_pod = _counted(spec.resources.requests, resize.pod or None, resize, pick)
    running.update((resource, value) for resource, value in of_pod.items() if _counts_for_pods(resource))
    add_amounts(running, quantity.amounts(spec.overhead))
    return running


def held_for_resize(spec: PodSpec, resize: PodResize) -> dict[str, int]:
    """Return what a pod reserves only because its resize is not finished."""
    if resize is NO_RESIZE:
        return {}
    most, least = effective_requests(spec, resize), effective_requests(spec, resize, min)
    return {resource: value - least[resource] for resource, value in most.items() if value > least[resource]}


def _requests_of(container: Container, resize: PodResize, pick: Pick) -> dict[str, int]:
    return _counted(container.resources.requests, resize.containers.get(container.name), resize, pick)


def _counted(asked: Quantities, held: Quantities | None, resize: PodResize, pick: Pick) -> dict[str, int]:
    if held is None:
        return quantity.amounts(asked)
    if resize.pending == INFEASIBLE:
        return quantity.amounts(held)
    return _merged(quantity.amounts(asked), quantity.amounts(held), pick)


def _counts_for_pods(resource: str) -> bool:
    """Whether requests of a pod as a whole count for a resource."""
    return resource in (quantity.CPU, quantity.MEMORY) or resource.startswith(_HUGEPAGES)


def add_amounts(total: dict[str, int], more: Requests) -> None:
    """Add amounts to a total, which is changed."""
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def _merged(requests: Requests, other: Requests, pick: Pick) -> dict[str, int]:
    """Return what either names; of what both name, what `pick` chooses."""
    both = {resource: pick(value, other[resource]) for resource, value in requests.items() if resource in other}
    return {**requests, **other, **both}
