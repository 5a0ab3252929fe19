"""One MachineDeployment, MachineSet or MachinePool as a node group."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from cloudprovider.clusterapi.fleet import GroupState, owned_by
from cloudprovider.clusterapi.management import Management
from cloudprovider.clusterapi.objects import Machine, MachineKey, text
from cloudprovider.clusterapi.roster import Roster, version_of
from cloudprovider.interface import (
    Conflict,
    GroupSettings,
    Instance,
    MachineVersion,
    NodeRef,
    NodeTemplate,
    NotFound,
    ProviderError,
    Transient,
)

_ATTEMPTS = 5


class CapiGroup:
    """A `NodeGroup` with `ForceDelete`, `PrepareDelete`, `GroupOptions` and `Versioned`."""

    def __init__(self, state: GroupState, roster: Roster, management: Management, now: Callable[[], float]) -> None:
        self._state = state
        self._roster = roster
        self._management = management
        self._now = now

    @property
    def id(self) -> str:
        """Kind, namespace and name."""
        return self._state.id

    @property
    def min_size(self) -> int:
        """From the annotation."""
        return self._state.bounds.min_size

    @property
    def max_size(self) -> int:
        """From the annotation."""
        return self._state.bounds.max_size

    def target_size(self) -> int:
        """Return the replicas. Reads them only after a write with an unknown outcome."""
        if self._roster.ledger.is_in_doubt(self.id):
            self._roster.ledger.rescaled(self.id, self._management.scale_of(self._state.scalable).replicas)
        return self._roster.ledger.target(self.id, self._current.replicas)

    def instances(self) -> Sequence[Instance]:
        """Return the Machines, and the instances of a MachinePool that have no Machine."""
        return tuple(self._roster.instances(self._current))

    def template(self) -> NodeTemplate | None:
        """Return the template from annotations and machine template."""
        return self._state.template

    def settings(self) -> GroupSettings:
        """Return the overrides in the annotations. There is no scale-down while newer Machines replace older ones."""
        return self._state.settings

    def versions(self) -> Sequence[MachineVersion]:
        """Return the version of Kubernetes of new Machines; none while Cluster API replaces older ones by itself."""
        current = version_of(text(self._state.scalable.template.get("version")))
        return () if current is None or self._state.rolling else (current,)

    def increase(self, delta: int) -> None:
        """Raise the replicas."""
        if delta <= 0:
            raise ProviderError(f"{self.id}: an increase must be positive, not {delta}")
        self._rescale(delta, self._at_most_the_maximum)

    def decrease_target(self, delta: int) -> None:
        """Lower the replicas by machines that do not exist: without a Machine, or without a provider id.

        The Machines are listed again, and those without a node are marked, so that only they are deleted.
        """
        if delta <= 0:
            raise ProviderError(f"{self.id}: a decrease must be positive, not {delta}")
        live = [machine for machine in self._listed_anew() if not self._roster.is_leaving(self._current, machine)]
        pending = [machine for machine in live if not (self._roster.id_of(machine) or machine.has_node)]
        real = len(live) - len(pending)
        target = self._management.scale_of(self._state.scalable).replicas
        if target - delta < real:
            raise ProviderError(f"{self.id}: {target} - {delta} is below the {real} machines that exist")
        surplus = max(0, delta - max(0, target - len(live)))

        def check(before: int, after: int) -> None:
            if before != target:
                raise Conflict(f"{self.id}: the replicas became {before} while they were to be lowered from {target}")

        self._shrink(pending[len(pending) - surplus :], delta, check)

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        """Mark exactly these Machines, and lower the replicas by their number in one step."""
        self._delete(nodes, self.min_size)

    def force_delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete these Machines, even below the minimum size."""
        self._delete(nodes, 0)

    def prepare_delete(self, nodes: Sequence[NodeRef]) -> None:
        """Check the permissions to mark the Machines and to set the replicas, without changing either.

        An early mark would endanger other nodes: when the replicas are lowered for one of them, Cluster API would
        delete any of the marked Machines.
        """
        doomed = self._doomed(nodes)
        for machine in doomed:
            if not machine.bare:
                self._management.try_mark(machine)
        if doomed:
            self._management.try_rescale(self._state.scalable)

    def settle_marks(self) -> None:
        """Settle the marks with an unknown outcome, now that it is known whether the replicas were lowered for them."""
        group, ledger = self._current, self._roster.ledger
        own = [machine for machine in ledger.stray() if self._roster.fleet.group_by_machine.get(machine.key) == self.id]
        ledger.leaves([machine for machine in own if machine.key in group.leaving])
        if not group.rolling:
            self._take_back([machine for machine in own if machine.key not in group.leaving])

    def _delete(self, nodes: Sequence[NodeRef], least: int) -> None:
        doomed = self._doomed(nodes)
        if not doomed:
            return

        def check(before: int, after: int) -> None:
            if after < least:
                raise ProviderError(
                    f"{self.id}: deleting {before - after} of {before} breaks the minimum size {self.min_size}"
                )

        target = self._management.scale_of(self._state.scalable).replicas
        check(target, target - len(doomed))
        if any(machine.bare for machine in doomed):
            self._refuse_while_shrinking(target)
        self._shrink(doomed, len(doomed), check)

    def _doomed(self, nodes: Sequence[NodeRef]) -> Sequence[Machine]:
        """Return the Machines of nodes, without those already leaving. Raises if a node is not of this group."""
        group, fleet = self._current, self._roster.fleet
        machines: dict[MachineKey, Machine] = {}
        for node in nodes:
            key = self._roster.machine_of(node)
            if key is None or fleet.group_by_machine.get(key) != self.id:
                raise ProviderError(f"{self.id}: node {node.name} is not one of this group's")
            if not self._roster.is_leaving(group, fleet.machines[key]):
                machines[key] = fleet.machines[key]
        return tuple(machines.values())

    def _refuse_while_shrinking(self, target: int) -> None:
        """Raise if a MachinePool has more machines than replicas, because its next deletions may hit these machines."""
        group = self._current
        staying = sum(not self._roster.is_leaving(group, machine) for machine in group.machines)
        if staying > target:
            raise Transient(f"{self.id}: {staying} machines are there for {target} replicas; it is still shrinking")

    def _listed_anew(self) -> Sequence[Machine]:
        group = self._current
        listed = owned_by(self._management.machines_in(group.scalable.namespace), group.owners)
        return (*listed, *(machine for machine in group.machines if machine.bare))

    def _shrink(self, doomed: Sequence[Machine], by: int, check: Callable[[int, int], None]) -> None:
        """Mark the Machines, then lower the replicas. If that is refused, remove the marks.

        The marks stay while it is unknown whether the replicas were lowered. Without marks, other Machines would go.
        """
        self._take_back(self._forgotten_marks(doomed))
        leaving: list[Machine] = []
        try:
            for machine in doomed:
                leaving.append(machine)  # before the answer, which may get lost
                if not self._marked(machine):
                    leaving.remove(machine)
            fewer = by - (len(doomed) - len(leaving))
            if fewer > 0:
                self._rescale(-fewer, check)
        except ProviderError:
            if self._roster.ledger.is_in_doubt(self.id):
                self._roster.ledger.strays(leaving)
            else:
                self._take_back(leaving)
            raise
        self._roster.ledger.leaves(leaving)

    def _marked(self, machine: Machine) -> bool:
        """Mark a Machine; False if it no longer exists and its owner replaces it."""
        if machine.bare:
            return True  # there is nothing to mark: the cloud chooses
        try:
            self._management.mark(machine, _rfc3339(self._now()))
        except NotFound:
            return False
        return True

    def _forgotten_marks(self, doomed: Iterable[Machine]) -> list[Machine]:
        """Return Machines that have an autoscaler's mark but are not leaving, as after an interrupted deletion.

        With a further mark beside them, Cluster API would delete any of the marked Machines.
        """
        group, wanted = self._current, {machine.key for machine in doomed}
        return [
            machine
            for machine in group.machines
            if machine.key not in wanted
            and machine.mark is not None
            and machine.mark[:4].isdecimal()  # people write words, autoscalers the time
            and not self._roster.is_leaving(group, machine)
        ]

    def _take_back(self, machines: Iterable[Machine]) -> None:
        failed: list[Machine] = []
        for machine in machines:
            if machine.bare:
                continue
            try:
                self._management.unmark(machine)
            except ProviderError:
                failed.append(machine)
        self._roster.ledger.strays(failed)

    def _rescale(self, delta: int, check: Callable[[int, int], None]) -> None:
        """Change the current replicas by `delta`. Retries a few times if they change in the meantime."""
        scalable, ledger = self._state.scalable, self._roster.ledger
        for attempt in range(_ATTEMPTS):
            read = self._management.scale_of(scalable)
            wanted = read.replicas + delta
            check(read.replicas, wanted)
            try:
                self._management.rescale(scalable, read, wanted)
            except Conflict:
                if attempt + 1 == _ATTEMPTS:
                    raise
            except Transient:
                ledger.in_doubt(self.id)
                if not self._came_true(wanted):
                    raise
                return
            else:
                ledger.rescaled(self.id, wanted)
                return

    def _came_true(self, wanted: int) -> bool:
        """Whether a write with a lost answer took effect. If that cannot be read, the outcome stays unknown."""
        try:
            replicas = self._management.scale_of(self._state.scalable).replicas
        except ProviderError:
            return False
        if replicas == wanted:
            self._roster.ledger.rescaled(self.id, replicas)
        return replicas == wanted

    def _at_most_the_maximum(self, before: int, after: int) -> None:
        if after > self.max_size:
            raise ProviderError(f"{self.id}: {before} + {after - before} is above the maximum size {self.max_size}")

    @property
    def _current(self) -> GroupState:
        """The state from the last refresh, which may be later than the refresh that made this object."""
        return self._roster.fleet.groups.get(self.id, self._state)


def _rfc3339(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
