"""What removals report: to people as events, to metrics as counts."""

from typing import Protocol

from autoscaler.actuation.removal_outcome import AbortReason
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
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


class SilentRemovalListener:
    """A `RemovalListener` that does not listen."""

    def deletions_pending(self, nodes: int) -> None:
        """Ignore it."""

    def pod_evicted(self, succeeded: bool) -> None:
        """Ignore it."""

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        """Ignore it."""

    def removal_failed(self, why: str) -> None:
        """Ignore it."""


class RemovalEvents(Protocol):
    """Hears what happens in the course of removals, and lets a listener count it. Called from many threads."""

    @property
    def listener(self) -> RemovalListener:
        """Who counts."""
        ...

    def tainted(self, node: Node) -> None:
        """A node was tainted for deletion."""
        ...

    def taint_failed(self, node: Node, error: str) -> None:
        """A node could not be tainted."""
        ...

    def started(self, removal: Removal) -> None:
        """The removal of a node begins."""
        ...

    def removed(self, removal: Removal) -> None:
        """The cloud deletes the node's machine."""
        ...

    def aborted(self, removal: Removal, why: AbortReason, message: str) -> None:
        """A removal that had begun was given up."""
        ...

    def evicting(self, pod: Pod) -> None:
        """A pod is about to be evicted."""
        ...

    def evicted(self) -> None:
        """A pod was evicted."""
        ...

    def eviction_failed(self, pod: Pod, error: str) -> None:
        """A pod that has to go could not be evicted in time."""
        ...

    def cleaned_up(self, node: Node, taint: str) -> None:
        """A taint that an earlier process left was removed."""
        ...

    def clean_up_failed(self, node: Node, taint: str, error: str) -> None:
        """A taint that an earlier process left could not be removed."""
        ...
