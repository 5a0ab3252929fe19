"""Computes how many more pods the ResourceQuotas of a namespace allow.

Quotas with scopes are ignored: which pods they count is not known before those exist.
"""

from collections.abc import Iterable, Mapping

from autoscaler.objects import quantity
from autoscaler.objects.capacity import ResourceQuota

_COUNTS = ("pods", "count/pods")
_REQUESTS = "requests."
_SHORT = (quantity.CPU, quantity.MEMORY)
"""Resources that a quota may name without the prefix."""

QuotaUsage = Mapping[str, int]
"""What was given away before, by resource, `pods` for their number."""


def pods_allowed(quotas: Iterable[ResourceQuota], requests: Mapping[str, int], taken: QuotaUsage) -> int | None:
    """Return how many pods with these requests the quotas leave room for; None: no quota counts them.

    Raises `ValueError` on amounts that cannot be read.
    """
    rooms: list[int] = []
    for quota in quotas:
        if quota.spec.scopes or quota.spec.scope_selector:
            continue
        for name, hard in quota.status.hard.items():
            resource = _resource(name)
            need = 1 if resource == quantity.PODS else requests.get(resource, 0) if resource else 0
            if resource is None or need <= 0:
                continue
            used = quantity.amount(resource, str(quota.status.used.get(name, 0)))
            left = quantity.amount(resource, str(hard)) - used - taken.get(resource, 0)
            rooms.append(max(0, left // need))
    return min(rooms) if rooms else None


def taking(taken: QuotaUsage, requests: Mapping[str, int], pods: int) -> dict[str, int]:
    """Return what is taken once `pods` more pods have their room."""
    after = dict(taken)
    for resource, amount in {**requests, quantity.PODS: 1}.items():
        after[resource] = after.get(resource, 0) + amount * pods
    return after


def _resource(name: str) -> str | None:
    """Return the resource of pods that an entry of a quota limits; None where it limits something else."""
    if name in _COUNTS:
        return quantity.PODS
    if name.startswith(_REQUESTS):
        return name.removeprefix(_REQUESTS)
    return name if name in _SHORT else None
