"""DaemonSets: one pod on every node that takes it."""

from collections.abc import Mapping

from autoscaler.clock import Instant
from autoscaler.objects.matching import wants_node
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node, TaintEffect, node_decoder
from autoscaler.objects.pod import PodClass
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.sandbox.actors.decoded_cluster import decoded
from autoscaler.sandbox.actors.event_recorder import Recorder
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.replicas import PodController, delete_pod, pod_for, report, scaled, template_hash
from autoscaler.sandbox.actors.wire import (
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    key_of,
    node_of,
    uid_of,
)
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.scheduling.placement import accepts

_SETS = "daemonsets.apps"
_HASH = "controller-revision-hash"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class DaemonSets(PodController):
    """The DaemonSet controller. As in real clusters, its pods name their node by affinity and the scheduler binds them.

    Updates delete old pods up to `maxUnavailable` at a time; surges are left out.
    """

    def __init__(self, storage: Storage, informers: SharedInformers, recorder: Recorder) -> None:
        self._decode_node = node_decoder().one
        self._decode_pod = PodInterner().decoder().one
        self._nodes: dict[str, Node] = {}
        self._classes: dict[Key, tuple[JsonObject, PodClass]] = {}
        super().__init__(storage, informers, recorder, _SETS)
        informers.informer("nodes").subscribe(self._node_changed)

    def _node_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        node = decoded(self._decode_node, new)
        if node is not None:
            known = self._nodes.get(node.name)
            self._nodes[node.name] = node
            if known is not None and (known.labels, known.taints) == (node.labels, node.taints):
                return
        elif old is not None:
            self._nodes.pop(old["metadata"]["name"], None)
        for key in self._owners.objects:
            self._queue.add(key)

    def _owner_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        super()._owner_changed(old, new)
        if new is None and old is not None:
            self._classes.pop(key_of(old), None)

    def _sync(self, key: Key, _now: Instant) -> None:
        owner = self._owners.objects.get(key)
        if owner is None or is_terminating(owner):
            return
        digest = template_hash(owner["spec"]["template"])
        cls = self._class_of(key, owner)
        by_node: dict[str, JsonObject] = {}
        misplaced: list[JsonObject] = []
        for pod in self._owned.of(uid_of(owner)).values():
            node = self._nodes.get(target_of(pod))
            if is_finished(pod) or node is None or node.name in by_node or not _may_stay(cls, node):
                misplaced.append(pod)
            else:
                by_node[node.name] = pod
        desired = [name for name, node in self._nodes.items() if name in by_node or accepts(cls, node)]
        for pod in misplaced:
            if not is_terminating(pod):
                delete_pod(self._storage, pod)
        for name in desired:
            if name not in by_node:
                self._storage.create("pods", _with_node_affinity(pod_for(owner, _pod_template(owner, digest)), name))
        self._replace(owner, by_node, digest, len(desired))
        self._report(owner, by_node, digest, len(desired))

    def _class_of(self, key: Key, owner: JsonObject) -> PodClass:
        """The class of the set's pods without the node; it decides which nodes need one."""
        template = owner["spec"]["template"]
        known = self._classes.get(key)
        if known is None or known[0] != template:
            pod = pod_for(owner, _pod_template(owner, ""), name="any")
            known = self._classes[key] = template, self._decode_pod(pod).cls
        return known[1]

    def _replace(self, owner: JsonObject, by_node: Mapping[str, JsonObject], digest: str, desired: int) -> None:
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        outdated = [pod for pod in by_node.values() if _revision_hash(pod) != digest and is_active(pod)]
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable")
        missing = desired - sum(_is_available(pod) for pod in by_node.values())
        removable = max(1, scaled(limit, desired, round_up=True, default=1)) - missing
        not_ready = [pod for pod in outdated if not is_ready(pod)]
        ready_pods = [pod for pod in outdated if is_ready(pod)]
        for pod in (*not_ready, *ready_pods[: max(0, removable)]):
            delete_pod(self._storage, pod)

    def _report(self, owner: JsonObject, by_node: Mapping[str, JsonObject], digest: str, desired: int) -> None:
        ready = sum(_is_available(pod) for pod in by_node.values())
        status = {
            "desiredNumberScheduled": desired,
            "currentNumberScheduled": len(by_node),
            "numberMisscheduled": 0,
            "numberReady": ready,
            "numberAvailable": ready,
            "numberUnavailable": desired - ready,
            "updatedNumberScheduled": sum(_revision_hash(pod) == digest for pod in by_node.values()),
            "observedGeneration": owner["metadata"]["generation"],
        }
        report(self._storage, _SETS, owner, status)


def target_of(pod: JsonObject) -> str:
    """The node that a daemon's pod is on, or is meant for."""
    if (bound := node_of(pod)) is not None:
        return bound
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""


def _is_available(pod: JsonObject) -> bool:
    return is_ready(pod) and not is_terminating(pod)


def _revision_hash(pod: JsonObject) -> str | None:
    return (pod["metadata"].get("labels") or {}).get(_HASH)


def _may_stay(cls: PodClass, node: Node) -> bool:
    """Whether a daemon may stay on the node; taints that only keep off new pods do not matter."""
    no_execute = (taint for taint in node.taints if taint.effect == TaintEffect.NO_EXECUTE)
    return wants_node(cls, node.labels, node.name) and all(cls.tolerates(taint) for taint in no_execute)


def _pod_template(owner: JsonObject, digest: str) -> JsonObject:
    """The set's template with the tolerations of a daemon and the label of its revision."""
    template = owner["spec"]["template"]
    spec = template["spec"]
    added = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    if spec.get("hostNetwork"):
        network = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}
        added.append(network)
    tolerations = [*(spec.get("tolerations") or ()), *added]
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), _HASH: digest}
    return {"metadata": {**metadata, "labels": labels}, "spec": {**spec, "tolerations": tolerations}}


def _with_node_affinity(pod: JsonObject, node: str) -> JsonObject:
    """The pod with a node affinity for one node only; the node satisfies the template's own affinity."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    with_node = {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), _REQUIRED: required}}
    return {**pod, "spec": {**spec, "affinity": with_node}}
