"""What a pod requests, all its containers together."""

from collections.abc import Mapping

from autoscaler.objects import quantity
from autoscaler.objects.podspec import Container, PodSpec

Requests = Mapping[str, int]
"""Amounts by resource name in the engine's units (`objects.quantity`)."""


def effective_requests(spec: PodSpec, allocated: Mapping[str, Requests] | None = None) -> dict[str, int]:
    """Return what the scheduler reserves for a pod.

    Per resource: the larger of all containers together with all sidecars, and of each ordinary init container with
    the sidecars declared before it; pod-level requests replace that sum for what they name; then the overhead.
    `allocated` gives, by container name, what a resize in place still holds: the larger value counts. Source:
    the scheduler's NodeResourcesFit plug-in.
    """
    allocated = allocated or {}
    running: dict[str, int] = {}
    for container in spec.containers:
        add_amounts(running, _requests_of(container, allocated))
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in spec.init_containers:
        own = _requests_of(container, allocated)
        if container.sidecar:
            add_amounts(sidecars, own)
        else:
            add_amounts(own, sidecars)
            _raise_to(peak, own)
    add_amounts(running, sidecars)
    _raise_to(running, peak)
    running.update(quantity.amounts(spec.resources.requests))
    add_amounts(running, quantity.amounts(spec.overhead))
    return running


def _requests_of(container: Container, allocated: Mapping[str, Requests]) -> dict[str, int]:
    own = quantity.amounts(container.resources.requests)
    if (held := allocated.get(container.name)) is not None:
        _raise_to(own, held)
    return own


def add_amounts(total: dict[str, int], more: Requests) -> None:
    """Add amounts to a total, which is changed."""
    for resource, value in more.items():
        total[resource] = total.get(resource, 0) + value


def _raise_to(total: dict[str, int], floor: Requests) -> None:
    for resource, value in floor.items():
        total[resource] = max(total.get(resource, 0), value)
