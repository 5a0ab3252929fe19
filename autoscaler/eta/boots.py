"""Measures how long new nodes take, from the accepted request until they are ready. Owned by the deciding thread."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from autoscaler.clock import Instant
from autoscaler.eta.samples import Sample
from autoscaler.registry.readiness import Readings
from autoscaler.registry.state import Registry
from autoscaler.snapshot.groups import Groups


class Boot(msgspec.Struct, frozen=True):
    """A node that became ready."""

    group: str
    node: str
    sample: Sample
    registered_s: float
    """The part of `seconds` until the node appeared."""


class BootsSeen(msgspec.Struct, frozen=True):
    """The results of one pass: nodes that became ready, and the number of nodes that never came, by group."""

    booted: tuple[Boot, ...] = ()
    failed: Mapping[str, int] = {}


class _Booting(msgspec.Struct, frozen=True):
    group: str
    asked: Instant
    registered: Instant


class BootTracker:
    """Open requests for nodes, and nodes that are not ready yet."""

    def __init__(self) -> None:
        self._asked: dict[str, deque[Instant]] = {}
        self._booting: dict[str, _Booting] = {}
        self._known: set[str] | None = None

    def look(
        self,
        readings: Readings,
        groups: Groups,
        registry: Registry,
        increases: Iterable[tuple[str, int]],
        now: Instant,
    ) -> BootsSeen:
        """Record a pass: first the nodes that it saw, then its requests.

        Nodes that existed before the first call give no sample.
        """
        names = {reading.node.name for reading in readings.items}
        if self._known is None:
            self._known = names
        self._register(readings, groups, now)
        self._known = names
        booted = tuple(self._ready(readings, now))
        failed: dict[str, int] = {}
        for node in [node for node in self._booting if node not in names]:
            group = self._booting.pop(node).group
            failed[group] = failed.get(group, 0) + 1
        accepted = {group: count for group, count in increases if count > 0}
        for group, count in accepted.items():
            self._asked.setdefault(group, deque()).extend([now] * count)
        for group, waiting in self._asked.items():
            state = registry.groups.get(group)
            still = 0 if state is None else max(0, state.upcoming - len(state.buckets.not_started))
            while len(waiting) > max(still, accepted.get(group, 0)):
                waiting.popleft()
                failed[group] = failed.get(group, 0) + 1
        self._asked = {group: waiting for group, waiting in self._asked.items() if waiting}
        return BootsSeen(booted, failed)

    def ages(self, now: Instant) -> Mapping[str, Sequence[float]]:
        """Return for how many seconds each upcoming node has been requested, by group, oldest first."""
        asked: dict[str, list[float]] = {}
        for booting in self._booting.values():
            asked.setdefault(booting.group, []).append(now.mono - booting.asked.mono)
        for group, waiting in self._asked.items():
            asked.setdefault(group, []).extend(now.mono - since.mono for since in waiting)
        return {group: sorted(ages, reverse=True) for group, ages in asked.items()}

    def _register(self, readings: Readings, groups: Groups, now: Instant) -> None:
        """Assign each new node to the oldest request of its group; a node without a request gives no sample."""
        assert self._known is not None
        for reading in readings.items:
            name = reading.node.name
            if name in self._known:
                continue
            group = groups.of_node.get(name)
            waiting = self._asked.get(group or "")
            if group is not None and waiting:
                self._booting[name] = _Booting(group, waiting.popleft(), now)

    def _ready(self, readings: Readings, now: Instant) -> Iterable[Boot]:
        if not self._booting:
            return
        for reading in readings.items:
            if reading.node.name not in self._booting or not reading.readiness.ready:
                continue
            booting = self._booting.pop(reading.node.name)
            since = reading.readiness.since
            ready = now.wall if since is None or not booting.asked.wall <= since <= now.wall else since
            seconds = min(ready - booting.asked.wall, now.mono - booting.asked.mono)
            registered_s = booting.registered.mono - booting.asked.mono
            yield Boot(booting.group, reading.node.name, Sample(now.wall, max(0.0, seconds)), registered_s)
