"""Turns machines of the simulated cloud into nodes: registration, readiness, and removal without a machine.

Plays the part of the kubelet that concerns the node object, and of the cloud controller that removes nodes whose
machine is gone. As with a real kubelet, a node that somebody else deletes does not register again.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject, rfc3339
from autoscaler.objects.node import HOSTNAME
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.actors.wire import holds, is_silent, new_condition, spec_of
from autoscaler.sandbox.actors.workqueue import QueueActor, WorkQueue
from autoscaler.sandbox.apiserver.discovery import VERSION
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.sandbox.apiserver.storage import Storage
from cloudprovider.interface import NodeTemplate, State
from cloudprovider.static.cloud import StaticCloud

NOT_READY = "node.kubernetes.io/not-ready"
_MIRROR = "kubernetes.io/config.mirror"
_SOURCE = "kubernetes.io/config.source"
_SLICES = "resourceslices.resource.k8s.io"
_LEASES, _LEASE_NAMESPACE = "leases.coordination.k8s.io", "kube-node-lease"
_LEASE_S = 40
"""How long a node's lease outlasts the next heartbeat."""
_NO_PRESSURE = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_NODE_INFO = {
    "architecture": "amd64",
    "operatingSystem": "linux",
    "kubeletVersion": VERSION["gitVersion"],
    "kubeProxyVersion": "",
    "osImage": "Sandbox",
    "kernelVersion": "0.0.0",
    "containerRuntimeVersion": "sandbox://0.0.0",
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
}


class _Machine(msgspec.Struct):
    """The state of one machine; `number` determines its addresses."""

    name: str
    group: str
    number: int
    zone: str
    booted: bool = True
    """Whether the machine booted during the run; the others have long been Ready."""
    registered_at: float | None = None
    gone_at: float | None = None
    offers_devices: bool = False


