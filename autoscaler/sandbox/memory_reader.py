"""The final check before a deletion, on a cluster in memory."""

from collections.abc import Sequence

from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import DisruptionBudget
from autoscaler.sandbox.memory_cluster import MemoryCluster
from autoscaler.snapshot.cluster import Related


class MemoryReader:
    """An `actuation.removal_job.FreshReader` on a `MemoryCluster`; controllers and budgets stay as given."""

    def __init__(self, cluster: MemoryCluster, related: Related) -> None:
        self._cluster = cluster
        self._related = related

    def node(self, name: str) -> Node | None:
        """Return the node; None if it does not exist."""
        return self._cluster.nodes.get(name)

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Return every pod bound to the node."""
        return [pod for pod in self._cluster.pods.values() if pod.node == node]

    def budgets(self) -> Sequence[DisruptionBudget]:
        """Return all disruption budgets."""
        return tuple(self._related.budgets.values())

    def related(self) -> Related | None:
        """Return controllers."""
        return self._related

    def last_seen(self, name: str) -> Node | None:
        """Return the node: its data is never outdated here."""
        return self.node(name)
