"""Specifies generated pods: they sleep, and each has a deadline."""

from typing import Any

import msgspec

from autoscaler.expiry.plan import GENERATION, MANAGED_BY, OURS

BATCH = "cluster-autoscaler.kubernetes.io/load-batch"
_SPARE_S = 600
_IMAGE = "registry.k8s.io/pause:3.10"


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The load that the user asks for."""

    count: int
    cpu: str = "2"
    memory: str = "2000000Ki"
    namespace: str = "load"
    duration_s: int = 300
    """Seconds for which the load stays after all of it has started."""
    deadline_s: float = 900.0
    """Maximum seconds until a pod has started."""
    priority_class: str = ""
    generation: str = "1"
    image: str = _IMAGE
    annotation: str = "delete-at"


class PodBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The pods to create."""

    batch: str
    requested: int
    pods: tuple[dict[str, Any], ...]

    @property
    def capped(self) -> bool:
        """Whether fewer pods are created than the user asked for."""
        return len(self.pods) < self.requested


def plan_load(load: LoadSpec, batch: str, live: int, most: int, now: float) -> PodBatch:
    """Return the pods of a batch. At most `most` generated pods may exist at a time, and `live` exist already."""
    count = max(0, min(load.count, most - live))
    return PodBatch(batch=batch, requested=load.count, pods=tuple(_pod(load, batch, n, now) for n in range(count)))


def _pod(load: LoadSpec, batch: str, number: int, now: float) -> dict[str, Any]:
    requests = {"cpu": load.cpu, "memory": load.memory}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": load.duration_s + int(load.deadline_s) + _SPARE_S,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "sleep", "image": load.image, "resources": {"requests": requests, "limits": requests}}],
    }
    if load.priority_class:
        spec["priorityClassName"] = load.priority_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"load-{batch}-{number}",
            "namespace": load.namespace,
            "labels": {MANAGED_BY: OURS, GENERATION: load.generation, BATCH: batch},
            "annotations": {load.annotation: str(int(now) + load.duration_s + _SPARE_S)},
        },
        "spec": spec,
    }
