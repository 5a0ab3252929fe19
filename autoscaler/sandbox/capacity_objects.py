"""Objects that request capacity, and ConfigMaps, in a cluster in memory, where writes to them have an effect."""

from typing import Any

import msgspec

from autoscaler.kube.paths import ObjectRef
from autoscaler.objects.capacity import CapacityBuffer, CapacityQuota, ProvisioningRequest, StoredTemplate
from autoscaler.objects.meta import Resource
from autoscaler.objects.workload import ConfigMap
from autoscaler.sandbox.memory_cluster import MemoryWrites
from autoscaler.snapshot.cluster import Related

_FIELDS: dict[str, tuple[str, type[Resource]]] = {
    "ProvisioningRequest": ("provisioning_requests", ProvisioningRequest),
    "CapacityBuffer": ("capacity_buffers", CapacityBuffer),
    "CapacityQuota": ("capacity_quotas", CapacityQuota),
    "PodTemplate": ("pod_templates", StoredTemplate),
    "ConfigMap": ("config_maps", ConfigMap),
}
"""Field of `Related` and type, by kind."""


def put_objects(
    writes: MemoryWrites, *objects: ProvisioningRequest | CapacityBuffer | CapacityQuota | StoredTemplate | ConfigMap
) -> None:
    """Store objects where writes find them."""
    for obj in objects:
        kind = next(kind for kind, (_, type_) in _FIELDS.items() if isinstance(obj, type_))
        version = "v1" if isinstance(obj, StoredTemplate | ConfigMap) else obj.api_version
        plain: dict[str, Any] = msgspec.to_builtins(obj)
        ref = ObjectRef(version, kind, obj.name, obj.namespace)
        writes.objects[ref] = {**plain, "apiVersion": version, "kind": kind}


def with_objects(related: Related, writes: MemoryWrites) -> Related:
    """Return related objects together with the stored ones in their present state."""
    by_field: dict[str, dict[str, Resource]] = {field: {} for field, _ in _FIELDS.values()}
    for ref, plain in writes.objects.items():
        if ref.kind in _FIELDS:
            field, kind = _FIELDS[ref.kind]
            obj = msgspec.convert(plain, kind)
            by_field[field][obj.key] = obj
    if not any(by_field.values()) and not any(getattr(related, field) for field in by_field):
        return related
    return msgspec.structs.replace(related, **by_field)
