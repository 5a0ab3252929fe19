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
from autoscaler.kube.writes import EventRecord
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node, Taint
from autoscaler.objects.pod import Pod

NodeChanged = Callable[[Node | None, Node | None], None]
PodChanged = Callable[[Pod | None, Pod | None], None]


class MemoryCluster:
    """Nodes by name and pods by `namespace/name`, in the order in which they came; tells one listener each."""

    def __init__(self, node_changed: NodeChanged, pod_changed: PodChanged) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self._node_changed = node_changed
        self._pod_changed = pod_changed

    def put_node(self, node: Node) -> None:
        """Add a node, or put it in the place of the one of that name."""
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        self._node_changed(old, node)

    def put_pod(self, pod: Pod) -> None:
        """Add a pod, or put it in the place of the one of that name."""
        old = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        self._pod_changed(old, pod)

    def remove_pod(self, key: str) -> None:
        """Remove a pod; one that is not there is fine."""
        old = self.pods.pop(key, None)
        if old is not None:
            self._pod_changed(old, None)

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Remove nodes together with the pods on them; those that are not there are fine."""
        going = {name for name in names if name in self.nodes}
        if not going:
            return
        for key in [key for key, pod in self.pods.items() if pod.node in going]:
            self.remove_pod(key)
        for name in sorted(going):
            self._node_changed(self.nodes.pop(name), None)


class WriteRecord(msgspec.Struct, frozen=True):
    """One write that changed something. `at_s` is Unix seconds, `target` a node's name or `namespace/name`."""

    at_s: float
    verb: str
    target: str
    detail: str = ""


class MemoryWrites:
    """`kube.writes.ClusterWrites` on a `MemoryCluster`. Objects that are no nodes or pods are kept as they come."""

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
        """Taint the node and, if asked, cordon it; False if it was so already."""
        known = self._node(node)
        tainted = any(one.key == taint.key and one.effect == taint.effect for one in known.taints)
        taints = known.taints if tainted else (*known.taints, taint)
        return self._put("addTaint", known, str(taint), taints=taints, unschedulable=known.unschedulable or cordon)

    def remove_taint(self, node: str, key: str, *, uncordon: bool = False) -> bool:
        """Remove the taints of that key and, if there were any and it is asked for, uncordon the node."""
        known = self._cluster.nodes.get(node)
        if known is None or known.taint(key) is None:
            return False
        taints = tuple(taint for taint in known.taints if taint.key != key)
        return self._put("removeTaint", known, key, taints=taints, unschedulable=known.unschedulable and not uncordon)

    def annotate_node(self, node: str, annotations: Mapping[str, str | None]) -> bool:
        """Set annotations (None removes one); False if they were so already."""
        known = self._node(node)
        wanted = {key: value for key, value in {**known.annotations, **annotations}.items() if value is not None}
        return self._put("annotate", known, ", ".join(sorted(annotations)), annotations=wanted)

    def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]) -> None:
        """Note it; classes of pods, which have their annotations, stay as they are."""
        pod = self._cluster.pods.get(f"{namespace}/{name}")
        if pod is None or (uid and pod.uid != uid):
            raise Gone(f"there is no pod {namespace}/{name} of uid {uid}")
        self._note("annotatePod", pod.key, ", ".join(sorted(annotations)))

    def create_event(self, event: EventRecord) -> None:
        """Store a new event."""
        self.events[f"{event.namespace}/{event.name}"] = event

    def repeat_event(self, event: EventRecord) -> None:
        """Update a stored event."""
        self.create_event(event)

    def put_config_map(
        self, namespace: str, name: str, data: Mapping[str, str], annotations: Mapping[str, str] | None = None
    ) -> str:
        """Create the ConfigMap, or put `data` into it; other data and annotations stay. It has no uid."""
        held = self.objects.get(ObjectRef("v1", "ConfigMap", name, namespace), {})
        metadata = held.get("metadata", {"name": name, "namespace": namespace})
        noted = {**metadata.get("annotations", {}), **(annotations or {})}
        fresh = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "annotations": noted}}
        self._keep({**fresh, "data": {**held.get("data", {}), **data}})
        return ""

    def create(self, obj: Mapping[str, Any]) -> JsonObject:
        """Create an object; `Conflict` if the name is taken."""
        if (ref := _ref(obj)) in self.objects:
            raise Conflict(f"{ref.kind} {ref.name} exists already")
        return self._keep(obj)

    def replace(self, obj: Mapping[str, Any]) -> JsonObject:
        """Replace an object; `Gone` if there is none."""
        if (ref := _ref(obj)) not in self.objects:
            raise Gone(f"there is no {ref.kind} {ref.name}")
        return self._keep(obj)

    def apply(self, obj: Mapping[str, Any]) -> JsonObject:
        """Make the object so."""
        return self._keep(obj)

    def edit_status(self, ref: ObjectRef, uid: str, change: Callable[[JsonObject], bool]) -> bool:
        """Let `change` alter the object's status; `Gone` if the object of that uid is not there."""
        held = self.objects.get(ref)
        if held is None or (uid and held["metadata"].get("uid") != uid):
            raise Gone(f"there is no {ref.kind} {ref.name} of uid {uid}")
        changed = copy.deepcopy(held)
        if not change(changed):
            return False
        version = int(held["metadata"].get("resourceVersion") or 0) + 1
        metadata = {**held["metadata"], "resourceVersion": str(version)}
        self._keep({**held, "metadata": metadata, "status": changed.get("status") or {}})
        return True

    def delete(self, ref: ObjectRef, uid: str | None = None, resource_version: str | None = None) -> None:
        """Delete an object; `Gone` if there is none. A node takes its pods along."""
        if ref.kind == "Node":
            known = self._node(ref.name)
            if uid and known.uid != uid:
                raise Gone(f"there is no node {ref.name} of uid {uid}")
            self._cluster.remove_nodes([ref.name])
        elif ref.kind == "Pod":
            self._remove_pod("deletePod", f"{ref.namespace}/{ref.name}", uid or "")
            return
        elif self.objects.pop(ref, None) is None:
            raise Gone(f"there is no {ref.kind} {ref.name}")
        self._note(f"delete{ref.kind}", ref.name)

    def _node(self, name: str) -> Node:
        node = self._cluster.nodes.get(name)
        if node is None:
            raise Gone(f"there is no node {name}")
        return node

    def _put(self, verb: str, known: Node, detail: str, **fields: Any) -> bool:
        changed = msgspec.structs.replace(known, **fields)
        if changed == known:
            return False
        self._cluster.put_node(changed)
        self._note(verb, known.name, detail)
        return True

    def _remove_pod(self, verb: str, key: str, uid: str) -> None:
        pod = self._cluster.pods.get(key)
        if pod is None or (uid and pod.uid != uid):
            raise Gone(f"there is no pod {key} of uid {uid}")
        self._cluster.remove_pod(key)
        self._note(verb, key, pod.node or "")

    def _keep(self, obj: Mapping[str, Any]) -> JsonObject:
        kept = dict(obj)
        ref = _ref(kept)
        self.objects[ref] = kept
        self._note(f"put{ref.kind}", f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name)
        return kept

    def _note(self, verb: str, target: str, detail: str = "") -> None:
        self.log.append(WriteRecord(self._clock.now().wall, verb, target, detail))


def _ref(obj: Mapping[str, Any]) -> ObjectRef:
    metadata = obj["metadata"]
    return ObjectRef(obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace", ""))
