"""A cluster in memory for offline passes: nodes, pods, and the writes that the autoscaler makes to them.

Nothing schedules and nothing recreates: an eviction always succeeds and the pod is gone at once, unless a caller plays
the controllers and the kubelets. Not safe to share between threads.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from autoscaler.clock import Clock
from autoscaler.errors import Conflict, Gone
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.writes import EventRecord, Texts
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node, Taint
from autoscaler.objects.pod import Pod

NodeChanged = Callable[[Node | None, Node | None], None]
PodChanged = Callable[[Pod | None, Pod | None], None]


class MemoryCluster:
    """Nodes by name and pods by `namespace/name`, in the order of their creation; notifies one listener of each."""

    def __init__(self, node_changed: NodeChanged, pod_changed: PodChanged) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self._node_changed = node_changed
        self._pod_changed = pod_changed

    def put_node(self, node: Node) -> None:
        """Add a node, or replace the one of that name."""
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        self._node_changed(old, node)

    def put_pod(self, pod: Pod) -> None:
        """Add a pod, or replace the one of that name."""
        old = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        self._pod_changed(old, pod)

    def remove_pod(self, key: str) -> None:
        """Remove a pod; succeeds if it does not exist."""
        old = self.pods.pop(key, None)
        if old is not None:
            self._pod_changed(old, None)

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Remove nodes together with their pods; succeeds for nodes that do not exist."""
        removed = {name for name in names if name in self.nodes}
        if not removed:
            return
        for key in [key for key, pod in self.pods.items() if pod.node in removed]:
            self.remove_pod(key)
        for name in sorted(removed):
            self._node_changed(self.nodes.pop(name), None)


class WriteRecord(msgspec.Struct, frozen=True):
    """One write that changed something. `at_s` is Unix seconds, `target` a node's name or `namespace/name`."""

    at_s: float
    verb: str
    target: str
    detail: str = ""


