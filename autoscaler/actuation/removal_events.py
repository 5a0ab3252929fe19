"""What people and metrics hear of removals; wording as Cluster Autoscaler's, so that alerts on it keep working."""

from typing import Protocol

from autoscaler.actuation.removal_outcome import AbortReason, removed_as
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.ports import EventSink, EventType, Subject
from autoscaler.reasons import RemovedAs
from autoscaler.scaledown.plan import Removal


class RemovalListener(Protocol):
    """Counts; called from many threads, must be quick."""

    def deletions_pending(self, nodes: int) -> None:
        """Removals are about to begin; so many of earlier ones have not ended."""
        ...

    def pod_evicted(self, succeeded: bool) -> None:
        """The eviction of a pod ended."""
        ...

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        """The cloud deletes a node's machine."""
        ...

    def removal_failed(self, why: str) -> None:
        """A removal that had begun was given up."""
        ...


class RemovalEventWriter:
    """Sends events about nodes, their pods and, where `status` is given, about the status object."""

    def __init__(self, events: EventSink, listener: RemovalListener, status: Subject | None) -> None:
        self._events = events
        self._status = status
        self.listener = listener

    def marked(self, node: Node) -> None:
        """A node was tainted for deletion."""
        self._on_node(node, "ScaleDown", "marked the node as toBeDeleted/unschedulable")

    def not_marked(self, node: Node, error: str) -> None:
        """A node could not be tainted."""
        self._on_node(node, "ScaleDownFailed", f"failed to mark the node as toBeDeleted/unschedulable: {error}")

    def begun(self, removal: Removal) -> None:
        """The removal of a node begins."""
        if not removal.drained:
            self._on_status("ScaleDownEmpty", f'Scale-down: removing empty node "{removal.node.name}"')
            return
        used = "unknown" if removal.utilization is None else f"{removal.utilization:g}"
        pods = ",".join(pod.name for pod in removal.pods)
        text = f"Scale-down: removing node {removal.node.name}, utilization: {used}, pods to reschedule: {pods}"
        self._on_status("ScaleDown", text)

    def removed(self, removal: Removal) -> None:
        """The cloud deletes the node's machine."""
        self._on_node(removal.node, "ScaleDown", "nodes removed by cluster autoscaler")
        name = removal.node.name
        if removal.drained:
            self._on_status("ScaleDown", f"Scale-down: node {name} removed with drain")
        else:
            self._on_status("ScaleDownEmpty", f"Scale-down: empty node {name} removed")
        self.listener.node_removed(removal.group, removal.node, removed_as(removal))

    def aborted(self, removal: Removal, why: AbortReason, message: str) -> None:
        """A removal that had begun was given up."""
        self.listener.removal_failed(why)
        what = "drain and delete node" if removal.drained else "delete empty node"
        self._on_node(removal.node, "ScaleDownFailed", f"failed to {what}: {message}")

    def evicting(self, pod: Pod) -> None:
        """A pod is about to be evicted."""
        self._events.event(_of_pod(pod), EventType.NORMAL, "ScaleDown", "deleting pod for node scale down")

    def evicted(self) -> None:
        """A pod was evicted."""
        self.listener.pod_evicted(True)

    def not_evicted(self, pod: Pod, error: str) -> None:
        """A pod that has to go could not be evicted in time."""
        text = f"failed to delete pod for ScaleDown: {error}"
        self._events.event(_of_pod(pod), EventType.WARNING, "ScaleDownFailed", text)
        self.listener.pod_evicted(False)

    def cleaned(self, node: Node, taint: str) -> None:
        """A taint that an earlier process left was removed."""
        self._on_node(node, "ClusterAutoscalerCleanup", f"removed {taint} taint from node {node.name}")

    def not_cleaned(self, node: Node, taint: str, error: str) -> None:
        """A taint that an earlier process left could not be removed."""
        text = f"failed to clean {taint} on node {node.name}: {error}"
        self._events.event(_of_node(node), EventType.WARNING, "ClusterAutoscalerCleanup", text)

    def _on_node(self, node: Node, reason: str, message: str) -> None:
        kind = EventType.WARNING if reason == "ScaleDownFailed" else EventType.NORMAL
        self._events.event(_of_node(node), kind, reason, message)

    def _on_status(self, reason: str, message: str) -> None:
        if self._status is not None:
            self._events.event(self._status, EventType.NORMAL, reason, message)


def _of_node(node: Node) -> Subject:
    return Subject(kind="Node", name=node.name, uid=node.uid)


def _of_pod(pod: Pod) -> Subject:
    return Subject(kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
