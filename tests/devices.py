"""Builders of what drivers offer for claims on devices, and of the claims."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autoscaler.objects.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from autoscaler.objects.workload import plain_decoder
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.scheduling.device_shares import held_by, together
from autoscaler.scheduling.device_stock import Stock
from autoscaler.snapshot.cluster import Related
from autoscaler.snapshot.devices import pools_by_node

Json = dict[str, Any]
GPUS = "gpu.nvidia.com"
NICS = "nic.example.com"


def a_part(name: str, piece: str, **counters: str | int) -> Json:
    """Return a device that uses up counters of a piece of hardware."""
    uses = [{"counterSet": piece, "counters": {key: {"value": value} for key, value in counters.items()}}]
    return {"name": name, "consumesCounters": uses}


def slice_form(
    node: str | None = "n",
    *,
    devices: int | Sequence[Json] = 1,
    driver: str = GPUS,
    pool: str | None = None,
    name: str | None = None,
    generation: int = 1,
    slices: int = 1,
    counters: Mapping[str, Mapping[str, str | int]] | None = None,
) -> Json:
    """Return a ResourceSlice of a node, as the API spells it; devices are `dev-0` and so on unless they are given."""
    pool = pool or node or "shared"
    listed = [{"name": f"dev-{number}"} for number in range(devices)] if isinstance(devices, int) else list(devices)
    sets = [
        {"name": piece, "counters": {key: {"value": value} for key, value in amounts.items()}}
        for piece, amounts in (counters or {}).items()
    ]
    return {
        "metadata": {"name": name or f"{driver}-{pool}-{generation}"},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": slices},
            "devices": listed,
            **({"nodeName": node} if node else {"allNodes": True}),
            **({"sharedCounters": sets} if sets else {}),
        },
    }


def a_slice(node: str | None = "n", **about: Any) -> ResourceSlice:
    """Return a ResourceSlice, as `slice_form` describes it."""
    return plain_decoder(ResourceSlice).one(slice_form(node, **about))


def a_request(name: str = "r", *selectors: str, device_class: str = GPUS, count: int = 1, **about: Any) -> Json:
    """Return a request for exactly so many devices, which meet all selectors."""
    cel = [{"cel": {"expression": one}} for one in selectors]
    return {
        "name": name,
        "exactly": {"deviceClassName": device_class, "count": count, **({"selectors": cel} if cel else {}), **about},
    }


def claim_template_form(name: str = "one", *requests: Json, namespace: str = "default", **devices: Any) -> Json:
    """Return a ResourceClaimTemplate with these requests, by default for one GPU."""
    spec = {"devices": {"requests": list(requests) or [a_request()], **devices}}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"spec": spec}}


def a_claim_template(name: str = "one", *requests: Json, **devices: Any) -> ResourceClaimTemplate:
    """Return a ResourceClaimTemplate, as `claim_template_form` describes it."""
    return plain_decoder(ResourceClaimTemplate).one(claim_template_form(name, *requests, **devices))


def a_device_class(name: str = GPUS, *selectors: str, resource: str = "", created: str | None = None) -> DeviceClass:
    """Return a class of devices that meet all selectors; they stand for the extended `resource`."""
    cel = [{"cel": {"expression": one}} for one in selectors]
    spec = {"selectors": cel, **({"extendedResourceName": resource} if resource else {})}
    return plain_decoder(DeviceClass).one({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec})


def claim_form(
    name: str = "gpu",
    *devices: str,
    pool: str = "n",
    driver: str = GPUS,
    node: str | None = "n",
    users: Sequence[str] = (),
    namespace: str = "default",
    admin: bool = False,
    allocated: bool = True,
    meta: Json | None = None,
) -> Json:
    """Return a ResourceClaim that has got these devices of a pool; without a node they are reached from anywhere.

    `users` are the names of the pods that it is reserved for.
    """
    results = [{"driver": driver, "pool": pool, "device": device, "adminAccess": admin} for device in devices]
    allocation: Json = {"devices": {"results": results}}
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    reserved = [{"resource": "pods", "name": user, "uid": f"{namespace}/{user}"} for user in users]
    status: Json = {"allocation": allocation, "reservedFor": reserved} if allocated else {}
    spec = {"devices": {"requests": [a_request(count=max(1, len(devices)), device_class=driver)]}}
    return {"metadata": {"name": name, "namespace": namespace, **(meta or {})}, "spec": spec, "status": status}


def a_claim(name: str = "gpu", *devices: str, **about: Any) -> ResourceClaim:
    """Return a ResourceClaim, as `claim_form` describes it."""
    return plain_decoder(ResourceClaim).one(claim_form(name, *devices, **about))


def a_taint_rule(name: str = "rule", *, effect: str = "NoSchedule", **selector: Any) -> DeviceTaintRule:
    """Return a rule that taints the devices of this selector; the key is `broken`."""
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "value": "yes", "effect": effect}}
    return plain_decoder(DeviceTaintRule).one({"metadata": {"name": name}, "spec": spec})


def with_devices(
    slices: Iterable[ResourceSlice] = (),
    claims: Iterable[ResourceClaim] = (),
    templates: Iterable[ResourceClaimTemplate] = (),
    classes: Iterable[DeviceClass] | None = None,
    rules: Iterable[DeviceTaintRule] = (),
) -> Related:
    """Return what decisions look up: these alone. By default each of two drivers has a class of its name."""
    if classes is None:
        classes = [a_device_class(driver, f"device.driver == '{driver}'") for driver in (GPUS, NICS)]
    return Related(
        resource_slices={one.key: one for one in slices},
        resource_claims={one.key: one for one in claims},
        resource_claim_templates={one.key: one for one in templates},
        device_classes={one.key: one for one in classes},
        device_taint_rules={one.key: one for one in rules},
    )


def from_template(*templates: str) -> Json:
    """Return the part of a pod's spec that names templates of claims."""
    return {"resourceClaims": [{"name": one, "resourceClaimTemplateName": one} for one in templates]}


def claiming(*claims: str) -> Json:
    """Return the part of a pod's spec that names claims."""
    return {"resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims]}


def overdrawn(storage: Storage) -> list[str]:
    """Return the nodes of whose devices, capacities or counters more is allocated than there is."""
    slices = [plain_decoder(ResourceSlice).one(one) for one in storage.list("resourceslices.resource.k8s.io")]
    claims = [plain_decoder(ResourceClaim).one(one) for one in storage.list("resourceclaims.resource.k8s.io")]
    results = [one for claim in claims if claim.status.allocation for one in claim.status.allocation.devices.results]
    found = []
    for node, pools in pools_by_node({one.key: one for one in slices}).items():
        stock = Stock(pools)
        mine = [held_by(one) for one in results if (one.driver, one.pool, one.device) in stock.ids]
        if not all(stock.admits(together(mine[:number]), one) for number, one in enumerate(mine)):
            found.append(node)
    return found
