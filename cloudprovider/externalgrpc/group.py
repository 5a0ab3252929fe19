"""One node group of a gRPC server, with its last known state."""

from collections.abc import Callable, Sequence

import msgspec

from cloudprovider.externalgrpc import protocol
from cloudprovider.externalgrpc.calls import Calls
from cloudprovider.interface import GroupSettings, Instance, NodeRef, NodeTemplate, ProviderError


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group's state as the server reported it."""

    min_size: int
    max_size: int
    target_size: int
    instances: tuple[Instance, ...]
    template: NodeTemplate | None = None
    settings: GroupSettings = GroupSettings()


class ExternalGroup:
    """A `NodeGroup` with `GroupOptions`. The state is read again after a change, so that nothing is requested twice."""

    def __init__(
        self, group_id: str, state: GroupState, calls: Calls, changed: Callable[[str, Sequence[Instance]], None]
    ) -> None:
        """`changed` is called with the group's instances after a change."""
        self.id = group_id
        self.state: GroupState | None = state
        self._seen = state
        self._calls = calls
        self._changed = changed

    @property
    def min_size(self) -> int:
        """As the server said in the last refresh."""
        return self._seen.min_size

    @property
    def max_size(self) -> int:
        """As the server said in the last refresh."""
        return self._seen.max_size

    def take(self, state: GroupState) -> None:
        """Replace the state."""
        self._seen = self.state = state

    def target_size(self) -> int:
        """Return the target. Reads it again after a change."""
        return self._current().target_size

    def instances(self) -> Sequence[Instance]:
        """Return the instances. Reads them again after a change."""
        return self._current().instances

    def template(self) -> NodeTemplate | None:
        """Return the server's template; None if it has no such call."""
        return self._seen.template

    def settings(self) -> GroupSettings:
        """Return the server's options; no overrides if it has no such call."""
        return self._seen.settings

    def increase(self, delta: int) -> None:
        """Let the server raise the target."""
        if not 0 < delta <= self.max_size - self.target_size():
            raise ProviderError(f"{self.id}: {delta} more than {self.target_size()} are above {self.max_size}")
        self._change("NodeGroupIncreaseSize", {"id": self.id, "delta": delta})

    def decrease_target(self, delta: int) -> None:
        """Let the server cancel requests. On the wire, the change is a negative number."""
        if delta <= 0:
            raise ProviderError(f"{self.id}: the target cannot be lowered by {delta}")
        self._change("NodeGroupDecreaseTargetSize", {"id": self.id, "delta": -delta})

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        """Let the server delete machines, after checking the rules of the contract, which not every server does."""
        self.state = None
        mine = {instance.provider_id for instance in self.instances()}
        if strangers := [node.name for node in nodes if node.provider_id not in mine]:
            raise ProviderError(f"{self.id}: has no machine for {', '.join(strangers)}")
        if self.target_size() - len(nodes) < self.min_size:
            raise ProviderError(f"{self.id}: {len(nodes)} fewer than {self.target_size()} are below {self.min_size}")
        asked = [protocol.node_fields(node) for node in nodes]
        self._change("NodeGroupDeleteNodes", {"id": self.id, "nodes": asked})

    def _change(self, method: str, fields: dict[str, object]) -> None:
        self.state = None  # also where the call fails: it may have been done all the same
        self._calls(method, fields)

    def _current(self) -> GroupState:
        state = self.state
        if state is None:
            target = self._calls("NodeGroupTargetSize", {"id": self.id}).get("targetSize", 0)
            listed = self._calls("NodeGroupNodes", {"id": self.id}).get("instances", [])
            instances = tuple(protocol.instance_of(fields) for fields in listed)
            state = msgspec.structs.replace(self._seen, target_size=target, instances=instances)
            self.state = state
            self._changed(self.id, instances)
        return state
