"""The controller manager's work on nodes: condition taints, and pods of nodes that are gone.

Pods are not evicted from nodes that turn unreachable: in the sandbox such a node's machine is gone, and the node with
its pods follows within seconds.
"""

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.actors.wire import condition, key_of, node_of, spec_of
from autoscaler.sandbox.actors.workqueue import QueueActor, WorkQueue
from autoscaler.sandbox.apiserver.deletion import DeleteOptions
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage

_CONDITION_TAINTS = tuple(f"node.kubernetes.io/{word}" for word in ("not-ready", "unreachable", "unschedulable"))
_NO_SCHEDULE = "NoSchedule"


class NodeTaints(QueueActor[tuple[str]]):
    """Sets the taints for a node's condition and for a cordon."""

    def __init__(self, storage: Storage, informers: SharedInformers) -> None:
        self._storage = storage
        self._nodes = informers.informer("nodes")
        self._queue = WorkQueue()
        self._nodes.subscribe(self._changed)

    def _changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None and _present(new) != wanted_taints(new):
            self._queue.add((new["metadata"]["name"],))

    def _sync(self, key: tuple[str], _now: Instant) -> None:
        node = self._nodes.objects.get(("", key[0]))
        if node is None or _present(node) == (expected := wanted_taints(node)):
            return
        others = [taint for taint in spec_of(node).get("taints") or () if not _is_condition_taint(taint)]
        taints = [*others, *({"key": name, "effect": _NO_SCHEDULE} for name in sorted(expected))]
        # With the resource version, because another client may write taints at the same time.
        self._storage.update("nodes", {**node, "spec": {**spec_of(node), "taints": taints}})


def wanted_taints(node: JsonObject) -> frozenset[str]:
    """Keys of the taints that the node's condition and cordon call for."""
    ready = condition(node, "Ready")
    expected = set()
    if ready is not None and ready["status"] == "False":
        expected.add(_CONDITION_TAINTS[0])
    if ready is not None and ready["status"] == "Unknown":
        expected.add(_CONDITION_TAINTS[1])
    if spec_of(node).get("unschedulable"):
        expected.add(_CONDITION_TAINTS[2])
    return frozenset(expected)


def _present(node: JsonObject) -> frozenset[str]:
    return frozenset(taint["key"] for taint in spec_of(node).get("taints") or () if _is_condition_taint(taint))


def _is_condition_taint(taint: JsonObject) -> bool:
    return taint["key"] in _CONDITION_TAINTS and taint["effect"] == _NO_SCHEDULE


class OrphanedPods(QueueActor[Key]):
    """Removes pods that are bound to nodes that do not exist, as the pod garbage collector does."""

    def __init__(self, storage: Storage, informers: SharedInformers, timing: Timing) -> None:
        self._storage = storage
        self._orphan_s = timing.orphan_s
        self._nodes = informers.informer("nodes")
        self._pods = informers.informer("pods")
        self._on_node = self._pods.index(node_of)
        self._queue = WorkQueue()
        self._since: dict[Key, float] = {}
        self._pods.subscribe(self._pod_changed)
        self._nodes.subscribe(self._node_changed)

    def _pod_changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None and (node := node_of(new)) and ("", node) not in self._nodes.objects:
            self._queue.add(key_of(new))

    def _node_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None and old is not None:
            for key in self._on_node.of(old["metadata"]["name"]):
                self._queue.add(key)

    def _sync(self, key: Key, now: Instant) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or ("", node_of(pod) or "") in self._nodes.objects:
            self._since.pop(key, None)
            return
        due = self._since.setdefault(key, now.mono) + self._orphan_s
        if now.mono < due:
            self._queue.add_at(key, due)
            return
        self._since.pop(key, None)
        options = DeleteOptions(grace_s=0, uid=pod["metadata"]["uid"])
        self._storage.delete("pods", key[1], namespace=key[0], options=options)
