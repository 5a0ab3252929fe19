"""One scale set as a node group."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from cloudprovider.azure import ids
from cloudprovider.azure.errors import ChangedMeanwhile
from cloudprovider.azure.fleet import Fleet
from cloudprovider.azure.holding import AzureOperation, Holding, resized, shrunk, wanted, with_machines, with_scale_set
from cloudprovider.azure.resources import ScaleSet
from cloudprovider.azure.tags import settings_of
from cloudprovider.azure.template import Templates
from cloudprovider.interface import (
    GroupSettings,
    Instance,
    MachineVersion,
    NodeRef,
    NodeTemplate,
    ProviderError,
    Transient,
)
from cloudprovider.sizes import SizedName

T = TypeVar("T")
_TRIES = 3


class ScaleSetGroup:
    """A `NodeGroup` with `ForceDelete`, `GroupOptions` and `Versioned`."""

    def __init__(self, sized: SizedName, fleet: Fleet, templates: Templates) -> None:
        self._sized = sized
        self._fleet = fleet
        self._templates = templates

    @property
    def id(self) -> str:
        """Name of the scale set."""
        return self._sized.name

    @property
    def min_size(self) -> int:
        """Never scaled below this."""
        return self._sized.min_size

    @property
    def max_size(self) -> int:
        """Never scaled above this."""
        return self._sized.max_size

    def target_size(self) -> int:
        """Return the desired number of machines, without those being deleted."""
        return self._fleet.known(self.id).target

    def instances(self) -> Sequence[Instance]:
        """Return every machine, and a failed placeholder for each requested machine that will not be created."""
        held = self._fleet.known(self.id)
        if any(held.listed_at <= operation.since for operation in held.operations if not operation.deletes):
            held = self._fleet.relisted(self.id)
        return held.instances()

    def template(self) -> NodeTemplate | None:
        """Return the template that size, disk and tags give; None if the size is not known."""
        held = self._fleet.all.get(self.id)
        return None if held is None else self._templates.of(held.scale_set)

    def settings(self) -> GroupSettings:
        """Return the overrides that the tags give."""
        held = self._fleet.all.get(self.id)
        return GroupSettings() if held is None else settings_of(held.scale_set.tags or {})

    def versions(self) -> Sequence[MachineVersion]:
        """Return the latest model; none if Azure applies it to older machines by itself."""
        held = self._fleet.all.get(self.id)
        return () if held is None else held.scale_set.versions

    def increase(self, delta: int) -> None:
        """Raise the capacity, and never lower it. Machines that others added in the meantime count towards `delta`.

        Azure reports a small quota at once, but a lack of machines only later. Machines that are not created are then
        listed as failed.
        """
        if delta <= 0:
            raise ProviderError(f"{self.id}: an increase must be positive, not {delta}")
        before = self._fleet.known(self.id).target
        self._check_maximum(before + delta)

        def grow(held: Holding, fresh: ScaleSet) -> int:
            target = wanted(before, held.target, delta)
            self._check_maximum(target)
            return target

        self._resize(grow)

    def decrease_target(self, delta: int) -> None:
        """Lower the capacity by machines that do not exist.

        If there were too many machines, Azure would choose some to delete. So the capacity stays while Azure works on
        the scale set and may be creating machines.
        """
        if delta <= 0:
            raise ProviderError(f"{self.id}: a decrease must be positive, not {delta}")
        self._resize(lambda held, fresh: self._lowered(held, fresh, delta))

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete these machines in one call, after reading the capacity. Machines already being deleted are skipped."""
        self._delete(nodes, least=self.min_size)

    def force_delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete these machines whatever the minimum size."""
        self._delete(nodes, least=0)

    def _delete(self, nodes: Sequence[NodeRef], least: int) -> None:
        keys = list(dict.fromkeys(map(self._own, nodes)))
        held = self._fleet.reread(self.id)
        live = {machine.key: machine.provider_id for machine in held.live}
        machines = [live[key] for key in keys if key in live]
        requests = sum(key in held.unfulfilled() for key in keys)
        count = len(machines) + requests
        if count and held.target - count < least:
            raise ProviderError(f"{self.id}: deleting {count} of {held.target} breaks the minimum size {self.min_size}")
        if requests:
            self._resize(lambda now, fresh: self._lowered(now, fresh, requests))
        if machines:
            self._delete_machines(held.scale_set, machines)

    def _delete_machines(self, scale_set: ScaleSet, machines: Sequence[str]) -> None:
        address = self._careful(lambda: self._fleet.compute.delete(scale_set, machines))
        operation = AzureOperation(address or "", self._fleet.now(), frozenset(map(ids.key, machines)))
        self._fleet.change(self.id, lambda held: shrunk(held, operation))

    def _own(self, node: NodeRef) -> str:
        key = ids.key(node.provider_id)
        prefix = ids.key(ids.provider_id(self._fleet.get(self.id).scale_set.id))
        if key.startswith(f"{prefix}/") or self._fleet.owner(key) == self.id:
            return key
        raise ProviderError(f"{self.id}: node {node.name} is none of this scale set's")

    def _lowered(self, held: Holding, fresh: ScaleSet, delta: int) -> int:
        if fresh.is_updating:
            raise ProviderError(
                f"{self.id}: Azure is changing the scale set; before that is over no request can be cancelled"
            )
        now, machines = self._fleet.now(), self._fleet.compute.machines(fresh)
        self._fleet.change(self.id, lambda old: with_machines(old, machines, now))
        if fresh.capacity - delta < len(machines):
            raise ProviderError(
                f"{self.id}: {fresh.capacity} - {delta} is below the {len(machines)} machines there are"
            )
        return held.target - delta

    def _check_maximum(self, target: int) -> None:
        if target > self.max_size:
            raise ProviderError(f"{self.id}: {target} is above the maximum size {self.max_size}")

    def _resize(self, choose: Callable[[Holding, ScaleSet], int]) -> None:
        """Read the scale set again, and set the capacity for the target that `choose` picks.

        The entity tag makes Azure refuse if the scale set changes in between. Then it is read again.
        """
        for attempt in range(1, _TRIES + 1):
            fresh = self._fleet.compute.scale_set(self.id)
            held = self._fleet.change(self.id, partial(with_scale_set, fresh=fresh))
            target = choose(held, fresh)
            if target == held.target:
                return
            capacity = fresh.capacity + target - held.target
            try:
                self._set_capacity(fresh, capacity, target)
            except ChangedMeanwhile:
                if attempt == _TRIES:
                    raise
            else:
                return

    def _set_capacity(self, fresh: ScaleSet, capacity: int, target: int) -> None:
        address = self._careful(lambda: self._fleet.compute.set_capacity(fresh, capacity))
        operation = AzureOperation(address, self._fleet.now()) if address else None
        self._fleet.change(self.id, lambda held: resized(held, capacity, target, operation))

    def _careful(self, call: Callable[[], T]) -> T:
        """Make a change. If the answer is lost, note that the scale set must be read again."""
        try:
            return call()
        except ChangedMeanwhile:
            raise
        except Transient:
            self._fleet.change(self.id, lambda held: replace(held, uncertain=True))
            raise
