"""The cloud of a dry run: reads everything, changes nothing, and counts the withheld changes."""

from collections.abc import Sequence

from autoscaler.actuation.cloud import Cloud, DeleteResult
from autoscaler.scaleup.plan import Resized
from cloudprovider.interface import InstanceError, NodeRef


class DryRunCloud(Cloud):
    """A `Cloud` whose changes stay on paper."""

    withheld = 0
    """Calls that a real run would have made."""

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
        """Ask nothing: what a provider writes back to find out is written all the same."""

    def close(self) -> None:
        """Leave the provider's state alone: cleaning up is a change too."""

    def _withhold(self, group_id: str, delta: int) -> Resized:
        self.withheld += 1
        size = self.targets([group_id]).get(group_id, 0)
        return Resized(group=group_id, before=size, wanted=size + delta, after=size)
