"""One removal under way, and the port through which its doubts are settled."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from autoscaler.actuation.batch import WholeBatch
from autoscaler.actuation.removal import Eviction, Removal
from autoscaler.actuation.taints import Mark
from autoscaler.clock import Instant
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import DisruptionBudget


class FreshReader(Protocol):
    """Reads the cluster as it is now, past every cache; raises `RetryLater` or `Refused` where it cannot be told."""

    def node(self, name: str) -> Node | None:
        """Return the node; None where there is none."""
        ...

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Return every pod bound to the node, whatever its phase."""
        ...

    def budgets(self) -> Sequence[DisruptionBudget]:
        """Return all disruption budgets."""
        ...

    def last_seen(self, name: str) -> Node | None:
        """Return the node as the watch last showed it: the one answer that may be old."""
        ...


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What the drainability rules say of the pods of one node."""

    move: tuple[Pod, ...] = ()
    """Pods that have to go elsewhere before the node goes."""
    daemons: tuple[Pod, ...] = ()
    """Pods of DaemonSets: they go with the node."""
    waits_for: Pod | None = None
    """A pod that has to run to its end first."""
    blocked_by: Pod | None = None
    detail: str = ""
    """For people: why that pod blocks."""


class Judge(Protocol):
    """The drainability rules, without what needs a whole snapshot. Safe to share between threads."""

    def __call__(self, node: Node, pods: Sequence[Pod], budgets: Sequence[DisruptionBudget], now: Instant) -> Judgement:
        """Judge the pods of a node; pods that never count (mirror, expendable, long terminating) are in no list."""
        ...


class Job:
    """A removal, the taint that announced it, and what has been done so far. One thread works on it at a time."""

    def __init__(self, removal: Removal, mark: Mark, batch: WholeBatch["Job"] | None) -> None:
        self.removal = removal
        self.mark = mark
        self.batch = batch
        """Where its group goes as a whole."""
        self.evictions: list[Eviction] = []
        self.ended = False

    @property
    def name(self) -> str:
        """The node's name."""
        return self.removal.node.name