class MachineNodes:
    """Keeps a node for each running machine."""

    def __init__(self, storage: Storage, informers: SharedInformers, cloud: StaticCloud, timing: Timing) -> None:
        self._storage = storage
        self._cloud = cloud
        self._timing = timing
        self._nodes = informers.informer("nodes")
        self._machines: dict[str, _Machine] = {}
        self._seen = 0
        self._polled_at: float | None = None
        self._changes = 0
        self._next_change = math.inf
        self._queue: WorkQueue[tuple[str]] = WorkQueue()

    def due(self) -> float:
        """Monotonic second of the next step that has work."""
        return min(self._poll_due(), self._queue.due)

    def step(self, now: Instant) -> None:
        """Compare the cloud with the nodes at intervals, and advance the nodes."""
        if now.mono >= self._poll_due():
            self._poll(now, booted=self._polled_at is not None)
            next_change = self._cloud.next_change_s
            self._next_change = math.inf if next_change is None else now.mono + next_change - now.wall
            self._changes = self._cloud.changes
            self._polled_at = now.mono
        self._queue.process(now, self._sync)

    def _poll_due(self) -> float:
        """When to read the list of machines again; it is not read while nothing in it can have changed."""
        if self._polled_at is None:
            return -math.inf
        soonest = self._polled_at + self._timing.cloud_poll_s
        return soonest if self._changes != self._cloud.changes else max(soonest, self._next_change)

    def _poll(self, now: Instant, *, booted: bool) -> None:
        present = {machine.provider_id: machine for machine in self._cloud.machines()}
        for provider_id, machine in present.items():
            if machine.state is State.RUNNING and provider_id not in self._machines:
                self._seen += 1
                self._machines[provider_id] = _Machine(machine.name, machine.group, self._seen, machine.zone, booted)
                self._queue.add_at((provider_id,), now.mono + (self._timing.register_s if booted else 0.0))
        for provider_id, tracked in self._machines.items():
            if tracked.gone_at is None and provider_id not in present:
                tracked.gone_at = now.mono
                self._queue.add((provider_id,))

    def _sync(self, key: tuple[str], now: Instant) -> None:
        provider_id = key[0]
        machine = self._machines.get(provider_id)
        if machine is None:
            return
        node = self._node(provider_id, machine)
        if machine.gone_at is not None:
            self._mark_lost(key, machine, node, now)
        elif machine.registered_at is None:
            if node is None:
                self._register(provider_id, machine, now)
            machine.registered_at = now.mono
            self._queue.add_at(key, now.mono + self._timing.ready_s)
        elif node is not None and not is_silent(node):
            if not machine.offers_devices:
                self._offer_devices(node, machine.group)
                machine.offers_devices = True
            self._report(node, now)
            self._queue.add_at(key, now.mono + self._timing.heartbeat_s)

    def _node(self, provider_id: str, machine: _Machine) -> JsonObject | None:
        node = self._nodes.objects.get(("", machine.name))
        return node if node is not None and spec_of(node).get("providerID") == provider_id else None

    def _register(self, provider_id: str, machine: _Machine, now: Instant) -> None:
        template = self._cloud.group(machine.group).template() or NodeTemplate()
        node = self._storage.create("nodes", _new_node(provider_id, machine, template, now))
        for pod in template.pods:
            if any(owner.get("kind") == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ()):
                continue
            try:
                self._storage.create("pods", mirror_pod(pod, node))
            except ApiError:
                # The pod runs on a real node even if the API server does not show it.
                continue

    def _report(self, node: JsonObject, now: Instant) -> None:
        """Say that the node is Ready, for the first time or again."""
        _patch_conditions(self._storage, node, _conditions(node, now, ready=True))
        self._renew_lease(node, now)

    def _offer_devices(self, node: JsonObject, group: str) -> None:
        """Let the drivers of the node say which devices it has."""
        template = self._cloud.group(group).template() or NodeTemplate()
        for part in _slices_of(node, template.resource_slices):
            self._storage.apply(self._storage.kind(_SLICES), part, manager="driver")

    def _renew_lease(self, node: JsonObject, now: Instant) -> None:
        """Say in the lease of the node that its kubelet lives, until after the next heartbeat."""
        name = node["metadata"]["name"]
        renewed = f"{rfc3339(now.wall).removesuffix('Z')}.000000Z"
        try:
            self._storage.patch(_LEASES, name, {"spec": {"renewTime": renewed}}, namespace=_LEASE_NAMESPACE)
        except ApiError:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            lasts_s = int(self._timing.heartbeat_s) + _LEASE_S
            spec = {"holderIdentity": name, "leaseDurationSeconds": lasts_s, "renewTime": renewed}
            lease = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
            self._storage.create(_LEASES, lease, namespace=_LEASE_NAMESPACE)

    def _mark_lost(self, key: tuple[str], machine: _Machine, node: JsonObject | None, now: Instant) -> None:
        due = (machine.gone_at or 0.0) + self._timing.lost_s
        if node is None:
            del self._machines[key[0]]
        elif now.mono >= due:
            self._storage.delete("nodes", machine.name)
            del self._machines[key[0]]
        else:
            message = "Kubelet stopped posting node status."
            kinds = ("Ready", *(kind for kind, _, _ in _NO_PRESSURE))
            wall, reason = now.wall, "NodeStatusUnknown"
            unknown = [
                new_condition(node, kind, holds=None, reason=reason, message=message, wall=wall) for kind in kinds
            ]
            _patch_conditions(self._storage, node, unknown)
            self._queue.add_at(key, due)


class KwokNodes(QueueActor[tuple[str]]):
    """Makes nodes of the kwok provider Ready and keeps them so, as the kwok controller does."""

    def __init__(self, storage: Storage, informers: SharedInformers, timing: Timing) -> None:
        self._storage = storage
        self._timing = timing
        self._nodes = informers.informer("nodes")
        self._queue = WorkQueue()
        self._due: dict[str, float] = {}
        self._nodes.subscribe(self._changed)

    def _changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None and _is_kwok(new) and not holds(new, "Ready"):
            self._queue.add((new["metadata"]["name"],))

    def _sync(self, key: tuple[str], now: Instant) -> None:
        node = self._nodes.objects.get(("", key[0]))
        if node is None or holds(node, "Ready"):
            self._due.pop(key[0], None)
            return
        due = self._due.setdefault(key[0], now.mono + self._timing.ready_s)
        if now.mono < due:
            self._queue.add_at(key, due)
        else:
            _patch_conditions(self._storage, node, _conditions(node, now, ready=True))


