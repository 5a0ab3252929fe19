"""Every machine of the simulated cloud, and how each one's state follows from the time."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from cloudprovider.interface import Instance, InstanceError, MachineVersion, State
from cloudprovider.static.spec import Machine, MachineSpec


class Record:
    """The life of one machine as a few moments in time (Unix seconds); its state is computed from them."""

    __slots__ = (
        "born_s",
        "deleting",
        "error",
        "error_s",
        "gone_s",
        "group",
        "name",
        "provider_id",
        "ready_s",
        "running",
        "version",
        "zone",
    )

    def __init__(
        self, group: str, provider_id: str, name: str, born_s: float, zone: str, version: MachineVersion | None
    ) -> None:
        self.group = group
        self.provider_id = provider_id
        self.name = name
        self.born_s = born_s
        self.zone = zone
        self.ready_s: float | None = None
        self.error: InstanceError | None = None
        self.error_s = born_s
        self.deleting = False
        self.gone_s: float | None = None
        self.version = version
        self.running = Instance(provider_id, State.RUNNING, version=version)

    def impair(self, why: str) -> None:
        """Let the cloud hold the machine for unhealthy from now on; an empty `why`: for healthy again."""
        self.running = Instance(self.provider_id, State.RUNNING, version=self.version, impaired=why)

    def state(self, now: float) -> State:
        """Return the state at `now`. A machine whose creation failed stays in creation."""
        if self.deleting:
            return State.DELETING
        if self.error is None and self.ready_s is not None and now >= self.ready_s:
            return State.RUNNING
        return State.CREATING

    def error_at(self, now: float) -> InstanceError | None:
        """Return the error once it is visible."""
        return self.error if now >= self.error_s else None

    def instance(self, now: float) -> Instance:
        """Return the machine as the provider contract shows it."""
        state = self.state(now)
        return (
            self.running
            if state is State.RUNNING
            else Instance(self.provider_id, state, self.error_at(now), version=self.version)
        )

    def machine(self, now: float) -> Machine:
        """Return the machine as simulators see it."""
        return Machine(
            group=self.group,
            provider_id=self.provider_id,
            name=self.name,
            state=self.state(now),
            error=self.error_at(now),
            born_s=self.born_s,
            ready_s=self.ready_s if self.error is None else None,
            zone=self.zone,
        )


class Fleet:
    """All machines by provider id. Callers must hold `lock`, unless a method takes it."""

    def __init__(
        self,
        group_ids: Iterable[str],
        now: Callable[[], float],
        versions: Mapping[str, MachineVersion],
        impaired: Mapping[str, str],
    ) -> None:
        """`versions` and `impaired` are about machines that come from outside, by provider id or name."""
        self._versions = versions
        self._impaired = impaired
        self.lock = threading.RLock()
        self.now = now
        self.gone: set[str] = set()
        self.changes = 0
        """Increases whenever a machine appears, disappears or starts to be deleted."""
        self._by_id: dict[str, Record] = {}
        self._by_name: dict[str, Record] = {}
        self._by_group: dict[str, dict[str, Record]] = {group: {} for group in group_ids}
        self._leaving: set[str] = set()

    def settle(self) -> float:
        """Drop the machines whose deletion is complete; return the time that this was decided by."""
        now = self.now()
        for provider_id in sorted(self._leaving):
            gone_s = self._by_id[provider_id].gone_s
            if gone_s is not None and now >= gone_s:
                self.drop(self._by_id[provider_id])
        return now

    def next_change_s(self) -> float | None:
        """Return when a machine's state will next change by itself, in Unix seconds; None if no change is due."""
        now = self.settle()
        leaving = (self._by_id[provider_id].gone_s for provider_id in self._leaving)
        booting = (record.ready_s for record in self._by_id.values() if record.state(now) is State.CREATING)
        return min(
            (change_s for change_s in (*leaving, *booting) if change_s is not None and change_s > now), default=None
        )

    def of_group(self, group: str) -> Mapping[str, Record]:
        """Return a group's machines in the order in which they were added."""
        return self._by_group[group]

    def all(self) -> Iterator[Record]:
        """Yield every machine, group by group."""
        for records in self._by_group.values():
            yield from records.values()

    def find(self, provider_id: str, name: str) -> Record | None:
        """Return the machine behind a node; the name counts only for a node that has no provider id yet."""
        return self._by_id.get(provider_id) if provider_id else self._by_name.get(name)

    def is_taken(self, name: str) -> bool:
        """Whether a machine has, or had, this name or provider id."""
        return name in self._by_name or name in self._by_id or name in self.gone

    def add(self, record: Record) -> None:
        """Take in a machine."""
        self.changes += 1
        self.gone.difference_update((record.provider_id, record.name))
        self._by_id[record.provider_id] = record
        self._by_name[record.name] = record
        self._by_group[record.group][record.provider_id] = record
        if record.deleting:
            self._leaving.add(record.provider_id)

    def add_declared(self, spec: MachineSpec) -> Record:
        """Take in a machine that comes from outside, in the state that was declared."""
        now = self.now()
        name = spec.name or spec.provider_id
        version = self._versions.get(spec.provider_id) or self._versions.get(name)
        record = Record(spec.group, spec.provider_id, name, now, spec.zone, version)
        record.ready_s = now if spec.state is State.RUNNING else spec.ready_s
        record.error = spec.error
        record.deleting = spec.state is State.DELETING
        self.add(record)
        record.impair(self._impaired.get(spec.provider_id) or self._impaired.get(name) or "")
        return record

    def retire(self, record: Record, now: float, takes_s: float) -> None:
        """Begin to delete a machine; it is gone after `takes_s` seconds."""
        if takes_s <= 0:
            self.drop(record)
            return
        self.changes += 1
        record.deleting = True
        record.gone_s = now + takes_s
        self._leaving.add(record.provider_id)

    def drop(self, record: Record) -> None:
        """Remove a machine and remember that it existed."""
        self.changes += 1
        del self._by_id[record.provider_id]
        del self._by_group[record.group][record.provider_id]
        if self._by_name.get(record.name) is record:
            del self._by_name[record.name]
        self._leaving.discard(record.provider_id)
        self.gone.update((record.provider_id, record.name))
