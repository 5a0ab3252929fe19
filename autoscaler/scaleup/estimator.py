"""Counts how many new nodes of one group help how many pods: first fit decreasing, as in Cluster Autoscaler.

Pods come in groups of equal ones, the largest first (CPU plus memory, as shares of the node). Pass A deals a group
to the new nodes that exist already, in turns; at the first pod that fits none of them, pass B puts the rest on the
last node and adds nodes as needed. A fresh node that received nothing ends it: another one could not help either.
Groups that no other pod influences are packed by arithmetic; the rest pod by pod.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scheduling.bounds import Bound
from autoscaler.scheduling.placement import Placer, accepts, round_robin
from autoscaler.scheduling.topology import SKEWED
from autoscaler.snapshot.overlay import Positions
from autoscaler.snapshot.template import Template


class PodGroup(msgspec.Struct, frozen=True):
    """Pending pods of one class, in the order they are to be helped."""

    cls: PodClass
    pods: tuple[Pod, ...]


class Packed(msgspec.Struct, frozen=True):
    """Pods of one class put on nodes of the trial, by position; new nodes come right after those it had."""

    cls: PodClass
    positions: Positions
    counts: Positions


class Estimate(msgspec.Struct, frozen=True):
    """Outcome of packing: nodes that received pods, those pods, and where each class went."""

    nodes: int
    pods: tuple[Pod, ...]
    packed: tuple[Packed, ...] = ()


def pod_groups(pods: Sequence[Pod]) -> list[PodGroup]:
    """Group pods by class, groups and pods in order of appearance."""
    groups: dict[PodClass, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(pod.cls, []).append(pod)
    return [PodGroup(cls, tuple(members)) for cls, members in groups.items()]


def without(groups: Sequence[PodGroup], pods: Iterable[Pod]) -> list[PodGroup]:
    """Return the groups without some pods, and without groups that have no pod left."""
    gone = {pod.key for pod in pods}
    left = (PodGroup(group.cls, tuple(pod for pod in group.pods if pod.key not in gone)) for group in groups)
    return [group for group in left if group.pods]


def score(cls: PodClass, template: Template) -> float:
    """Return the share of a node that a pod asks for, CPU plus memory; a resource the node lacks adds nothing."""
    shares = 0.0
    for resource in (quantity.CPU, quantity.MEMORY):
        allocatable = template.node.allocatable.get(resource, 0)
        if allocatable > 0:
            shares += cls.requests.get(resource, 0) / allocatable
    return shares


def estimate(
    placer: Placer,
    template: Template,
    groups: Sequence[PodGroup],
    node_limit: int | None,
    *,
    topology_fallback: bool = True,
) -> Estimate:
    """Pack the groups onto copies of the template; at most `node_limit` copies (None: no limit).

    Leaves the placer's trial as it was. `topology_fallback` lets a pod that only its host-name spread constraint
    keeps off the last node go to any other node.
    """
    with placer.trial.fork():
        packing = _Packing(placer, template, node_limit, topology_fallback)
        placed: list[Pod] = []
        ordered = sorted(groups, key=lambda group: -score(group.cls, template))
        if any(packing.minds_zone(group.cls) for group in ordered):
            counts = packing.pack_node_by_node(ordered)
        else:
            counts = [packing.pack(group.cls, len(group.pods)) for group in ordered]
        for group, count in zip(ordered, counts, strict=True):
            placed.extend(group.pods[:count])
        return Estimate(packing.nodes_used, tuple(placed), tuple(packing.packed))


class _Packing:
    """New nodes of one estimation, and where the next search for room starts."""

    def __init__(self, placer: Placer, template: Template, limit: int | None, topology_fallback: bool) -> None:
        self._placer = placer
        self._trial = placer.trial
        self._template = template
        self._allowed = limit
        self._topology_fallback = topology_fallback
        self._first = placer.trial.count
        self._cursor = 0
        self._may_add = True
        self._used = np.zeros(0, dtype=np.int64)
        self.packed: list[Packed] = []

    @property
    def nodes_used(self) -> int:
        """New nodes with at least one pod."""
        return int(np.count_nonzero(self._used))

    @property
    def _window(self) -> slice:
        return slice(self._first, self._trial.count)

    def pack(self, cls: PodClass, count: int) -> int:
        """Place as many of `count` pods as can be; return how many."""
        # A search skips cordoned nodes, but the last node is tried by name: counting cannot distinguish the two.
        bound = None if self._template.node.unschedulable else self._bound(cls)
        if bound is None:
            return self._pack_singly(cls, count)
        dealt = self._deal(cls, min(count, bound.total), bound)
        left = count - dealt
        if left and self._may_add:
            return dealt + self._fill_new(cls, left, bound.fresh, bound.total - dealt)
        return dealt

    def minds_zone(self, cls: PodClass) -> bool:
        """Whether it can matter to the class in which of several zones a node comes."""
        zones = self._template.zones
        if zones is None or len(zones.templates) < 2:
            return False
        suits = {accepts(cls, fresh.node, self._placer.profile) for fresh in zones.templates.values()}
        return len(suits) > 1 or bool(self._placer.guards(cls))

    def pack_node_by_node(self, groups: Sequence[PodGroup]) -> list[int]:
        """Place what can be placed, where nodes come in several zones; return how many of each group.

        Every node takes what suits its zone before another is added; one that nothing suits ends it.
        """
        left = [len(group.pods) for group in groups]
        while True:
            for at, group in enumerate(groups):
                left[at] -= self._pack_present(group.cls, left[at])
            idle = len(self._used) > 0 and self._used[-1] == 0
            if idle or not any(left) or self._add(1) == 0:
                return [len(group.pods) - count for group, count in zip(groups, left, strict=True)]

    def _pack_present(self, cls: PodClass, count: int) -> int:
        """Place as many of `count` pods as the nodes that are there take; return how many."""
        if not self._placer.guards(cls):
            return self._deal(cls, count, Bound(self._placer.copies(cls, self._window), 0))
        placed = 0
        while placed < count and self._finds_room(cls, self._window):
            placed += 1
        return placed

    def _bound(self, cls: PodClass) -> Bound | None:
        """Ask how many of the class fit, with one more node to look at."""
        window = self._window
        with self._trial.fork():
            return self._placer.bound(cls, window, self._trial.add(self._template, 1)[0])

    def _deal(self, cls: PodClass, count: int, bound: Bound) -> int:
        """Pass A by counting; return how many found room."""
        if self._trial.count == self._first or count == 0:
            return 0
        taken, left, start = round_robin(bound.present, count, max(0, self._cursor - self._first))
        if left < count:
            self._cursor = (self._first + start) if start else 0
        self._put(cls, np.flatnonzero(taken), taken[taken > 0])
        return count - left

    def _fill_new(self, cls: PodClass, count: int, per_node: int, allowed: int) -> int:
        """Pass B by counting: at most `each` pods a node, `allowed` in all; return how many found room.

        Where pods are left that would be allowed nowhere, the node that shows it stays, empty.
        """
        if len(self._used) and self._used[-1] == 0:
            return 0
        placeable = min(count, allowed) if per_node else 0
        full = -(-placeable // per_node) if per_node else 0
        first = len(self._used)
        nodes = self._add(full + (placeable < count))
        counts = np.full(min(nodes, full), per_node, dtype=np.int64)
        if nodes >= full > 0:
            counts[-1] = placeable - per_node * (full - 1)
        self._put(cls, np.arange(first, first + len(counts)), counts)
        return int(counts.sum())

    def _pack_singly(self, cls: PodClass, count: int) -> int:
        left = count
        while left and self._finds_room(cls, self._window):
            left -= 1
        while left and self._may_add:
            last = self._trial.count - 1
            if last >= self._first:
                if self._placer.fits(cls, last):
                    self._put_one(cls, last)
                    left -= 1
                    continue
                if self._falls_back(cls, last):
                    left -= 1
                    continue
                if self._used[-1] == 0:
                    break
            if self._add(1) == 0 or not self._placer.fits(cls, self._trial.count - 1):
                break
        return count - left

    def _finds_room(self, cls: PodClass, window: slice) -> bool:
        """Place one pod within the window, where a search that goes on after the last match finds room first."""
        position = self._placer.first(cls, window, self._cursor)
        if position is None:
            return False
        self._put_one(cls, position)
        self._cursor = (position + 1) % self._trial.count
        return True

    def _falls_back(self, cls: PodClass, last: int) -> bool:
        """Place the pod elsewhere when only its spread over host names keeps it off the last node."""
        if not self._topology_fallback or all(constraint.topology_key != HOSTNAME for constraint in cls.spread):
            return False
        reasons = self._placer.why(cls, last)
        return bool(reasons) and reasons[0].message == SKEWED and self._finds_room(cls, slice(0, last))

    def _add(self, count: int) -> int:
        """Add up to `count` nodes; a refusal by the limit is final for this estimation. Return how many came."""
        granted = count if self._allowed is None else min(count, self._allowed)
        if granted < count:
            self._may_add = False
        if granted <= 0:
            return 0
        if self._allowed is not None:
            self._allowed -= granted
        self._trial.add(self._template, granted)
        self._used = np.concatenate([self._used, np.zeros(granted, dtype=np.int64)])
        return granted

    def _put(self, cls: PodClass, offsets: Positions, counts: Positions) -> None:
        if len(offsets):
            packed = Packed(cls, offsets + self._first, counts)
            self._placer.place_many(cls, packed.positions, counts)
            self.packed.append(packed)
            self._used[offsets] += counts

    def _put_one(self, cls: PodClass, position: int) -> None:
        self._placer.place(cls, position)
        self.packed.append(Packed(cls, np.array([position]), np.array([1])))
        if position >= self._first:
            self._used[position - self._first] += 1


def spread_over(pods: Iterable[Pod], positions: Positions, counts: Positions) -> Iterator[tuple[Pod, int]]:
    """Yield each of the first pods with the position of one of the places for it; takes no more pods than places."""
    places = np.repeat(positions, counts).tolist()
    return ((pod, position) for position, pod in zip(places, pods, strict=False))


def deal(placer: Placer, groups: Sequence[PodGroup], template: Template, window: slice) -> tuple[tuple[Pod, int], ...]:
    """Put pods on nodes that are there, the largest first as in an estimation; return those that found room, and where.

    What is placed stays on the placer's trial.
    """
    placed: list[tuple[Pod, int]] = []
    for group in sorted(groups, key=lambda group: -score(group.cls, template)):
        if placer.guards(group.cls):
            for pod in group.pods:
                position = placer.first(group.cls, window, window.start)
                if position is None:
                    break
                placer.place(group.cls, position)
                placed.append((pod, position))
        else:
            taken, _, _ = round_robin(placer.copies(group.cls, window), len(group.pods), 0)
            offsets = np.flatnonzero(taken)
            if len(offsets):
                placer.place_many(group.cls, offsets + window.start, taken[offsets])
                placed.extend(spread_over(group.pods, offsets + window.start, taken[offsets]))
    return tuple(placed)
