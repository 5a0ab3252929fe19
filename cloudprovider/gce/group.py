"""One managed instance group.

The target is read again before every increase and deletion, because the cache is as old as the pass. Machines are
added by name (`createInstances`), which can only add. A `resize` sets an absolute size, and would delete machines if
the target had grown in the meantime. It is used only for groups that take no names: regional groups, and groups whose
base name has a pattern.
"""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from cloudprovider.gce.client import Compute
from cloudprovider.gce.fleet import Fleet, GroupState
from cloudprovider.gce.reader import read_machines, read_manager
from cloudprovider.gce.refs import ID_ROOT, GroupRef, instance_path
from cloudprovider.gce.settings import Limits
from cloudprovider.interface import (
    GroupSettings,
    Instance,
    MachineVersion,
    NodeRef,
    NodeTemplate,
    NotFound,
    ProviderError,
    State,
)

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, as in generated Kubernetes names
_SUFFIX_LENGTH = 4
_MOST_AT_ONCE = 1000


class MigGroup:
    """A `NodeGroup` with `ForceDelete`, `GroupOptions` and `Versioned`."""

    def __init__(self, ref: GroupRef, limits: Limits, fleet: Fleet, client: Compute, rng: random.Random) -> None:
        self._ref = ref
        self._limits = limits
        self._fleet = fleet
        self._client = client
        self._rng = rng
        self._lock = threading.RLock()

    @property
    def id(self) -> str:
        """The URL of the instance group, as in Cluster Autoscaler."""
        return self._ref.id

    @property
    def min_size(self) -> int:
        """Never scaled below this."""
        return self._limits.min_size

    @property
    def max_size(self) -> int:
        """Never scaled above this."""
        return self._limits.max_size

    def target_size(self) -> int:
        """Desired size. Read from the cloud after a call with an unknown outcome."""
        return self._known().target

    def instances(self) -> Sequence[Instance]:
        """Every machine that the group manages, including those being created or deleted and those that failed."""
        return tuple(self._known().machines.values())

    def template(self) -> NodeTemplate | None:
        """Return the template from the instance template; None if it cannot be read or understood."""
        return self._fleet.state(self._ref).template

    def settings(self) -> GroupSettings:
        """Return the overrides in the instance template's `autoscaling_options`."""
        return self._fleet.state(self._ref).settings

    def versions(self) -> Sequence[MachineVersion]:
        """Return the instance templates; none if the group replaces older machines by itself (type PROACTIVE)."""
        return self._fleet.state(self._ref).manager.versions

    def increase(self, delta: int) -> None:
        """Order machines. With more than a thousand, those ordered before a failure count in the target."""
        if delta <= 0:
            raise ProviderError(f"{self.id}: an increase must be positive, not {delta}")
        with self._lock:
            state = self._with_fresh_target()
            if state.target + delta > self.max_size:
                raise ProviderError(f"{self.id}: {state.target} + {delta} is above the maximum size {self.max_size}")
            if _takes_no_names(state):
                self._resize(state, state.target + delta)
                return
            for batch in _batches(self._new_names(state, delta)):
                self._order(partial(self._client.create_instances, self._ref, batch))
                ids = [f"gce://{self._ref.place.project}/{self._ref.place.name}/{name}" for name in batch]
                coming = {provider_id: Instance(provider_id, State.CREATING) for provider_id in ids}
                state = self._note(state, state.target + len(batch), {**state.machines, **coming})

    def decrease_target(self, delta: int) -> None:
        """Cancel orders that have no machine yet; refuses to remove an existing machine."""
        if delta <= 0:
            raise ProviderError(f"{self.id}: a decrease must be positive, not {delta}")
        with self._lock:
            state = self._read_again()
            existing = sum(machine.state is not State.DELETING for machine in state.machines.values())
            if state.target - delta < existing:
                raise ProviderError(f"{self.id}: {state.target} - {delta} is below the {existing} machines that exist")
            self._resize(state, state.target - delta)

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete these machines, except those already being deleted. More than a thousand may be deleted in part."""
        self._delete(nodes, self.min_size)

    def force_delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete these machines, even below the minimum size."""
        self._delete(nodes, 0)

    def _delete(self, nodes: Sequence[NodeRef], least: int) -> None:
        with self._lock:
            state = self._read_again()
            asked = dict.fromkeys(self._own(node, state) for node in nodes)
            going = [provider_id for provider_id in asked if state.machines[provider_id].state is not State.DELETING]
            if going and state.target - len(going) < least:
                raise ProviderError(
                    f"{self.id}: deleting {len(going)} of {state.target} breaks the minimum size {self.min_size}"
                )
            for batch in _batches(going):
                urls = [f"{ID_ROOT}{instance_path(provider_id)}" for provider_id in batch]
                self._order(partial(self._client.delete_instances, self._ref, urls))
                leaving = {provider_id: Instance(provider_id, State.DELETING) for provider_id in batch}
                state = self._note(state, state.target - len(batch), {**state.machines, **leaving})

    def _own(self, node: NodeRef, state: GroupState) -> str:
        provider_id = node.provider_id or node.name
        if instance_path(provider_id) is None:
            raise ProviderError(f"{self.id}: node {node.name} is on no machine of Compute Engine")
        if provider_id not in state.machines:
            owner = self._fleet.snapshot.owners.get(provider_id, self._ref)
            if owner != self._ref:
                raise ProviderError(f"{self.id}: node {node.name} belongs to {owner.id}")
            raise NotFound(f"{self.id}: there is no machine {provider_id}")
        return provider_id

    def _resize(self, state: GroupState, size: int) -> None:
        """Set the target. The cloud decides which machines come or go, so they are read again before their next use."""
        # Suspended machines count in the target, and have a size of their own in the cloud.
        self._order(partial(self._client.resize, self._ref, size - state.manager.suspended))
        self._fleet.change(self._ref, certain=False)

    def _order(self, send: Callable[[], None]) -> None:
        """Send an order. A failed order may have taken effect, so the state is read again before its next use."""
        try:
            send()
        except ProviderError:
            with contextlib.suppress(NotFound):
                self._fleet.change(self._ref, certain=False)
            raise

    def _note(self, state: GroupState, target: int, machines: Mapping[str, Instance]) -> GroupState:
        manager = msgspec.structs.replace(state.manager, target=target)
        return self._fleet.change(self._ref, manager=manager, machines=machines)

    def _known(self) -> GroupState:
        state = self._fleet.state(self._ref)
        if state.certain:
            return state
        with self._lock:
            return self._read_again()

    def _with_fresh_target(self) -> GroupState:
        """Return the state with the target as it is now."""
        if not self._fleet.state(self._ref).certain:
            return self._read_again()
        return self._fleet.change(self._ref, manager=read_manager(self._client, self._ref))

    def _read_again(self) -> GroupState:
        """Return the state with target and machines as they are now."""
        manager = read_manager(self._client, self._ref)
        machines = read_machines(self._client, self._ref)
        if machines is None:
            raise NotFound(f"there is no managed instance group {self.id}")
        return self._fleet.change(self._ref, manager=manager, machines=machines, certain=True)

    def _new_names(self, state: GroupState, count: int) -> list[str]:
        taken = {provider_id.rpartition("/")[2] for provider_id in state.machines}
        names: list[str] = []
        while len(names) < count:
            name = f"{state.manager.base_name}-{''.join(self._rng.choices(_ALPHABET, k=_SUFFIX_LENGTH))}"
            if name not in taken:
                taken.add(name)
                names.append(name)
        return names


def _takes_no_names(state: GroupState) -> bool:
    return state.ref.place.regional or "#" in state.manager.base_name


def _batches(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _MOST_AT_ONCE):
        yield items[start : start + _MOST_AT_ONCE]
