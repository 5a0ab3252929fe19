"""Writes since the last listing, which override the lists."""

import threading
from collections.abc import Collection, Iterable

from cloudprovider.clusterapi.fleet import GroupState
from cloudprovider.clusterapi.objects import Machine, MachineKey


class Ledger:
    """Replicas and marks that this process wrote. Every method is safe from any thread.

    A list shows each write that was answered before the list began, and perhaps later writes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written = 0
        self._replicas: dict[str, tuple[int, int]] = {}
        self._unknown: dict[str, int] = {}
        self._leaving: dict[MachineKey, int] = {}
        self._stray: dict[MachineKey, Machine] = {}

    def begin(self) -> int:
        """Return the number of writes before the lists begin, for `end`."""
        with self._lock:
            return self._written

    def end(self, began: int, groups: Collection[GroupState]) -> None:
        """Forget the writes that these lists show, and Machines that are gone, are being deleted, or stay after all.

        Machines stay if the replicas were raised again before a controller deleted them.
        """
        machines = [machine for group in groups for machine in group.machines]
        staying = {machine.key for group in groups if group.stays_whole for machine in group.machines}
        with self._lock:
            self._replicas = {group: entry for group, entry in self._replicas.items() if entry[0] > began}
            self._unknown = {group: written for group, written in self._unknown.items() if written > began}
            there = {machine.key for machine in machines if not machine.deleting}
            marked = {machine.key for machine in machines if machine.mark is not None or machine.bare}
            self._leaving = {
                key: written
                for key, written in self._leaving.items()
                if key in there and (written > began or key in marked - staying)
            }
            self._stray = {key: machine for key, machine in self._stray.items() if key in marked and key in there}

    def target(self, group: str, listed: int) -> int:
        """Return a group's replicas: the last written number, else the listed one."""
        with self._lock:
            entry = self._replicas.get(group)
            return listed if entry is None else entry[1]

    def rescaled(self, group: str, replicas: int) -> None:
        """Note what a group's replicas are now."""
        with self._lock:
            self._written += 1
            self._replicas[group] = (self._written, replicas)
            self._unknown.pop(group, None)

    def in_doubt(self, group: str) -> None:
        """Note that the outcome of a write is unknown."""
        with self._lock:
            self._written += 1
            self._unknown[group] = self._written

    def is_in_doubt(self, group: str) -> bool:
        """Whether the replicas must be read before they are used."""
        with self._lock:
            return group in self._unknown

    def leaves(self, machines: Iterable[Machine]) -> None:
        """Note that Machines are marked and the replicas were lowered for them."""
        with self._lock:
            self._written += 1
            for machine in machines:
                self._leaving[machine.key] = self._written
                self._stray.pop(machine.key, None)

    def strays(self, machines: Iterable[Machine]) -> None:
        """Note marks that may have to be removed, because it is unknown whether the replicas were lowered."""
        with self._lock:
            self._stray.update({machine.key: machine for machine in machines})

    def stray(self) -> list[Machine]:
        """Return the Machines with such marks."""
        with self._lock:
            return list(self._stray.values())

    def leaving(self) -> frozenset[MachineKey]:
        """Return the Machines that this process lowered the replicas for and that are not being deleted yet."""
        with self._lock:
            return frozenset(self._leaving)
