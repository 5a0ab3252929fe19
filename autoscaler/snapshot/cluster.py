"""The cluster at one moment, and the builder that updates it from watch events.

A `ClusterView` never changes; all decisions of a pass are functions of one view. The deciding thread owns the builder.
Between passes the builder collects changes, so the cost of the next view depends on the number of changes and not on
the size of the cluster. Expendable pods (priority below the cut-off) are left out, so their room counts as free. Pods
of unknown nodes are kept aside until their node appears.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from autoscaler.objects.capacity import (
    CapacityBuffer,
    CapacityQuota,
    ProvisioningRequest,
    ResourceQuota,
    Scalable,
    StoredTemplate,
)
from autoscaler.objects.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from autoscaler.objects.gang import GangPodGroup, GangWorkload
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from autoscaler.objects.workload import (
    ConfigMap,
    DaemonSet,
    DisruptionBudget,
    Job,
    Namespace,
    PriorityClass,
    Replicated,
)
from autoscaler.snapshot.columns import Codes, Columns, Vocabulary
from autoscaler.snapshot.groups import Groups


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that decisions look up, by `namespace/name` or by name; each kind is in the order of its list."""

    namespaces: Mapping[str, Namespace] = {}
    budgets: Mapping[str, DisruptionBudget] = {}
    daemon_sets: Mapping[str, DaemonSet] = {}
    replica_sets: Mapping[str, Replicated] = {}
    stateful_sets: Mapping[str, Replicated] = {}
    replication_controllers: Mapping[str, Replicated] = {}
    jobs: Mapping[str, Job] = {}
    priority_classes: Mapping[str, PriorityClass] = {}
    claims: Mapping[str, PersistentVolumeClaim] = {}
    volumes: Mapping[str, PersistentVolume] = {}
    storage_classes: Mapping[str, StorageClass] = {}
    csi_nodes: Mapping[str, CsiNode] = {}
    csi_drivers: Mapping[str, CsiDriver] = {}
    csi_storage_capacities: Mapping[str, CsiStorageCapacity] = {}
    volume_attachments: Mapping[str, VolumeAttachment] = {}
    resource_slices: Mapping[str, ResourceSlice] = {}
    """Slices with devices; empty if claims on devices are not supported."""
    resource_claims: Mapping[str, ResourceClaim] = {}
    """Claims on devices; empty if they are not supported."""
    pod_groups: Mapping[str, GangPodGroup] = {}
    workloads: Mapping[str, GangWorkload] = {}
    resource_claim_templates: Mapping[str, ResourceClaimTemplate] = {}
    device_classes: Mapping[str, DeviceClass] = {}
    device_taint_rules: Mapping[str, DeviceTaintRule] = {}
    config_maps: Mapping[str, ConfigMap] = {}
    """Only the ConfigMaps that decisions read, such as the priority expander's."""
    provisioning_requests: Mapping[str, ProvisioningRequest] = {}
    capacity_buffers: Mapping[str, CapacityBuffer] = {}
    capacity_quotas: Mapping[str, CapacityQuota] = {}
    pod_templates: Mapping[str, StoredTemplate] = {}
    resource_quotas: Mapping[str, ResourceQuota] = {}
    scalables: Mapping[str, Scalable] = {}
    """Controllers of several kinds with their templates, by `kind/namespace/name`."""

    @property
    def needed_csi_drivers(self) -> frozenset[str]:
        """The CSI drivers whose volumes go only to nodes on which the driver runs."""
        drivers = self.csi_drivers.items()
        return frozenset(name for name, driver in drivers if driver.spec.prevent_pod_scheduling_if_missing)


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable view of the cluster at one moment."""

    nodes: tuple[Node, ...]
    positions: Mapping[str, int]
    """Position in `nodes` by name."""
    pods: Sequence[tuple[Pod, ...]]
    """Placed pods by node position."""
    pending: tuple[Pod, ...]
    """Pods without a node, for any reason."""
    columns: Columns
    classes: Sequence[PodClass]
    pod_nodes: Codes
    """`(placed pods,)`: the position of each pod's node."""
    pod_classes: Codes
    """`(placed pods,)`: index into `classes`, parallel to `pod_nodes`."""
    terminating: tuple[Pod, ...]
    """Placed pods that are being deleted."""
    groups: Groups
    related: Related
    silence_s: Mapping[str, float] = {}
    """Seconds since the API server last sent something about a kind, by path, for kinds that are followed."""

    def node(self, name: str) -> Node | None:
        """Return the node with this name."""
        position = self.positions.get(name)
        return None if position is None else self.nodes[position]

    def pods_on(self, name: str) -> tuple[Pod, ...]:
        """Return the pods placed on a node; none for an unknown one."""
        position = self.positions.get(name)
        return () if position is None else self.pods[position]


