"""Objects that ask for capacity, in a cluster in memory: kept as an API server has them, so that writes are seen."""

from typing import Any

import msgspec

from autoscaler.kube.paths import ObjectRef
from autoscaler.objects.capacity import CapacityBuffer, ProvisioningRequest, StoredTemplate
from autoscaler.objects.meta import Resource
from autoscaler.sandbox.memory_cluster import MemoryWrites
from autoscaler.snapshot.cluster import Related

_FIELDS: dict[str, tuple[str, type[Resource]]] = {
    "ProvisioningRequest": ("provisioning_requests", ProvisioningRequest),
    "CapacityBuffer": ("capacity_buffers", CapacityBuffer),
    "PodTemplate": ("pod_templates", StoredTemplate),
}
"""Field of `Related` and type, by kind."""


def hold(writes: MemoryWrites, *objects: ProvisioningRequest | CapacityBuffer | StoredTemplate) -> None:
    """Put objects where writes find them."""
    for json_object in objects:
        kind = next(kind for kind, (_, type_) in _FIELDS.items() if isinstance(json_object, type_))
        version = "v1" if isinstance(json_object, StoredTemplate) else json_object.api_version
        plain: dict[str, Any] = msgspec.to_builtins(json_object)
        ref = ObjectRef(version, kind, json_object.name, json_object.namespace)
        writes.objects[ref] = {**plain, "apiVersion": version, "kind": kind}


def with_held(related: Related, writes: MemoryWrites) -> Related:
    """Return related objects with those that are held, as they are now."""
    found: dict[str, dict[str, Resource]] = {field: {} for field, _ in _FIELDS.values()}
    for ref, plain in writes.objects.items():
        if ref.kind in _FIELDS:
            field, kind = _FIELDS[ref.kind]
            one = msgspec.convert(plain, kind)
            found[field][one.key] = one
    if not any(found.values()) and not (related.provisioning_requests or related.capacity_buffers):
        return related
    return msgspec.structs.replace(related, **found)
