"""The cloud of a dry run: reads everything, changes nothing, and counts the withheld changes."""

from collections.abc import Sequence

from autoscaler.actuation.cloud import Cloud, DeleteResult
from autoscaler.scaleup.plan import Resized
from cloudprovider.interface import InstanceError, NodeRef


class DryRunCloud(Cloud):
    """A `Cloud` that reads, and only counts changes."""

    withheld = 0
    """Number of calls that a real run would have made."""

    def increase(self, group_id: str, delta: int, *, expected: int, atomic: bool = False) -> Resized:
        """Count the call; the target stays."""
        return self._withhold(group_id, delta)

    def decrease_target(self, group_id: str, delta: int) -> Resized:
        """Count the call; the target stays."""
        return self._withhold(group_id, -delta)

    def delete_instances(
        self, group_id: str, provider_ids: Sequence[str], reason: str, *, force: bool = False
    ) -> InstanceError | None:
        """Count the call; the machines stay."""
        self.withheld += 1
        return None

    def delete_nodes(self, group_id: str, nodes: Sequence[NodeRef], *, force: bool = False) -> DeleteResult:
        """Count the call; the machines stay."""
        self.withheld += 1
        return DeleteResult(frozenset(node.name for node in nodes))

    def prepare_delete(self, group_id: str, nodes: Sequence[NodeRef]) -> None:
        """Do nothing: a provider may write to the cluster to find out."""

    def close(self) -> None:
        """Do nothing: cleaning up would change the provider's state."""

    def _withhold(self, group_id: str, delta: int) -> Resized:
        self.withheld += 1
        size = self.targets([group_id]).get(group_id, 0)
        return Resized(group=group_id, before=size, wanted=size + delta, after=size)
