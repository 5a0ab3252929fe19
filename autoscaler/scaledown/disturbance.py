"""How much it disturbs a workload to move its pods."""

from collections.abc import Iterable

from autoscaler.objects.pod import Pod

_PER_DELETION_COST, _PER_PRIORITY = 1 / 2**27, 1 / 2**25
"""Karpenter's scales."""
_LEAST, _MOST = 0.1, 10.0
_STATEFUL = 2.0
_MOST_HOURS_LOST = 10.0


def disturbance(pods: Iterable[Pod], wall: float) -> float:
    """Return the weight of moving these pods at `wall` (Unix seconds); a pod of a Deployment without priority has 1."""
    return sum(_weight(pod, wall) for pod in pods)


def _weight(pod: Pod, wall: float) -> float:
    """Weigh priority and deletion cost as Karpenter does; a pod of a StatefulSet counts twice, and a pod of a Job for
    the hours of work that it loses.
    """
    owner = "" if pod.cls.owner is None else pod.cls.owner.kind
    own = 1.0 + pod.deletion_cost * _PER_DELETION_COST + (pod.cls.priority or 0) * _PER_PRIORITY
    weight = min(max(own, _LEAST), _MOST)
    if owner == "StatefulSet":
        weight *= _STATEFUL
    if owner == "Job" and pod.started is not None:
        weight += min(max(wall - pod.started, 0.0) / 3600.0, _MOST_HOURS_LOST)
    return weight
