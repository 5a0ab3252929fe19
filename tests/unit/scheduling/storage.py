"""Claims, volumes and what nodes can attach, as the API server could have sent them."""

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.objects.meta import Resource
from autoscaler.objects.storage import (
    BIND_COMPLETED,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from autoscaler.objects.workload import plain_decoder
from autoscaler.snapshot.cluster import Related
from tests.builders import Json, expression

DRIVER = "disk.csi.example.com"
WAITING = "waits"
LOCAL = "local"
IMMEDIATE = "immediate"


def claim(
    name: str,
    *,
    volume: str | None = None,
    storage_class: str | None = WAITING,
    size: str = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    annotations: Mapping[str, str] | None = None,
    phase: str | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """Return a claim; one with a volume is bound to it."""
    bound = {} if volume is None else {BIND_COMPLETED: "yes"}
    return plain_decoder(PersistentVolumeClaim).one(
        {
            "metadata": {"name": name, "namespace": "default", "annotations": {**bound, **(annotations or {})}},
            "spec": {
                "volumeName": volume or "",
                "storageClassName": storage_class,
                "accessModes": list(modes),
                "resources": {"requests": {"storage": size}},
                **spec,
            },
            "status": {"phase": phase or ("Pending" if volume is None else "Bound")},
        }
    )


def volume(
    name: str,
    *,
    terms: Sequence[Json] | None = None,
    labels: Mapping[str, str] | None = None,
    storage_class: str = LOCAL,
    size: str = "1Gi",
    phase: str = "Available",
    handle: str | None = None,
    **spec: Any,
) -> PersistentVolume:
    """Return a volume; `terms` are those of its node affinity, `handle` its name with the CSI driver."""
    affinity = {} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}
    csi = {} if handle is None else {"csi": {"driver": DRIVER, "volumeHandle": handle}}
    return plain_decoder(PersistentVolume).one(
        {
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {
                "storageClassName": storage_class,
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": size},
                **affinity,
                **csi,
                **spec,
            },
            "status": {"phase": phase},
        }
    )


def at(key: str, *values: str) -> Json:
    """Return a term that wants one of the values."""
    return {"matchExpressions": [expression(key, "In", *values)]}


def storage_class(
    name: str, *, mode: str = "WaitForFirstConsumer", provisioner: str = DRIVER, **more: Any
) -> StorageClass:
    return plain_decoder(StorageClass).one(
        {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    )


def csi_node(name: str, count: int | None) -> CsiNode:
    """Return a node's CSINode; without a count the driver is there but has no limit."""
    allocatable = {} if count is None else {"allocatable": {"count": count}}
    drivers = [{"name": "other.csi", "nodeID": "i", "allocatable": {"count": 0}}]
    drivers.append({"name": DRIVER, "nodeID": "i", **allocatable})
    return plain_decoder(CsiNode).one({"metadata": {"name": name}, "spec": {"drivers": drivers}})


def csi_driver(*, storage_capacity: bool = True, needed: bool = False) -> CsiDriver:
    """Return a driver; if it is `needed`, its volumes go only where it runs."""
    spec = {"storageCapacity": storage_capacity, "preventPodSchedulingIfMissing": needed}
    return plain_decoder(CsiDriver).one({"metadata": {"name": DRIVER}, "spec": spec})


def free_storage(capacity: str | None = "5Gi", *, storage_class: str = WAITING, **more: Any) -> CsiStorageCapacity:
    """Return free storage that every node reaches, unless told otherwise."""
    form = {"metadata": {"name": "free", "namespace": "kube-system"}, "storageClassName": storage_class}
    return plain_decoder(CsiStorageCapacity).one({**form, "capacity": capacity, "nodeTopology": {}, **more})


def attachment(volume: str, node: str, *, attacher: str = DRIVER) -> VolumeAttachment:
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return plain_decoder(VolumeAttachment).one({"metadata": {"name": f"{volume}-{node}"}, "spec": spec})


CLASSES = (
    storage_class(WAITING),
    storage_class(LOCAL, provisioner="kubernetes.io/no-provisioner"),
    storage_class(IMMEDIATE, mode="Immediate"),
)


def storage(*objects: Resource) -> Related:
    """Return these objects beside the three usual storage classes."""
    everything = (*CLASSES, *objects)
    return Related(
        claims={one.key: one for one in everything if isinstance(one, PersistentVolumeClaim)},
        volumes={one.name: one for one in everything if isinstance(one, PersistentVolume)},
        storage_classes={one.name: one for one in everything if isinstance(one, StorageClass)},
        csi_nodes={one.name: one for one in everything if isinstance(one, CsiNode)},
        csi_drivers={one.name: one for one in everything if isinstance(one, CsiDriver)},
        csi_storage_capacities={one.key: one for one in everything if isinstance(one, CsiStorageCapacity)},
        volume_attachments={one.name: one for one in everything if isinstance(one, VolumeAttachment)},
    )


def using(*claims: str) -> list[Json]:
    """Return volumes of a pod that use these claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
