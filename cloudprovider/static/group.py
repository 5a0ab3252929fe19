"""One node group of the simulated cloud."""

import random
from collections import Counter
from collections.abc import Sequence

from cloudprovider.interface import (
    GroupSettings,
    Instance,
    InstanceError,
    MachineVersion,
    NodeRef,
    NodeTemplate,
    NotFound,
    OutOfCapacity,
    ProviderError,
)
from cloudprovider.static.faults import Failure, Faults, stock_out
from cloudprovider.static.fleet import Fleet, Record
from cloudprovider.static.spec import Call, CreationFault, GroupSpec


class StaticGroup:
    """A `NodeGroup` with the abilities `AtomicIncrease`, `ForceDelete`, `GroupOptions` and `Versioned`.

    An increase raises the target and asks for machines at once; each runs after the group's boot delay. Every call
    is safe from any thread.
    """

    def __init__(self, spec: GroupSpec, fleet: Fleet, seed: int, target: int) -> None:
        self._spec = spec
        self._fleet = fleet
        self._seed = seed
        self._target = target
        self._asked_for = 0
        self._reserved_names = frozenset(spec.node_names)
        self._faults = Faults(spec, fleet.now())
        self._versions = tuple(spec.versions)

    @property
    def id(self) -> str:
        """The id given in the specification."""
        return self._spec.id

    @property
    def min_size(self) -> int:
        """Never scaled below this."""
        return self._spec.min_size

    @property
    def max_size(self) -> int:
        """Never scaled above this."""
        return self._spec.max_size

    def target_size(self) -> int:
        """Desired size: excludes machines being deleted."""
        with self._fleet.lock:
            return self._target

    def instances(self) -> Sequence[Instance]:
        """Every machine, including failed ones and those being deleted."""
        with self._fleet.lock:
            now = self._fleet.settle()
            return [record.instance(now) for record in self._fleet.of_group(self.id).values()]

    def template(self) -> NodeTemplate | None:
        """Return the template given in the specification."""
        return self._spec.template

    def settings(self) -> GroupSettings:
        """Return the overrides given in the specification."""
        return self._spec.settings

    def versions(self) -> Sequence[MachineVersion]:
        """Return the versions given in the specification, or those of the last release."""
        return self._versions

    def increase(self, delta: int) -> None:
        """Raise the target and ask for machines. Above the maximum: `ProviderError`, and nothing changes."""
        with self._fleet.lock:
            self._check_growth(delta)
            failure = self._begin(Call.INCREASE)
            if failure is not None and failure.at_most is not None:
                delta = min(delta, failure.at_most)
            self._grow(self._fates(delta))
            _end(failure)

    def increase_atomically(self, delta: int) -> None:
        """Raise the target unless one of the machines would fail: then `OutOfCapacity`, and nothing changes."""
        with self._fleet.lock:
            self._check_growth(delta)
            failure = self._begin(Call.INCREASE)
            fates = self._fates(delta)
            failed = next((fate for fate in fates if fate is not None), None)
            if failed is not None:
                raise OutOfCapacity(f"{self.id}: {failed.error.message}", failed.error.code)
            self._grow(fates)
            _end(failure)

    def decrease_target(self, delta: int) -> None:
        """Cancel requests that have no machine yet; `ProviderError` if that would remove a machine."""
        if delta <= 0:
            raise ProviderError(f"{self.id}: a decrease must be positive, not {delta}")
        with self._fleet.lock:
            self._fleet.settle()
            existing = self.live_machines()
            if self._target - delta < existing:
                raise ProviderError(f"{self.id}: {self._target} - {delta} is below the {existing} machines that exist")
            failure = self._begin(Call.DECREASE_TARGET)
            self._target -= delta
            _end(failure)

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete these machines. One being deleted already is left alone; one that is not ours: `NotFound`."""
        self._delete(nodes, least=self.min_size)

    def force_delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete these machines, even below the minimum size."""
        self._delete(nodes, least=0)

    def fail_next(self, call: Call, failure: Failure) -> None:
        """Make the next such call fail."""
        with self._fleet.lock:
            self._faults.inject(call, failure)

    def fail_next_machine(self, error: InstanceError) -> None:
        """Make the creation of the next machine fail."""
        with self._fleet.lock:
            self._faults.inject_creation(error)

    def release(self, versions: Sequence[MachineVersion]) -> None:
        """Make new machines from these versions from now on."""
        self._versions = tuple(versions)

    def check_refresh(self) -> None:
        """Raise the error of a refresh that is to fail."""
        with self._fleet.lock:
            _end(self._begin(Call.REFRESH))

    def count_in(self, machines: int) -> None:
        """Raise the target by newly discovered machines."""
        with self._fleet.lock:
            self._target += machines

    def lose(self, record: Record, replace: bool) -> None:
        """Remove a machine from outside. Requests a replacement, or lowers the target."""
        with self._fleet.lock:
            counted = not record.deleting
            self._fleet.drop(record)
            if not counted:
                return
            self._target -= 1
            if replace:
                self._grow(self._fates(1))

    def live_machines(self) -> int:
        """Count the machines that are not being deleted. Callers must hold the lock."""
        return sum(not record.deleting for record in self._fleet.of_group(self.id).values())

    def _check_growth(self, delta: int) -> None:
        if delta <= 0:
            raise ProviderError(f"{self.id}: an increase must be positive, not {delta}")
        if self._target + delta > self.max_size:
            raise ProviderError(f"{self.id}: {self._target} + {delta} is above the maximum size {self.max_size}")

    def _begin(self, call: Call) -> Failure | None:
        """Raise the call's error, or return the error to raise after its work."""
        failure = self._faults.of_call(call, self._fleet.now())
        if failure is not None and not failure.takes_effect:
            raise failure.error
        return failure

    def _fates(self, machines: int) -> list[CreationFault | None]:
        """Return how each of the next machines fails; None for a machine that does not."""
        limit, now = self._spec.stock_out_after, self._fleet.now()
        records = self._fleet.of_group(self.id).values()
        healthy = sum(not record.deleting and record.error is None for record in records)
        fates: list[CreationFault | None] = []
        for _ in range(machines):
            beyond_stock = limit is not None and healthy >= limit
            fate = stock_out(self.id) if beyond_stock else self._faults.of_creation(now)
            healthy += fate is None
            fates.append(fate)
        return fates

    def _grow(self, fates: Sequence[CreationFault | None]) -> None:
        self._target += len(fates)
        for fate in fates:
            self._ask_for_machine(fate)

    def _ask_for_machine(self, fate: CreationFault | None) -> None:
        boot, now = self._spec.boot, self._fleet.now()
        if boot is None and fate is None:
            return
        name = self._new_name()
        version = next(iter(self._versions), None)
        record = Record(self.id, f"static://{name}", name, now, self._emptiest_zone(), version)
        if fate is not None:
            record.error = fate.error
            record.error_s = now + fate.after_s
        elif boot is not None:
            # One draw per machine, keyed by its name: what happens elsewhere never changes a machine's delay.
            draw = random.Random(f"{self._seed}/{name}").uniform(boot.min_s, boot.max_s)
            record.ready_s = now + draw
        self._fleet.add(record)

    def _emptiest_zone(self) -> str:
        """Return the zone of the next machine: the one with the fewest machines, then the first by name."""
        zones = self._spec.template.zones if self._spec.template is not None else {}
        machines = Counter(machine.zone for machine in self._fleet.of_group(self.id).values() if not machine.deleting)
        return min(sorted(zones), key=machines.__getitem__, default="")

    def _new_name(self) -> str:
        while True:
            self._asked_for += 1
            name = f"{self.id}-{self._asked_for}"
            if not self._fleet.is_taken(name) and name not in self._reserved_names:
                return name

    def _delete(self, nodes: Sequence[NodeRef], least: int) -> None:
        with self._fleet.lock:
            now = self._fleet.settle()
            going = {record.provider_id: record for record in map(self._own, nodes) if not record.deleting}
            if going and self._target - len(going) < least:
                raise ProviderError(
                    f"{self.id}: deleting {len(going)} of {self._target} breaks the minimum size {self.min_size}"
                )
            failure = self._begin(Call.DELETE)
            for record in going.values():
                self._fleet.retire(record, now, self._spec.delete_s)
            self._target -= len(going)
            _end(failure)

    def _own(self, node: NodeRef) -> Record:
        record = self._fleet.find(node.provider_id, node.name)
        if record is None:
            raise NotFound(f"{self.id}: there is no machine for node {node.name}")
        if record.group != self.id:
            raise ProviderError(f"{self.id}: node {node.name} belongs to {record.group}")
        return record


def _end(failure: Failure | None) -> None:
    if failure is not None:
        raise failure.error
