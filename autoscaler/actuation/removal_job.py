"""One removal in progress, and the port that checks whether it may continue."""

from collections.abc import Sequence
from typing import Protocol

from autoscaler.actuation.deletion_batcher import AtomicBatch
from autoscaler.actuation.removal_outcome import Eviction
from autoscaler.actuation.taints import DeletionTaint
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import DisruptionBudget
from autoscaler.scaledown.plan import Removal
from autoscaler.snapshot.cluster import Related


class FreshReader(Protocol):
    """Reads the current cluster, past every cache; raises `RetryLater` or `Refused` if the API server does not answer.

    Only `related` and `last_seen` answer from the watch caches; they never raise.
    """

    def node(self, name: str) -> Node | None:
        """Return the node; None where there is none."""
        ...

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Return every pod bound to the node, whatever its phase."""
        ...

    def budgets(self) -> Sequence[DisruptionBudget]:
        """Return all disruption budgets."""
        ...

    def related(self) -> Related | None:
        """Return controllers as the watches last showed them; None if they must not be checked."""
        ...

    def last_seen(self, name: str) -> Node | None:
        """Return the node as the watch last showed it."""
        ...


class RemovalJob:
    """A removal, the taint that announced it, and the steps done so far. One thread at a time works on it."""

    def __init__(self, removal: Removal, mark: DeletionTaint, batch: AtomicBatch["RemovalJob"] | None) -> None:
        self.removal = removal
        self.mark = mark
        self.batch = batch
        """The batch of the group, if the group is deleted as a whole."""
        self.evictions: list[Eviction] = []
        self.ended = False

    @property
    def name(self) -> str:
        """The node's name."""
        return self.removal.node.name
