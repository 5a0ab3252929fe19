"""Writes what the scheduler allocates into the claims of a pod, before the pod is bound."""

import uuid
from collections.abc import Mapping, Sequence
from fractions import Fraction

from autoscaler.objects.meta import JsonObject
from autoscaler.objects.pod import Pod
from autoscaler.sandbox.actors.claim_controller import CLAIMS, claim_name
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.scheduling.device_allocation import Chosen, PickedDevice
from autoscaler.scheduling.device_claims import EXTENDED

EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
_SHARES = uuid.UUID(int=0)


class ClaimBinder:
    """Allocates and reserves the claims of pods."""

    def __init__(self, storage: Storage, informers: SharedInformers) -> None:
        self._storage = storage
        self._claims = informers.informer(CLAIMS)
        self._slices = informers.informer("resourceslices.resource.k8s.io")

    def reserve(self, pod: Pod, node: str, granted: Sequence[tuple[str, Chosen]]) -> None:
        """Give the claims of a pod their devices, and reserve them for it; raises `ApiError` where one is not there."""
        chosen = dict(granted)
        consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        for ref in pod.cls.resource_claims:
            named = ref.resource_claim_name
            name = claim_name(pod.name, ref.name) if named is None else named
            own = chosen.get(ref.name if named is None else f"{pod.namespace}/{named}")
            self._write(pod.namespace, name, node, own, consumer)
        if (standing := chosen.get(EXTENDED)) is not None:
            name = f"{pod.name}-extended-resources"
            self._storage.create(CLAIMS, _standing_claim(pod, name, standing), namespace=pod.namespace)
            self._write(pod.namespace, name, node, standing, consumer)

    def _write(self, namespace: str, name: str, node: str, chosen: Chosen | None, consumer: JsonObject) -> None:
        claim = self._storage.get(CLAIMS, name, namespace)
        reserved = (claim.get("status") or {}).get("reservedFor") or []
        if all(other["uid"] != consumer["uid"] for other in reserved):
            reserved = [*reserved, consumer]
        status: JsonObject = {"reservedFor": reserved}
        if chosen is not None:
            results = [_result(f"{namespace}/{name}", number, one) for number, one in enumerate(chosen.picked)]
            selector = self._selector(chosen, node)
            status["allocation"] = {
                "devices": {"results": results},
                **({"nodeSelector": selector} if selector is not None else {}),
            }
        self._storage.patch(CLAIMS, name, {"status": status}, namespace=namespace, subresource="status")

    def _selector(self, chosen: Chosen, node: str) -> JsonObject | None:
        """Return the nodes from which the devices can be used; None: all."""
        pools = {one.device[:2] for one in chosen.picked}
        specs = [part["spec"] for part in self._slices.objects.values()]
        concerned = [spec for spec in specs if (spec["driver"], spec["pool"]["name"]) in pools]
        if any(spec.get("nodeName") or spec.get("perDeviceNodeSelection") for spec in concerned):
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [field]}]}
        return next((spec["nodeSelector"] for spec in concerned if spec.get("nodeSelector")), None)


def _result(claim: str, number: int, picked: PickedDevice) -> JsonObject:
    driver, pool, device = picked.device
    result: JsonObject = {"request": picked.request, "driver": driver, "pool": pool, "device": device}
    if picked.admin:
        result["adminAccess"] = True
    if picked.share is not None:
        result["shareID"] = str(uuid.uuid5(_SHARES, f"{claim}/{number}"))
        result["consumedCapacity"] = _quantities(picked.share)
    return result


def _quantities(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    whole = {name: str(amount.numerator) for name, amount in amounts.items() if amount.denominator == 1}
    return whole | {name: f"{amount * 10**9}n" for name, amount in amounts.items() if name not in whole}


def _standing_claim(pod: Pod, name: str, chosen: Chosen) -> JsonObject:
    """Return the claim that stands for the extended resources of a pod."""
    classes = {one.request: one.device_class for one in chosen.picked}
    counts = {request: sum(one.request == request for one in chosen.picked) for request in classes}
    requests = [
        {"name": request, "exactly": {"deviceClassName": classes[request], "count": count}}
        for request, count in counts.items()
    ]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    metadata = {"name": name, "annotations": {EXTENDED_ANNOTATION: "true"}, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