def _same_shape(old: Node, new: Node) -> bool:
    """Whether both nodes have the same data in columns; a heartbeat must not cause a rebuild of the columns."""
    return (
        old.unschedulable == new.unschedulable
        and old.allocatable == new.allocatable
        and old.labels == new.labels
        and [taint for taint in old.taints if taint.hard] == [taint for taint in new.taints if taint.hard]
    )


def _overgrown(view: ClusterView) -> bool:
    """Whether the columns must be rebuilt: new resources were named, or most names in the vocabulary are unused."""
    vocabulary = view.columns.vocabulary
    if view.columns.counted < len(vocabulary.rows) or vocabulary.outgrown(len(view.nodes)):
        return True
    if len(view.classes) < _SPARE_CLASSES:
        return False
    return len(view.classes) > 2 * int(np.count_nonzero(np.bincount(view.pod_classes, minlength=len(view.classes))))


_SPARE_CLASSES = 256


class ClusterBuilder:
    """Follows changes of nodes and pods, and builds views. Threads must not share it."""

    def __init__(self, expendable_below: int) -> None:
        self._expendable_below = expendable_below
        self._vocabulary = Vocabulary()
        self._nodes: dict[str, Node] = {}
        self._placed: dict[str, dict[str, Pod]] = {}
        self._pending: dict[str, Pod] = {}
        self._terminating: dict[str, Pod] = {}
        self._reshaped: set[str] = set()
        self._touched: set[str] = set()
        self._stale = True
        self._view: ClusterView | None = None

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The current nodes by name, in order of appearance."""
        return self._nodes

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Record that a node appeared (`old` is None), changed, or disappeared (`new` is None)."""
        if new is None:
            if old is not None and self._nodes.pop(old.name, None) is not None:
                self._stale = True
            return
        known = self._nodes.get(new.name)
        self._nodes[new.name] = new
        if known is None or not _same_shape(known, new):
            self._stale = True
        else:
            self._reshaped.add(new.name)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Record that a pod appeared (`old` is None), changed, or disappeared (`new` is None)."""
        if old is not None and (new is None or new.node != old.node or old.key != new.key or not self._counts(new)):
            self._forget(old)
        if new is None or not self._counts(new):
            return
        if new.node is None:
            self._pending[new.key] = new
        else:
            self._placed.setdefault(new.node, {})[new.key] = new
            self._touched.add(new.node)
            if new.deleted is not None:
                self._terminating[new.key] = new
            else:
                self._terminating.pop(new.key, None)

    def _counts(self, pod: Pod) -> bool:
        if pod.finished:
            return False
        priority = pod.cls.priority
        return pod.node is None or priority is None or priority >= self._expendable_below

    def _forget(self, pod: Pod) -> None:
        if pod.node is None:
            self._pending.pop(pod.key, None)
            return
        on_node = self._placed.get(pod.node)
        if on_node is not None and on_node.pop(pod.key, None) is not None:
            self._touched.add(pod.node)
            self._terminating.pop(pod.key, None)
            if not on_node:
                del self._placed[pod.node]

    def view(self, groups: Groups, related: Related) -> ClusterView:
        """Return the cluster as it is now."""
        before = self._view
        if before is None or self._stale or len(self._touched) > len(self._nodes) // 4 or _overgrown(before):
            after = self._rebuilt(groups, related)
        else:
            after = self._updated(before, groups, related)
        self._view = after
        self._stale = False
        self._reshaped.clear()
        self._touched.clear()
        return after

    def _rebuilt(self, groups: Groups, related: Related) -> ClusterView:
        nodes = tuple(self._nodes.values())
        if self._vocabulary.outgrown(len(nodes)):
            self._vocabulary = Vocabulary()
        pods = [tuple(self._placed.get(node.name, {}).values()) for node in nodes]
        ids: dict[PodClass, int] = {}
        pod_classes = np.fromiter(
            (ids.setdefault(pod.cls, len(ids)) for on_node in pods for pod in on_node), dtype=np.int32
        )
        counts = np.fromiter((len(on_node) for on_node in pods), dtype=np.int64, count=len(nodes))
        pod_nodes = np.repeat(np.arange(len(nodes), dtype=np.int32), counts)
        classes = list(ids)
        columns = Columns(self._vocabulary, nodes)
        if classes:
            requests = np.stack([self._vocabulary.vector(cls) for cls in classes], axis=1)
            for row in range(len(columns.used)):
                np.add.at(columns.used[row], pod_nodes, requests[row, pod_classes])
        if unmeasured := [number for number, cls in enumerate(classes) if cls.unmeasured]:
            columns.fill(np.unique(pod_nodes[np.isin(pod_classes, unmeasured)]))
        return ClusterView(
            nodes=nodes,
            positions={node.name: position for position, node in enumerate(nodes)},
            pods=pods,
            pending=tuple(self._pending.values()),
            columns=columns,
            classes=classes,
            pod_nodes=pod_nodes,
            pod_classes=pod_classes,
            terminating=tuple(self._terminating.values()),
            groups=groups,
            related=related,
        )

    def _updated(self, before: ClusterView, groups: Groups, related: Related) -> ClusterView:
        nodes = before.nodes
        if self._reshaped:
            nodes = tuple(self._nodes.values())
        touched = sorted(before.positions[name] for name in self._touched if name in before.positions)
        if not touched:
            return msgspec.structs.replace(
                before,
                nodes=nodes,
                pending=tuple(self._pending.values()),
                terminating=tuple(self._terminating.values()),
                groups=groups,
                related=related,
            )
        pods = list(before.pods)
        classes = list(before.classes)
        ids = {cls: position for position, cls in enumerate(classes)}
        columns = before.columns.copy()
        fresh_nodes: list[int] = []
        fresh_classes: list[int] = []
        for position in touched:
            pods[position] = tuple(self._placed.get(nodes[position].name, {}).values())
            for pod in pods[position]:
                fresh_nodes.append(position)
                fresh_classes.append(ids.setdefault(pod.cls, len(ids)))
            columns.recount(position, [pod.cls for pod in pods[position]])
        classes = list(ids)
        kept = ~np.isin(before.pod_nodes, touched)
        return ClusterView(
            nodes=nodes,
            positions=before.positions,
            pods=pods,
            pending=tuple(self._pending.values()),
            columns=columns,
            classes=classes,
            pod_nodes=np.concatenate([before.pod_nodes[kept], np.array(fresh_nodes, dtype=np.int32)]),
            pod_classes=np.concatenate([before.pod_classes[kept], np.array(fresh_classes, dtype=np.int32)]),
            terminating=tuple(self._terminating.values()),
            groups=groups,
            related=related,
        )


def view_of(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    *,
    groups: Groups | None = None,
    related: Related | None = None,
    expendable_below: int = -10,
) -> ClusterView:
    """Return a view of these objects: for offline use and tests."""
    builder = ClusterBuilder(expendable_below)
    for node in nodes:
        builder.node_changed(None, node)
    for pod in pods:
        builder.pod_changed(None, pod)
    return builder.view(groups or Groups(), related or Related())
