"""The decoded cluster, in columns, for scheduling code; it follows the feed."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from autoscaler.objects.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from autoscaler.objects.gang import GangPodGroup, GangWorkload
from autoscaler.objects.meta import JsonObject, Resource
from autoscaler.objects.node import Node, node_decoder
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from autoscaler.objects.workload import Namespace, plain_decoder
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.wire import key_of
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.snapshot.cluster import ClusterBuilder, ClusterView, Related
from autoscaler.snapshot.groups import Groups

T = TypeVar("T")
NodeListener = Callable[[Node | None, Node | None], None]
PodListener = Callable[[Pod | None, Pod | None, JsonObject | None], None]
"""Receives the decoded pod before and after the change, and the object itself."""

_POD_GROUPS = tuple(
    f"podgroups.{group}" for group in ("scheduling.x-k8s.io", "scheduling.volcano.sh", "scheduling.k8s.io")
)
_EVERY_POD_COUNTS = -(2**31)
_RELATED: tuple[tuple[str, type[Resource]], ...] = (
    ("namespaces", Namespace),
    ("persistentvolumeclaims", PersistentVolumeClaim),
    ("persistentvolumes", PersistentVolume),
    ("storageclasses.storage.k8s.io", StorageClass),
    ("csinodes.storage.k8s.io", CsiNode),
    ("csidrivers.storage.k8s.io", CsiDriver),
    ("csistoragecapacities.storage.k8s.io", CsiStorageCapacity),
    ("volumeattachments.storage.k8s.io", VolumeAttachment),
    ("resourceclaims.resource.k8s.io", ResourceClaim),
    ("resourceclaimtemplates.resource.k8s.io", ResourceClaimTemplate),
    ("resourceslices.resource.k8s.io", ResourceSlice),
    ("deviceclasses.resource.k8s.io", DeviceClass),
    ("devicetaintrules.resource.k8s.io", DeviceTaintRule),
    ("workloads.scheduling.k8s.io", GangWorkload),
    *((name, GangPodGroup) for name in _POD_GROUPS),
)


class DecodedCluster:
    """Follows nodes, pods and the objects that volumes need. Objects that cannot be decoded are left out."""

    def __init__(
        self,
        informers: SharedInformers,
        node_changed: NodeListener,
        pod_changed: PodListener,
        others_changed: Callable[[], None],
    ) -> None:
        self._builder = ClusterBuilder(_EVERY_POD_COUNTS)
        self._decode_node = node_decoder().one
        self._decode_pod = PodInterner().decoder().one
        self._nodes: dict[Key, Node] = {}
        self._pods: dict[Key, Pod] = {}
        self._others: dict[str, dict[str, Any]] = {resource: {} for resource, _ in _RELATED}
        self._related: Related | None = None
        self._node_changed = node_changed
        self._pod_changed = pod_changed
        self._others_changed = others_changed
        informers.informer("nodes").subscribe(self._take_node)
        informers.informer("pods").subscribe(self._take_pod)
        for resource, kind in _RELATED:
            informers.informer(resource).subscribe(self._taker(resource, kind))

    def view(self) -> ClusterView:
        """Return the cluster as of the last poll of the feed."""
        if self._related is None:
            others = self._others
            self._related = Related(
                namespaces=dict(others["namespaces"]),
                claims=dict(others["persistentvolumeclaims"]),
                volumes=dict(others["persistentvolumes"]),
                storage_classes=dict(others["storageclasses.storage.k8s.io"]),
                csi_nodes=dict(others["csinodes.storage.k8s.io"]),
                csi_drivers=dict(others["csidrivers.storage.k8s.io"]),
                csi_storage_capacities=dict(others["csistoragecapacities.storage.k8s.io"]),
                volume_attachments=dict(others["volumeattachments.storage.k8s.io"]),
                resource_claims=dict(others["resourceclaims.resource.k8s.io"]),
                resource_claim_templates=dict(others["resourceclaimtemplates.resource.k8s.io"]),
                resource_slices=dict(others["resourceslices.resource.k8s.io"]),
                device_classes=dict(others["deviceclasses.resource.k8s.io"]),
                device_taint_rules=dict(others["devicetaintrules.resource.k8s.io"]),
                workloads=dict(others["workloads.scheduling.k8s.io"]),
                pod_groups={key: group for name in _POD_GROUPS for key, group in others[name].items()},
            )
        return self._builder.view(Groups(), self._related)

    def _take_node(self, old_object: JsonObject | None, new_object: JsonObject | None) -> None:
        key = _either_key(old_object, new_object)
        old, new = self._nodes.pop(key, None), decoded(self._decode_node, new_object)
        if new is not None:
            self._nodes[key] = new
        self._builder.node_changed(old, new)
        self._node_changed(old, new)

    def _take_pod(self, old_object: JsonObject | None, new_object: JsonObject | None) -> None:
        key = _either_key(old_object, new_object)
        old, new = self._pods.pop(key, None), decoded(self._decode_pod, new_object)
        if new is not None:
            self._pods[key] = new
        self._builder.pod_changed(old, new)
        self._pod_changed(old, new, new_object)

    def _taker(self, resource: str, kind: type[Resource]) -> Callable[[JsonObject | None, JsonObject | None], None]:
        decode = plain_decoder(kind).one
        kept = self._others[resource]

        def take(old_object: JsonObject | None, new_object: JsonObject | None) -> None:
            namespace, name = _either_key(old_object, new_object)
            key = f"{namespace}/{name}" if namespace else name
            kept.pop(key, None)
            new = decoded(decode, new_object)
            if new is not None:
                kept[key] = new
            self._related = None
            self._others_changed()

        return take


def _either_key(old: JsonObject | None, new: JsonObject | None) -> Key:
    present = new if new is not None else old
    if present is None:
        raise ValueError("a change without an object")
    return key_of(present)


def decoded(decode: Callable[[Any], T], obj: JsonObject | None) -> T | None:
    """Decode an object; None if there is none, or if it cannot be decoded."""
    if obj is None:
        return None
    try:
        return decode(obj)
    except (msgspec.ValidationError, ValueError):
        return None
