"""Tracks removals that are in progress or have ended, for the deciding thread."""

import threading
from collections.abc import Mapping

import msgspec

from autoscaler.actuation.removal_outcome import Finished
from autoscaler.objects.pod import Pod
from autoscaler.scaledown.plan import Removal


class TrackedDeletions(msgspec.Struct, frozen=True, kw_only=True):
    """Removals in progress at one moment: node names by group, in the order in which the removals began."""

    empty: Mapping[str, tuple[str, ...]] = {}
    drained: Mapping[str, tuple[str, ...]] = {}
    evicted: tuple[Pod, ...] = ()
    """Pods evicted so far by these removals; their controllers may not have created replacements yet."""

    @property
    def nodes(self) -> frozenset[str]:
        """Names of all nodes being removed."""
        return self.empty_nodes | {name for names in self.drained.values() for name in names}

    @property
    def empty_nodes(self) -> frozenset[str]:
        """Names of the nodes that were empty."""
        return frozenset(name for names in self.empty.values() for name in names)

    @property
    def empty_count(self) -> int:
        """The number of nodes that were empty."""
        return sum(map(len, self.empty.values()))

    @property
    def drained_count(self) -> int:
        """The number of nodes being drained."""
        return sum(map(len, self.drained.values()))

    def count_in(self, group: str) -> int:
        """The number of nodes that belong to a group."""
        return len(self.empty.get(group, ())) + len(self.drained.get(group, ()))


class NodeDeletionTracker:
    """Tracks removals. Threads may share it; every result is an independent value."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Removal] = {}
        self._evicted: dict[str, list[Pod]] = {}
        self._finished: list[Finished] = []

    def started(self, removal: Removal) -> None:
        """Record that a removal begins."""
        with self._lock:
            self._under_way[removal.node.name] = removal

    def evicted(self, removal: Removal, pod: Pod) -> None:
        """Record that a pod of a removal was evicted."""
        with self._lock:
            self._evicted.setdefault(removal.node.name, []).append(pod)

    def ended(self, finished: Finished) -> None:
        """Record that a removal has ended."""
        name = finished.removal.node.name
        with self._lock:
            self._under_way.pop(name, None)
            self._evicted.pop(name, None)
            self._finished.append(finished)

    def under_way(self) -> TrackedDeletions:
        """Return the removals in progress."""
        empty: dict[str, tuple[str, ...]] = {}
        drained: dict[str, tuple[str, ...]] = {}
        with self._lock:
            for name, removal in self._under_way.items():
                kind = drained if removal.drained else empty
                kind[removal.group] = (*kind.get(removal.group, ()), name)
            evicted = tuple(pod for pods in self._evicted.values() for pod in pods)
        return TrackedDeletions(empty=empty, drained=drained, evicted=evicted)

    def drain_results(self) -> tuple[Finished, ...]:
        """Return and forget the removals that ended since the last call, in the order they ended."""
        with self._lock:
            finished, self._finished = self._finished, []
        return tuple(finished)
