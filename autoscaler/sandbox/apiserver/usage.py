"""What pods and nodes use, for `kubectl top` and autoscaling: computed from requests when it is asked for.

A container uses between 30 and 70 percent of its CPU request, which its pod's name decides, and as much of its memory.
The annotation `sandbox.autoscaler/load` of a workload says what its pods use together, such as `6` for six CPUs: its
running pods share that evenly, so more pods have less to do each.
"""

import zlib
from collections.abc import Iterable, Mapping

from autoscaler.objects.meta import JsonObject, rfc3339
from autoscaler.objects.quantity import amount, milli
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.scaling import scale_of
from autoscaler.sandbox.apiserver.storage import Storage

GROUP = "metrics.k8s.io"
LOAD = "sandbox.autoscaler/load"
WINDOW = "15s"
_UNREQUESTED = {"cpu": 5, "memory": 16 * 2**20}
"""The usage of a container without requests: milli-CPU and bytes."""
_NODE_ITSELF = {"cpu": 80, "memory": 300 * 2**20}

Amounts = Mapping[str, int]
"""Milli-CPU and bytes of memory."""


def requested(container: JsonObject, resource: str) -> int | None:
    """Return a container's request in milli-CPU or bytes; None where it has none."""
    text = ((container.get("resources") or {}).get("requests") or {}).get(resource)
    return None if text is None else amount(resource, str(text))


class Usage:
    """Figures of one moment."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._shares: dict[str, int | None] = {}

    def of_pod(self, pod: JsonObject) -> dict[str, Amounts]:
        """Return what each container uses, by name."""
        percent = 30 + zlib.crc32(pod["metadata"]["name"].encode()) % 41
        containers = pod["spec"]["containers"]
        used = {container["name"]: _from_requests(container, percent) for container in containers}
        if (share := self._share(pod)) is not None:
            weights = {container["name"]: requested(container, "cpu") or 1 for container in containers}
            for name, weight in weights.items():
                used[name]["cpu"] = share * weight // sum(weights.values())
        return dict(used)

    def _share(self, pod: JsonObject) -> int | None:
        """Milli-CPU of each running pod of the workload; None if the workload has no annotation for it."""
        workload = self._workload(pod)
        if workload is None:
            return None
        uid = workload["metadata"]["uid"]
        if uid not in self._shares:
            self._shares[uid] = self._share_of(workload)
        return self._shares[uid]

    def _share_of(self, workload: JsonObject) -> int | None:
        try:
            load = milli(str((workload["metadata"].get("annotations") or {})[LOAD]))
        except (KeyError, ValueError):
            return None
        selector = scale_of(workload)["status"]["selector"]
        pods = self._storage.list("pods", namespace=workload["metadata"]["namespace"], label_selector=selector)
        return load // max(1, sum(runs(pod) for pod in pods))

    def _workload(self, obj: JsonObject) -> JsonObject | None:
        """Return the Deployment or other workload on top of an object's controllers."""
        top = None
        owners = obj["metadata"].get("ownerReferences") or ()
        while (owner := next((owner for owner in owners if owner.get("controller")), None)) is not None:
            try:
                resource = f"{owner['kind'].lower()}s.{owner['apiVersion'].rpartition('/')[0]}".rstrip(".")
                top = self._storage.get(resource, owner["name"], obj["metadata"].get("namespace"))
            except ApiError:
                break
            owners = top["metadata"].get("ownerReferences") or ()
        return top


def runs(pod: JsonObject) -> bool:
    """Whether the pod's containers run."""
    return (pod.get("status") or {}).get("phase") == "Running"


def measured(storage: Storage, kind: Kind, objects: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the `PodMetrics` of those of these pods that run, or the `NodeMetrics` of these nodes."""
    usage, now = Usage(storage), rfc3339(storage.now())
    if kind.plural == "pods":
        return [_pod_metrics(kind, pod, usage, now) for pod in objects if runs(pod)]
    totals: dict[str, dict[str, int]] = {node["metadata"]["name"]: dict(_NODE_ITSELF) for node in objects}
    for pod in storage.list("pods"):
        total = totals.get(pod["spec"].get("nodeName"))
        if total is not None and runs(pod):
            for amounts in usage.of_pod(pod).values():
                for resource, used in amounts.items():
                    total[resource] += used
    return [{**_head(kind, {"name": name}, now), "usage": _texts(total)} for name, total in totals.items()]


def _pod_metrics(kind: Kind, pod: JsonObject, usage: Usage, now: str) -> JsonObject:
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "labels") if key in pod["metadata"]}
    containers = [{"name": name, "usage": _texts(amounts)} for name, amounts in usage.of_pod(pod).items()]
    return {**_head(kind, metadata, now), "containers": containers}


def _head(kind: Kind, metadata: JsonObject, now: str) -> JsonObject:
    identity = {"kind": kind.kind, "apiVersion": kind.api_version}
    return {**identity, "metadata": {**metadata, "creationTimestamp": now}, "timestamp": now, "window": WINDOW}


def _from_requests(container: JsonObject, percent: int) -> dict[str, int]:
    asked = {resource: requested(container, resource) for resource in _UNREQUESTED}
    return {
        resource: _UNREQUESTED[resource] if request is None else request * percent // 100
        for resource, request in asked.items()
    }


def _texts(amounts: Amounts) -> dict[str, str]:
    return {"cpu": f"{amounts['cpu']}m", "memory": f"{amounts['memory'] // 1024}Ki"}
