"""What removals report: events for people, counts for metrics."""

from typing import Protocol

from autoscaler.actuation.removal_outcome import AbortReason
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import RemovedAs
from autoscaler.scaledown.plan import Removal


class RemovalListener(Protocol):
    """Counts removals; called from many threads, must return quickly."""

    def deletions_pending(self, nodes: int) -> None:
        """Count removals that are about to begin; `nodes` earlier removals are still in progress."""
        ...

    def pod_evicted(self, succeeded: bool) -> None:
        """Count the eviction of a pod."""
        ...

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        """Count a node whose machine the cloud is deleting."""
        ...

    def removal_failed(self, why: str) -> None:
        """Count a removal that was aborted."""
        ...

    def machine_left(self, left: int, remained: int) -> None:
        """Count the pods of a node whose machine left by itself: those that had left before, and those that had not."""
        ...


class SilentRemovalListener:
    """A `RemovalListener` that counts nothing."""

    def deletions_pending(self, nodes: int) -> None:
        """Do nothing."""

    def pod_evicted(self, succeeded: bool) -> None:
        """Do nothing."""

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        """Do nothing."""

    def removal_failed(self, why: str) -> None:
        """Do nothing."""

    def machine_left(self, left: int, remained: int) -> None:
        """Do nothing."""


class RemovalEvents(Protocol):
    """Receives the events of removals, and passes counts to a listener. Called from many threads."""

    @property
    def listener(self) -> RemovalListener:
        """The listener that counts."""
        ...

    def tainted(self, node: Node) -> None:
        """Report that a node was tainted for deletion."""
        ...

    def taint_failed(self, node: Node, error: str) -> None:
        """Report that a node could not be tainted."""
        ...

    def started(self, removal: Removal) -> None:
        """Report that the removal of a node begins."""
        ...

    def removed(self, removal: Removal) -> None:
        """Report that the cloud is deleting the node's machine."""
        ...

    def aborted(self, removal: Removal, why: AbortReason, message: str) -> None:
        """Report that a removal in progress was aborted."""
        ...

    def evicting(self, pod: Pod) -> None:
        """Report that a pod is about to be evicted."""
        ...

    def evicted(self) -> None:
        """Report that a pod was evicted."""
        ...

    def eviction_failed(self, pod: Pod, error: str) -> None:
        """Report that a pod could not be evicted in time."""
        ...

    def overruled(self, removal: Removal, pod: Pod, forbids: str) -> None:
        """Report that a pod was deleted although a disruption budget forbids it; `forbids` names the budget."""
        ...

    def cleaned_up(self, node: Node, taint: str) -> None:
        """Report that a taint of an earlier process was removed."""
        ...

    def clean_up_failed(self, node: Node, taint: str, error: str) -> None:
        """Report that a taint of an earlier process could not be removed."""
        ...
