"""The state of one scale set: Azure's last answers, corrected by later requests.

Everything here is pure: a change makes a new `Holding`.

The target size is the capacity, less those machines being deleted that the capacity still counts. Azure lowers the
capacity by itself when it deletes machines, but not at a moment that one can rely on; so while our own deletions are
under way, a capacity that is too high by no more than them is taken to count them.
"""

from collections.abc import Mapping, Sequence
from math import inf

import msgspec
from msgspec.structs import replace

from cloudprovider.azure import ids
from cloudprovider.azure.errors import Failure
from cloudprovider.azure.machines import Machine
from cloudprovider.azure.resources import ScaleSet
from cloudprovider.interface import Instance, InstanceError, State

_LONGEST_OPERATION_S = 3600.0
_REPLACED = {"operationpreempted", "canceled", "cancelled", "operationcanceled"}


class AzureOperation(msgspec.Struct, frozen=True):
    """A change that Azure has accepted and is working on."""

    address: str
    """The address that reports its progress; empty if Azure gave none."""
    since: float
    deletes: frozenset[str] = frozenset()
    """Keys of the machines that it deletes."""


class MissingMachines(msgspec.Struct, frozen=True):
    """Why requested machines are not created."""

    since: float
    error: InstanceError


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """One scale set with its machines."""

    scale_set: ScaleSet
    target: int
    machines: tuple[Machine, ...] = ()
    listed_at: float = -inf
    """When the machines were listed; Unix seconds."""
    operations: tuple[AzureOperation, ...] = ()
    shortfall: MissingMachines | None = None
    superseded: str | None = None
    """Entity tag of the scale set before our last change. An answer with this tag is older than the change."""
    uncertain: bool = False
    """Whether the answer to a change was lost."""
    writes: int = 0
    """Number of changes made here. Reads from before the last change are out of date."""

    @property
    def going(self) -> frozenset[str]:
        """Keys of the machines whose deletion Azure has accepted."""
        return frozenset[str]().union(*(operation.deletes for operation in self.operations))

    @property
    def live(self) -> tuple[Machine, ...]:
        """The machines that are not being deleted."""
        going = self.going
        return tuple(
            machine for machine in self.machines if machine.state is not State.DELETING and machine.key not in going
        )

    @property
    def is_settled(self) -> bool:
        """Whether another list of the machines would show nothing new."""
        if self.uncertain or self.operations or len(self.machines) != self.target:
            return False
        return all(machine.state is State.RUNNING for machine in self.machines)

    def unfulfilled(self) -> Mapping[str, Instance]:
        """Return placeholders, by key, for the requested machines that will not be created."""
        if self.shortfall is None:
            return {}
        since, error = self.shortfall.since, self.shortfall.error
        missing = (ids.unfulfilled(self.scale_set.id, since, n) for n in range(self.target - len(self.live)))
        return {ids.key(provider_id): Instance(provider_id, State.CREATING, error) for provider_id in missing}

    def instances(self) -> list[Instance]:
        """Return every machine and the placeholders."""
        live = {machine.key for machine in self.live}
        shown = [
            machine.instance if machine.key in live else Instance(machine.provider_id, State.DELETING)
            for machine in self.machines
        ]
        return shown + list(self.unfulfilled().values())


def begun(scale_set: ScaleSet) -> Holding:
    """Return the state of a newly seen scale set."""
    return Holding(scale_set=scale_set, target=scale_set.capacity)


def with_scale_set(held: Holding, fresh: ScaleSet) -> Holding:
    """Return the state with a newly read scale set."""
    if held.operations and fresh.etag and fresh.etag == held.superseded:
        return held
    leaving = held.going & {machine.key for machine in held.machines}
    counted = fresh.capacity - held.target
    target = held.target if 0 < counted <= len(leaving) else fresh.capacity
    return replace(held, scale_set=fresh, target=target)


def with_machines(held: Holding, machines: Sequence[Machine], listed_at: float) -> Holding:
    """Return the state with the machines that were listed at `listed_at`."""
    return replace(held, machines=tuple(machines), listed_at=listed_at)


def with_progress(held: Holding, over: Mapping[AzureOperation, Failure | None], now: float) -> Holding:
    """Return the state without the completed operations. `over` has their failures; None where none is known.

    A failure counts unless a later change of ours replaced the operation and brings the machines.
    """
    left = tuple(
        operation
        for operation in held.operations
        if operation not in over and now - operation.since < _LONGEST_OPERATION_S
    )
    held = replace(held, operations=left)
    failures = [failure for operation, failure in over.items() if failure is not None and not operation.deletes]
    if not failures or failures[-1].code.lower() in _REPLACED or any(not operation.deletes for operation in left):
        return held
    return replace(held, shortfall=MissingMachines(now, failures[-1].instance_error()))


def once_relieved(held: Holding) -> Holding:
    """Forget why machines were not created once none is missing."""
    return held if held.unfulfilled() else replace(held, shortfall=None)


def resized(held: Holding, capacity: int, target: int, operation: AzureOperation | None) -> Holding:
    """Return the state after Azure accepted a new capacity, which changes the target."""
    before = held.scale_set
    sku = None if before.sku is None else replace(before.sku, capacity=capacity)
    return replace(
        held,
        scale_set=replace(before, sku=sku),
        superseded=before.etag,
        target=target,
        operations=held.operations if operation is None else (*held.operations, operation),
        shortfall=None if target > held.target else held.shortfall,
    )


def shrunk(held: Holding, operation: AzureOperation) -> Holding:
    """Return the state after Azure accepted a deletion."""
    gone = sum(machine.key in operation.deletes for machine in held.live)
    return replace(held, target=held.target - gone, operations=(*held.operations, operation))


def wanted(before: int, now: int, delta: int) -> int:
    """Return the target to request for an increase by `delta` that was decided on at an older target.

    Machines that others or an earlier, seemingly lost call added in the meantime count towards `delta`.
    """
    return max(now, before + delta) if now > before else now + delta
