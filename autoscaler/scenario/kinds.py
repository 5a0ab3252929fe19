"""The kinds of objects that decisions read, and where each is in a file, on an API server and in a view."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from autoscaler.objects.capacity import (
    GROUP,
    CapacityBuffer,
    CapacityQuota,
    ProvisioningRequest,
    ResourceQuota,
    StoredTemplate,
)
from autoscaler.objects.devices import (
    DEVICE_VERSIONS,
    TAINT_VERSIONS,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from autoscaler.objects.gang import GANG_VERSIONS, OTHER_POD_GROUPS, GangPodGroup, GangWorkload
from autoscaler.objects.meta import Resource
from autoscaler.objects.node import NodeWire
from autoscaler.objects.podspec import PodWire
from autoscaler.objects.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from autoscaler.objects.workload import DaemonSet, DisruptionBudget, Job, Namespace, PriorityClass, Replicated


class ObjectKind(NamedTuple):
    """A kind of objects that decisions read."""

    field: str
    """Of `format.ScenarioFile`."""
    type: Any
    path: str
    """The collection on the API server."""
    view_field: str = ""
    """Of `snapshot.cluster.Related`; empty: the same as in the file."""
    in_namespace: bool = True
    features: tuple[str, ...] = ()
    """Flags: without all of them no decision reads the kind; empty: one always does."""
    optional: bool = False
    """Whether a cluster may lack the kind or keep it from the autoscaler."""
    older_paths: tuple[str, ...] = ()
    """The collection in older versions, for servers that do not have the newest."""
    other_paths: tuple[str, ...] = ()
    """Collections of kinds of that name in other API groups, which say the same."""

    @property
    def collections(self) -> tuple[tuple[str, ...], ...]:
        """All collections, each in the versions that can be read, the newest first. Of two objects with one name, that
        of the later collection counts.
        """
        return (*((path,) for path in self.other_paths), (self.path, *self.older_paths))

    @property
    def related(self) -> str:
        """Field of `snapshot.cluster.Related`."""
        return self.view_field or self.field


_REQUESTS = ("enable-provisioning-requests",)
_BUFFERS = ("capacity-buffer-controller-enabled", "capacity-buffer-pod-injection-enabled")


def _of_devices(
    field: str, kind: type[Resource], versions: Iterable[str] = DEVICE_VERSIONS, *, in_namespace: bool
) -> ObjectKind:
    plural = field.replace("_", "")
    newest, *older = (f"/apis/resource.k8s.io/{version}/{plural}" for version in versions)
    features = ("enable-dynamic-resource-allocation",)
    return ObjectKind(field, kind, newest, "", in_namespace, features, optional=True, older_paths=tuple(older))


def _of_storage(field: str, kind: type[Resource], *, in_namespace: bool = False) -> ObjectKind:
    path = f"/apis/storage.k8s.io/v1/{field.replace('_', '')}"
    return ObjectKind(field, kind, path, in_namespace=in_namespace, optional=True)


def _of_gangs(field: str, kind: type[Resource], *others: str) -> ObjectKind:
    newest, *older = (f"/apis/scheduling.k8s.io/{version}/{field.replace('_', '')}" for version in GANG_VERSIONS)
    features = ("gang-scheduling-enabled",)
    return ObjectKind(field, kind, newest, features=features, older_paths=tuple(older), other_paths=others)


KINDS: Mapping[str, ObjectKind] = {
    "Node": ObjectKind("nodes", NodeWire, "/api/v1/nodes", in_namespace=False),
    "Pod": ObjectKind("pods", PodWire, "/api/v1/pods"),
    "Namespace": ObjectKind("namespaces", Namespace, "/api/v1/namespaces", in_namespace=False),
    "PodDisruptionBudget": ObjectKind(
        "pod_disruption_budgets", DisruptionBudget, "/apis/policy/v1/poddisruptionbudgets", "budgets"
    ),
    "DaemonSet": ObjectKind("daemon_sets", DaemonSet, "/apis/apps/v1/daemonsets"),
    "ReplicaSet": ObjectKind("replica_sets", Replicated, "/apis/apps/v1/replicasets"),
    "StatefulSet": ObjectKind("stateful_sets", Replicated, "/apis/apps/v1/statefulsets"),
    "ReplicationController": ObjectKind("replication_controllers", Replicated, "/api/v1/replicationcontrollers"),
    "Job": ObjectKind("jobs", Job, "/apis/batch/v1/jobs"),
    "PersistentVolumeClaim": ObjectKind(
        "persistent_volume_claims", PersistentVolumeClaim, "/api/v1/persistentvolumeclaims", "claims"
    ),
    "PersistentVolume": ObjectKind(
        "persistent_volumes", PersistentVolume, "/api/v1/persistentvolumes", "volumes", False
    ),
    "StorageClass": ObjectKind(
        "storage_classes", StorageClass, "/apis/storage.k8s.io/v1/storageclasses", in_namespace=False
    ),
    "CSINode": ObjectKind("csi_nodes", CsiNode, "/apis/storage.k8s.io/v1/csinodes", in_namespace=False),
    "CSIDriver": _of_storage("csi_drivers", CsiDriver),
    "CSIStorageCapacity": _of_storage("csi_storage_capacities", CsiStorageCapacity, in_namespace=True),
    "VolumeAttachment": _of_storage("volume_attachments", VolumeAttachment),
    "ResourceSlice": _of_devices("resource_slices", ResourceSlice, in_namespace=False),
    "ResourceClaim": _of_devices("resource_claims", ResourceClaim, in_namespace=True),
    "PodGroup": _of_gangs("pod_groups", GangPodGroup, *OTHER_POD_GROUPS),
    "Workload": _of_gangs("workloads", GangWorkload),
    "ResourceClaimTemplate": _of_devices("resource_claim_templates", ResourceClaimTemplate, in_namespace=True),
    "DeviceClass": _of_devices("device_classes", DeviceClass, in_namespace=False),
    "DeviceTaintRule": _of_devices("device_taint_rules", DeviceTaintRule, TAINT_VERSIONS, in_namespace=False),
    "PriorityClass": ObjectKind(
        "priority_classes", PriorityClass, "/apis/scheduling.k8s.io/v1/priorityclasses", in_namespace=False
    ),
    "ProvisioningRequest": ObjectKind(
        "provisioning_requests", ProvisioningRequest, f"/apis/{GROUP}/v1/provisioningrequests", features=_REQUESTS
    ),
    "CapacityBuffer": ObjectKind(
        "capacity_buffers", CapacityBuffer, f"/apis/{GROUP}/v1beta1/capacitybuffers", features=_BUFFERS
    ),
    "CapacityQuota": ObjectKind(
        "capacity_quotas",
        CapacityQuota,
        f"/apis/{GROUP}/v1beta1/capacityquotas",
        in_namespace=False,
        features=("capacity-quotas-enabled",),
        older_paths=(f"/apis/{GROUP}/v1alpha1/capacityquotas",),
    ),
    "PodTemplate": ObjectKind(
        "pod_templates", StoredTemplate, "/api/v1/podtemplates", features=(*_REQUESTS, *_BUFFERS)
    ),
    "ResourceQuota": ObjectKind("resource_quotas", ResourceQuota, "/api/v1/resourcequotas", features=_BUFFERS),
}
OF_DEVICES = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule")
"""The kinds that decisions read only where claims for devices count."""
RELATED: Mapping[str, ObjectKind] = {name: kind for name, kind in KINDS.items() if name not in ("Node", "Pod")}
"""The kinds whose objects decisions look up."""
