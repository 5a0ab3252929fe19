"""Events about removals. The reasons are Cluster Autoscaler's, so alerts on them keep working."""

from autoscaler.actuation.removal_events import RemovalListener
from autoscaler.actuation.removal_outcome import AbortReason, removed_as
from autoscaler.loop.event_writer import about_node, about_pod
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.observe import event_texts
from autoscaler.ports import EventSink, EventType, Subject
from autoscaler.scaledown.plan import Removal


class RemovalEventWriter:
    """Sends events about nodes and their pods and, if `status` is given, about the status object."""

    def __init__(self, events: EventSink, listener: RemovalListener, status: Subject | None) -> None:
        self._events = events
        self._status = status
        self.listener = listener

    def tainted(self, node: Node) -> None:
        """Report that a node was tainted for deletion."""
        self._on_node(node, "ScaleDown", event_texts.NODE_MARKED)

    def taint_failed(self, node: Node, error: str) -> None:
        """Report that a node could not be tainted."""
        self._on_node(node, "ScaleDownFailed", event_texts.node_not_marked(error))

    def started(self, removal: Removal) -> None:
        """Report that the removal of a node begins."""
        reason = "ScaleDown" if removal.drained else "ScaleDownEmpty"
        self._on_status(reason, event_texts.removing(removal))

    def removed(self, removal: Removal) -> None:
        """Report that the cloud is deleting the node's machine."""
        self._on_node(removal.node, "ScaleDown", event_texts.NODE_REMOVED)
        reason = "ScaleDown" if removal.drained else "ScaleDownEmpty"
        self._on_status(reason, event_texts.removed(removal))
        self.listener.node_removed(removal.group, removal.node, removed_as(removal))

    def aborted(self, removal: Removal, why: AbortReason, message: str) -> None:
        """Report that a removal in progress was aborted."""
        self.listener.removal_failed(why)
        self._on_node(removal.node, "ScaleDownFailed", event_texts.removal_aborted(removal, message))

    def evicting(self, pod: Pod) -> None:
        """Report that a pod is about to be evicted."""
        self._events.event(about_pod(pod), EventType.NORMAL, "ScaleDown", event_texts.EVICTING)

    def evicted(self) -> None:
        """Report that a pod was evicted."""
        self.listener.pod_evicted(True)

    def eviction_failed(self, pod: Pod, error: str) -> None:
        """Report that a pod could not be evicted in time."""
        text = event_texts.not_evicted(error)
        self._events.event(about_pod(pod), EventType.WARNING, "ScaleDownFailed", text)
        self.listener.pod_evicted(False)

    def overruled(self, removal: Removal, pod: Pod, forbids: str) -> None:
        """Report that a pod was deleted although a disruption budget forbids it; `forbids` names the budget."""
        text = event_texts.budget_overruled(removal, pod, forbids)
        for about in (about_pod(pod), about_node(removal.node)):
            self._events.event(about, EventType.WARNING, "DisruptionBudgetOverruled", text)
        self.listener.pod_evicted(True)

    def cleaned_up(self, node: Node, taint: str) -> None:
        """Report that a taint of an earlier process was removed."""
        self._on_node(node, "ClusterAutoscalerCleanup", event_texts.taint_removed(node, taint))

    def clean_up_failed(self, node: Node, taint: str, error: str) -> None:
        """Report that a taint of an earlier process could not be removed."""
        text = event_texts.taint_not_removed(node, taint, error)
        self._events.event(about_node(node), EventType.WARNING, "ClusterAutoscalerCleanup", text)

    def _on_node(self, node: Node, reason: str, message: str) -> None:
        kind = EventType.WARNING if reason == "ScaleDownFailed" else EventType.NORMAL
        self._events.event(about_node(node), kind, reason, message)

    def _on_status(self, reason: str, message: str) -> None:
        if self._status is not None:
            self._events.event(self._status, EventType.NORMAL, reason, message)