class MemoryWrites:
    """`kube.writes.ClusterWrites` on a `MemoryCluster`. Objects other than nodes and pods are stored unchanged."""

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        self.log: list[WriteRecord] = []
        self.events: dict[str, EventRecord] = {}
        """By namespace and name."""
        self.objects: dict[ObjectRef, JsonObject] = {}
        self._cluster = cluster
        self._clock = clock

    def evict(self, namespace: str, name: str, uid: str, grace_s: int | None) -> None:
        """Evict the pod of that uid: it is gone at once."""
        self._remove_pod("evict", f"{namespace}/{name}", uid)

    def delete_pod(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> None:
        """Delete the pod of that uid."""
        self._remove_pod("deletePod", f"{namespace}/{name}", uid)

    def add_taint(self, node: str, taint: Taint, *, cordon: bool = False) -> bool:
        """Taint the node and, if asked, cordon it; return False if nothing changed."""
        node_object = self._node(node)
        tainted = any(known.key == taint.key and known.effect == taint.effect for known in node_object.taints)
        taints = node_object.taints if tainted else (*node_object.taints, taint)
        return self._put(
            "addTaint", node_object, str(taint), taints=taints, unschedulable=node_object.unschedulable or cordon
        )

    def remove_taint(self, node: str, key: str, *, uncordon: bool = False) -> bool:
        """Remove the taints of that key and, if there were any and it is asked for, uncordon the node."""
        node_object = self._cluster.nodes.get(node)
        if node_object is None or node_object.taint(key) is None:
            return False
        taints = tuple(taint for taint in node_object.taints if taint.key != key)
        return self._put(
            "removeTaint", node_object, key, taints=taints, unschedulable=node_object.unschedulable and not uncordon
        )

    def annotate_node(self, node: str, annotations: Mapping[str, str | None]) -> bool:
        """Set annotations (None removes one); return False if nothing changed."""
        node_object = self._node(node)
        merged = {key: value for key, value in {**node_object.annotations, **annotations}.items() if value is not None}
        return self._put("annotate", node_object, ", ".join(sorted(annotations)), annotations=merged)

    def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]) -> None:
        """Record the write only: classes of pods, which include their annotations, stay as they are."""
        pod = self._cluster.pods.get(f"{namespace}/{name}")
        if pod is None or (uid and pod.uid != uid):
            raise Gone(f"there is no pod {namespace}/{name} of uid {uid}")
        self._record_write("annotatePod", pod.key, ", ".join(sorted(annotations)))

    def create_event(self, event: EventRecord) -> None:
        """Store a new event."""
        self.events[f"{event.namespace}/{event.name}"] = event

    def repeat_event(self, event: EventRecord) -> None:
        """Update a stored event."""
        self.create_event(event)

    def put_config_map(self, namespace: str, name: str, data: Texts, annotations: Texts | None = None) -> str:
        """Create the ConfigMap, or put `data` into it (None removes an entry); the rest stays. It has no uid."""
        current = self.objects.get(ObjectRef("v1", "ConfigMap", name, namespace), {})
        metadata = current.get("metadata", {"name": name, "namespace": namespace})
        changed = {**metadata.get("annotations", {}), **(annotations or {})}
        merged_annotations = {key: text for key, text in changed.items() if text is not None}
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "annotations": merged_annotations},
        }
        merged = {key: text for key, text in {**current.get("data", {}), **data}.items() if text is not None}
        self._store({**config_map, "data": merged})
        return ""

    def create(self, obj: Mapping[str, Any]) -> JsonObject:
        """Create an object; `Conflict` if the name is taken."""
        if (ref := _ref(obj)) in self.objects:
            raise Conflict(f"{ref.kind} {ref.name} exists already")
        return self._store(obj)

    def try_create(self, obj: Mapping[str, Any]) -> JsonObject:
        """Return the object as it is: nothing is defaulted here."""
        return dict(obj)

    def replace(self, obj: Mapping[str, Any]) -> JsonObject:
        """Replace an object; `Gone` if there is none."""
        if (ref := _ref(obj)) not in self.objects:
            raise Gone(f"there is no {ref.kind} {ref.name}")
        return self._store(obj)

    def apply(self, obj: Mapping[str, Any]) -> JsonObject:
        """Create the object or replace it."""
        return self._store(obj)

    def edit_status(self, ref: ObjectRef, uid: str, change: Callable[[JsonObject], bool]) -> bool:
        """Let `change` alter the object's status; `Gone` if the object of that uid is not there."""
        current = self.objects.get(ref)
        if current is None or (uid and current["metadata"].get("uid") != uid):
            raise Gone(f"there is no {ref.kind} {ref.name} of uid {uid}")
        changed = copy.deepcopy(current)
        if not change(changed):
            return False
        version = int(current["metadata"].get("resourceVersion") or 0) + 1
        metadata = {**current["metadata"], "resourceVersion": str(version)}
        self._store({**current, "metadata": metadata, "status": changed.get("status") or {}})
        return True

    def delete(self, ref: ObjectRef, uid: str | None = None, resource_version: str | None = None) -> None:
        """Delete an object; `Gone` if there is none. The pods of a node are deleted with it."""
        if ref.kind == "Node":
            node_object = self._node(ref.name)
            if uid and node_object.uid != uid:
                raise Gone(f"there is no node {ref.name} of uid {uid}")
            self._cluster.remove_nodes([ref.name])
        elif ref.kind == "Pod":
            self._remove_pod("deletePod", f"{ref.namespace}/{ref.name}", uid or "")
            return
        elif self.objects.pop(ref, None) is None:
            raise Gone(f"there is no {ref.kind} {ref.name}")
        self._record_write(f"delete{ref.kind}", ref.name)

    def _node(self, name: str) -> Node:
        node = self._cluster.nodes.get(name)
        if node is None:
            raise Gone(f"there is no node {name}")
        return node

    def _put(self, verb: str, node_object: Node, detail: str, **fields: Any) -> bool:
        changed = msgspec.structs.replace(node_object, **fields)
        if changed == node_object:
            return False
        self._cluster.put_node(changed)
        self._record_write(verb, node_object.name, detail)
        return True

    def _remove_pod(self, verb: str, key: str, uid: str) -> None:
        pod = self._cluster.pods.get(key)
        if pod is None or (uid and pod.uid != uid):
            raise Gone(f"there is no pod {key} of uid {uid}")
        self._cluster.remove_pod(key)
        self._record_write(verb, key, pod.node or "")

    def _store(self, obj: Mapping[str, Any]) -> JsonObject:
        stored = dict(obj)
        ref = _ref(stored)
        self.objects[ref] = stored
        self._record_write(f"put{ref.kind}", f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name)
        return stored

    def _record_write(self, verb: str, target: str, detail: str = "") -> None:
        self.log.append(WriteRecord(self._clock.now().wall, verb, target, detail))


def _ref(obj: Mapping[str, Any]) -> ObjectRef:
    metadata = obj["metadata"]
    return ObjectRef(obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace", ""))
