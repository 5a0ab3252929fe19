"""Defaults of scenario files.

A file says what a case is about; the rest is what an ordinary cluster would have. A node was created a day before
`now`, is Ready since, has room for 110 pods, and its host name and provider id are its name. A pod was created ten
minutes before `now`; one with a node runs there, any other waits as unschedulable, or as gated. Without any device
class, each driver of devices has one of its own name. Nothing is filled in where the file is marked `complete`.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.devices import CelSelector, DeviceClass, DeviceClassSpec, DeviceSelector
from autoscaler.objects.meta import ObjectMeta, OwnerReference, Resource, rfc3339, unix_seconds
from autoscaler.objects.node import HOSTNAME, Node, NodeCondition, NodeWire, keep_node
from autoscaler.objects.pod import Pod, Unscheduled
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.podspec import Container, PodSpec, PodWire
from autoscaler.objects.workload import Namespace

NODE_AGE_S = 86400.0
POD_AGE_S = 600.0
PODS_PER_NODE = "110"
NAMESPACE = "default"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
ALWAYS_THERE = ("default", "kube-system")
"""Namespaces that every cluster has."""

_API_VERSIONS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}
R = TypeVar("R", bound=Resource)


def _class_of_driver(driver: str) -> DeviceClass:
    selector = DeviceSelector(CelSelector(f'device.driver == "{driver}"'))
    return DeviceClass(metadata=ObjectMeta(name=driver), spec=DeviceClassSpec([selector]))


class Defaults:
    """Fills in what objects of one file leave out, and keeps them. `now_s` is the file's time in Unix seconds."""

    def __init__(self, now_s: float, interner: PodInterner, complete: bool) -> None:
        self._interner = interner
        self.complete = complete
        """Whether nothing may be filled in."""
        self._node_created = rfc3339(now_s - NODE_AGE_S)
        self._pod_created = rfc3339(now_s - POD_AGE_S)
        self._owners: dict[tuple[str, OwnerReference], OwnerReference] = {}

    def device_classes(self, given: dict[str, DeviceClass], drivers: Iterable[str]) -> Mapping[str, DeviceClass]:
        """Return the device classes; where none are given, one for each driver, of its name and with its devices."""
        if self.complete or given:
            return given
        return {driver: _class_of_driver(driver) for driver in drivers}

    def node(self, wire: NodeWire) -> Node:
        """Return a node as the engine keeps it; raises `ValueError` on amounts and times that cannot be read."""
        if not self.complete:
            wire = self._filled_node(wire)
        return keep_node(wire)

    def _filled_node(self, wire: NodeWire) -> NodeWire:
        meta, spec, status = wire.metadata, wire.spec, wire.status
        created = meta.creation_timestamp or self._node_created
        labels = {HOSTNAME: meta.name, **meta.labels} if meta.name else meta.labels
        allocatable = {quantity.PODS: PODS_PER_NODE, **(status.allocatable or status.capacity)}
        capacity = {quantity.PODS: allocatable[quantity.PODS], **(status.capacity or allocatable)}
        conditions = [
            condition
            if condition.last_transition_time
            else msgspec.structs.replace(condition, last_transition_time=created)
            for condition in status.conditions
        ]
        if not any(condition.type == "Ready" for condition in conditions):
            conditions.append(NodeCondition(type="Ready", status="True", last_transition_time=created))
        replace = msgspec.structs.replace
        return NodeWire(
            metadata=replace(meta, uid=meta.uid or f"Node/{meta.name}", labels=labels, creation_timestamp=created),
            spec=replace(spec, provider_id=spec.provider_id or meta.name),
            status=replace(status, allocatable=allocatable, capacity=capacity, conditions=conditions),
        )

    def pod(self, wire: PodWire) -> Pod:
        """Return a pod as the engine keeps it; raises `ValueError` on amounts and times that cannot be read."""
        if self.complete:
            return self._interner.keep(wire)
        named = PodWire(metadata=self._pod_meta(wire.metadata), spec=_named_containers(wire.spec), status=wire.status)
        pod = self._interner.keep(named)
        if pod.node is None:
            reason = "SchedulingGated" if wire.spec.scheduling_gates else "Unschedulable"
            waiting = pod.unscheduled if wire.status.conditions else Unscheduled(reason, pod.created)
            return msgspec.structs.replace(pod, unscheduled=waiting)
        phase = "Running" if pod.phase == "Pending" else pod.phase
        return msgspec.structs.replace(pod, phase=phase, started=pod.created if pod.started is None else pod.started)

    def template_pod(self, wire: PodWire, index: int) -> Mapping[str, object]:
        """Return a pod that comes with every new node of a group, as plain data; `index` names a nameless one."""
        if not self.complete:
            meta = wire.metadata
            meta = msgspec.structs.replace(meta, name=meta.name or f"template-pod-{index}")
            wire = PodWire(metadata=self._pod_meta(meta), spec=_named_containers(wire.spec), status=wire.status)
        plain: Mapping[str, object] = msgspec.to_builtins(wire)
        return plain

    def _pod_meta(self, meta: ObjectMeta) -> ObjectMeta:
        namespace = meta.namespace or NAMESPACE
        return ObjectMeta(
            name=meta.name,
            namespace=namespace,
            uid=meta.uid or f"{namespace}/{meta.name}",
            labels=meta.labels,
            annotations=meta.annotations,
            owner_references=[self._owner(namespace, owner) for owner in meta.owner_references],
            creation_timestamp=meta.creation_timestamp or self._pod_created,
            deletion_timestamp=meta.deletion_timestamp,
            deletion_grace_period_seconds=meta.deletion_grace_period_seconds,
        )

    def _owner(self, namespace: str, owner: OwnerReference) -> OwnerReference:
        known = self._owners.get((namespace, owner))
        if known is None:
            known = self._owners[namespace, owner] = OwnerReference(
                kind=owner.kind,
                name=owner.name,
                uid=owner.uid or f"{owner.kind}/{namespace}/{owner.name}",
                api_version=_API_VERSIONS.get(owner.kind, "v1") if owner.api_version == "v1" else owner.api_version,
                controller=True if owner.controller is None else owner.controller,
            )
        return known

    def owned_resource(self, resource: R, kind: str) -> R:
        """Return an object of a kind that lives in a namespace, with namespace, uid and time of creation."""
        if self.complete:
            return resource
        namespace = resource.namespace or NAMESPACE
        meta = msgspec.structs.replace(
            resource.metadata,
            namespace=namespace,
            uid=resource.uid or f"{kind}/{namespace}/{resource.name}",
            creation_timestamp=resource.metadata.creation_timestamp or self._pod_created,
        )
        return msgspec.structs.replace(resource, metadata=meta)

    def namespaces(self, given: Mapping[str, Namespace], used: set[str]) -> dict[str, Namespace]:
        """Return the namespaces of the file, then those that its pods are in; each is labelled with its name."""
        if self.complete:
            return dict(given)
        missing = sorted((used | set(ALWAYS_THERE)) - given.keys())
        named = {**given, **{name: Namespace(metadata=ObjectMeta(name=name)) for name in missing}}
        return {name: _labelled(namespace) for name, namespace in named.items()}


def _labelled(namespace: Namespace) -> Namespace:
    meta = namespace.metadata
    labels = {**meta.labels, NAMESPACE_LABEL: meta.name}
    return msgspec.structs.replace(namespace, metadata=msgspec.structs.replace(meta, labels=labels))


def _named_containers(spec: PodSpec) -> PodSpec:
    nameless = any(not container.name for container in (*spec.containers, *spec.init_containers))
    if not nameless:
        return spec
    return msgspec.structs.replace(
        spec, containers=_named(spec.containers, "c"), init_containers=_named(spec.init_containers, "i")
    )


def _named(containers: list[Container], prefix: str) -> list[Container]:
    return [
        container if container.name else msgspec.structs.replace(container, name=f"{prefix}{index}")
        for index, container in enumerate(containers)
    ]


def check_node_times(node: Node) -> None:
    """Raise `ValueError` where a time that is kept as text cannot be read."""
    for condition in node.conditions:
        if condition.last_transition_time is not None:
            unix_seconds(condition.last_transition_time)
    for taint in node.taints:
        if taint.time_added is not None:
            unix_seconds(taint.time_added)