def _new_node(provider_id: str, machine: _Machine, template: NodeTemplate, now: Instant) -> JsonObject:
    """The v1.Node with which a kubelet registers: a booting one is not Ready, and tainted so until it is."""
    name, number = machine.name, machine.number
    in_zone = template.zones.get(machine.zone, {})
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **template.labels, **in_zone, HOSTNAME: name}
    taints = [
        {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
        for taint in template.taints
    ]
    if machine.booted:
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})
    metadata = {"name": name, "labels": labels, "annotations": dict(template.annotations)}
    subnet = f"10.{128 + number // 256 % 64}.{number % 256}.0/24"
    spec = {"providerID": provider_id, "podCIDR": subnet, "podCIDRs": [subnet], "taints": taints}
    node: JsonObject = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
    address = f"10.0.{number // 250 % 256}.{number % 250 + 1}"
    node["status"] = {
        "capacity": dict(template.capacity or template.allocatable),
        "allocatable": {**template.capacity, **template.allocatable},
        "conditions": _conditions(node, now, ready=not machine.booted),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "nodeInfo": _NODE_INFO,
    }
    return node


def _slices_of(node: JsonObject, described: Sequence[Mapping[str, Any]]) -> Iterator[JsonObject]:
    """Yield the ResourceSlices of a node, as its group's template describes them."""
    name = node["metadata"]["name"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"], "controller": True}
    pools = [(given["spec"]["driver"], (given["spec"].get("pool") or {}).get("name")) for given in described]
    for number, (given, (driver, pool)) in enumerate(zip(described, pools, strict=True)):
        count = pools.count((driver, pool))
        spec = {
            **{key: value for key, value in given["spec"].items() if key in ("driver", "devices", "sharedCounters")},
            "nodeName": name,
            "pool": {"name": f"{name}/{pool}" if pool else name, "generation": 1, "resourceSliceCount": count},
        }
        metadata = {"name": f"{name}-{driver}-{number}", "ownerReferences": [owner]}
        yield {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def mirror_pod(pod: Mapping[str, Any], node: JsonObject) -> JsonObject:
    """The pod by which a kubelet shows a static pod of its node."""
    metadata, name = pod["metadata"], node["metadata"]["name"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"], "controller": True}
    annotations = {**(metadata.get("annotations") or {}), _MIRROR: "sandbox", _SOURCE: "file"}
    copied = {key: metadata[key] for key in ("namespace", "labels") if key in metadata}
    own = {"name": f"{metadata['name']}-{name}", "annotations": annotations, "ownerReferences": [owner]}
    tolerations = [{"operator": "Exists", "effect": "NoExecute"}, *(pod["spec"].get("tolerations") or ())]
    return {"metadata": {**copied, **own}, "spec": {**pod["spec"], "nodeName": name, "tolerations": tolerations}}


def _conditions(node: JsonObject, now: Instant, *, ready: bool) -> list[JsonObject]:
    reason, message = "KubeletReady", "kubelet is posting ready status"
    if not ready:
        reason, message = "KubeletNotReady", "container runtime network not ready: the sandbox is starting"
    conditions = [
        new_condition(node, kind, holds=False, reason=pressure_reason, message=pressure_message, wall=now.wall)
        for kind, pressure_reason, pressure_message in _NO_PRESSURE
    ]
    conditions.append(new_condition(node, "Ready", holds=ready, reason=reason, message=message, wall=now.wall))
    return [{**condition, "lastHeartbeatTime": rfc3339(now.wall)} for condition in conditions]


def _patch_conditions(storage: Storage, node: JsonObject, conditions: list[JsonObject]) -> None:
    metadata = node["metadata"]
    patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": conditions}}
    storage.patch("nodes", metadata["name"], patch, patch_type=PatchType.STRATEGIC, subresource="status")


def _is_kwok(node: JsonObject) -> bool:
    return (node["metadata"].get("annotations") or {}).get("kwok.x-k8s.io/node") == "fake"
