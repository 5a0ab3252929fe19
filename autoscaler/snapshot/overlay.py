"""Trials: simulated nodes and placements on top of a view, undone when the block ends.

    trial = Trial(view)
    with trial.fork() as fork:
        new = trial.add(template, 3)
        trial.place(cls, new.start)
        fork.keep()             # without it nothing remains

Forks nest. A node is its position: those of the view first, then added ones in order. Added nodes share their
template and get names only when asked, so a thousand of them cost no more than a few array columns.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import PodClass
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import ABSENT, Amounts, Codes, Mask
from autoscaler.snapshot.template import Template

Positions = NDArray[np.int64]
S = TypeVar("S", bound=np.generic)


class Watcher(Protocol):
    """Receives each move of pods whose class it counts, including moves by undoing."""

    def counts(self, cls: PodClass) -> bool:
        """Whether the watcher counts moves of this class; the answer never changes."""
        ...

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Record that `counts` pods of the class were added to (if negative, removed from) the nodes at `positions`.

        `positions` and `counts` have the same length; the positions are distinct.
        """
        ...


class Fork:
    """One level of a trial that can be undone."""

    def __init__(self) -> None:
        self.kept = False

    def keep(self) -> None:
        """Keep the changes when the block ends; an outer fork may still undo them."""
        self.kept = True


class _Move(msgspec.Struct, frozen=True):
    cls: PodClass
    positions: Positions
    counts: Positions


class _Added(msgspec.Struct, frozen=True):
    count: int
    counted: str = ""
    """Name of the template for groups whose nodes come in several zones."""


class _Removed(msgspec.Struct, frozen=True):
    position: int


class Trial:
    """A simulated cluster. Threads must not share it."""

    def __init__(self, view: ClusterView) -> None:
        columns = view.columns
        columns.widen()
        self.view = view
        self.vocabulary = columns.vocabulary
        self.base = len(view.nodes)
        """Nodes of the view have positions below this one."""
        self.count = self.base
        self._free: Amounts = columns.allocatable - columns.used
        self._counted: Codes = np.full(self.base, columns.counted, dtype=np.int32)
        """`(nodes,)`: how many resources had names when the node came; it has none of those named later."""
        self._alive: Mask = np.ones(self.base, dtype=np.bool_)
        self._cordoned: Mask = columns.cordoned
        self._taints: Codes = columns.taint_codes
        self._labels: dict[str, Codes] = {}
        self._absent: Codes = np.full(self.base, ABSENT, dtype=np.int32)
        self._template_keys: set[str] = {HOSTNAME}
        self.templates: list[Template] = []
        """Every template from which nodes were added, in any fork."""
        self._kinds: Codes = np.full(self.base, -1, dtype=np.int32)
        self._added: list[Template] = []
        self._suffixes: list[str] = []
        self._came: dict[str, int] = {}
        self._kind_codes: dict[str, list[int]] = {}
        self._deltas: dict[PodClass, dict[int, int]] = {}
        self._log: list[_Move | _Added | _Removed] = []
        self._watchers: list[Watcher] = []
        self._interested: dict[PodClass, list[Watcher]] = {}
        self.version = 0
        """Changes whenever nodes are added or removed."""
        self._hostnames = len(self.vocabulary.values.get(HOSTNAME, ()))

    @property
    def free(self) -> Amounts:
        """Unreserved amounts: `(resources, nodes)` int64, one row per known resource.

        Change them only with `place` and `lift`.
        """
        self._reserve(self.count)
        if len(self._free) < len(self.vocabulary.rows):
            self._reserve(self.count)
        return self._free[:, : self.count]

    def open(self, window: slice) -> Mask:
        """Return a mask over the window of nodes that a search may use: not removed and not cordoned."""
        return self._alive[window] & ~self._cordoned[window]

    def cordoned(self, position: int) -> bool:
        """Whether the node is marked unschedulable."""
        return bool(self._cordoned[position])

    @property
    def alive(self) -> Mask:
        """Mask `(nodes,)` of nodes that this trial has not removed."""
        return self._alive[: self.count]

    @property
    def taint_codes(self) -> Codes:
        """`(nodes,)`: the code of each node's set of taints."""
        return self._taints[: self.count]

    @property
    def kinds(self) -> Codes:
        """`(nodes,)`: index of each added node's template in `templates`; -1 for nodes of the view."""
        return self._kinds[: self.count]

    def has_label(self, key: str | None) -> bool:
        """Whether any node may have a label with this key; None means the same as for `labels`."""
        return key is None or key in self.view.columns.keys or key in self._template_keys

    @property
    def label_keys(self) -> frozenset[str]:
        """The label keys that any node may have."""
        return self.view.columns.keys | self._template_keys

    def labels(self, key: str | None) -> Codes:
        """Return each node's code for a label key, `(nodes,)`; for None, its position."""
        if key is None:
            return np.arange(self.count, dtype=np.int32)
        if not self.has_label(key):
            if len(self._absent) < self.count:
                self._absent = np.full(len(self._alive), ABSENT, dtype=np.int32)
            return self._absent[: self.count]
        known = self._labels.get(key)
        if known is None:
            known = np.empty(len(self._alive), dtype=np.int32)
            known[: self.base] = self.view.columns.labels(key)
            if key == HOSTNAME:
                self._hostnames = len(self.vocabulary.values.get(HOSTNAME, ()))
            for offset in range(self.count - self.base):
                known[self.base + offset] = self._label_code(key, self.base + offset)
            self._labels[key] = known
        return known[: self.count]

    def _label_code(self, key: str, position: int) -> int:
        if key == HOSTNAME:
            return self._hostnames + position - self.base
        return self.vocabulary.code(key, self._added[position - self.base].node.labels.get(key))

    def codes_at(self, key: str | None, positions: Positions, kinds: Codes) -> Codes:
        """Return the codes of nodes of these kinds (see `kinds`) that are, or once were, at these positions."""
        if key is None:
            return positions.astype(np.int32)
        known, added = self.labels(key), kinds >= 0
        if not added.any():
            return known[positions]
        codes = np.empty(len(positions), dtype=np.int32)
        codes[~added] = known[positions[~added]]
        if key == HOSTNAME:
            codes[added] = self._hostnames + positions[added] - self.base
        else:
            by_kind = self._kind_codes.setdefault(key, [])
            rest = self.templates[len(by_kind) :]
            by_kind.extend(self.vocabulary.code(key, template.node.labels.get(key)) for template in rest)
            codes[added] = np.array(by_kind, dtype=np.int32)[kinds[added]]
        return codes

    def node(self, position: int) -> Node:
        """Return the node at a position; an added node gets its name on first use."""
        if position < self.base:
            return self.view.nodes[position]
        template, name = self._added[position - self.base].node, self.name(position)
        return msgspec.structs.replace(template, name=name, labels={**template.labels, HOSTNAME: name})

    def name(self, position: int) -> str:
        """Return the name of the node at a position."""
        if position < self.base:
            return self.view.nodes[position].name
        added = position - self.base
        return f"{self._added[added].node.name}-{self._suffixes[added]}"

    def template(self, position: int) -> Template | None:
        """Return the template of an added node; None for nodes of the view."""
        return None if position < self.base else self._added[position - self.base]

    def classes_on(self, position: int) -> dict[PodClass, int]:
        """Return the number of pods per class on a node, including trial placements."""
        counts: dict[PodClass, int] = {}
        if position < self.base:
            for pod in self.view.pods[position]:
                counts[pod.cls] = counts.get(pod.cls, 0) + 1
        else:
            for pod in self._added[position - self.base].pods:
                counts[pod.cls] = counts.get(pod.cls, 0) + 1
        for cls, deltas in self._deltas.items():
            if delta := deltas.get(position, 0):
                counts[cls] = counts.get(cls, 0) + delta
        return {cls: count for cls, count in counts.items() if count > 0}

    def moves(self, among: Collection[PodClass] | None = None) -> Iterator[tuple[PodClass, Positions, Positions]]:
        """Yield all differences from the view, including the template pods of added nodes, for a watcher that starts
        late.

        `among`: only pods of these classes.
        """
        for kind, template in enumerate(self.templates):
            positions = np.flatnonzero(self.kinds == kind)
            for pod in template.pods if len(positions) else ():
                if among is None or pod.cls in among:
                    yield pod.cls, positions, np.ones(len(positions), dtype=np.int64)
        for cls in tuple(self._deltas) if among is None else among:
            if deltas := self._deltas.get(cls):
                yield cls, np.fromiter(deltas.keys(), dtype=np.int64), np.fromiter(deltas.values(), dtype=np.int64)

    def watch(self, watcher: Watcher) -> None:
        """Report all later moves to `watcher`."""
        self._watchers.append(watcher)
        self._interested.clear()

    @contextmanager
    def fork(self) -> Iterator[Fork]:
        """Undo all changes of the block on exit, unless the fork is kept."""
        fork = Fork()
        start = len(self._log)
        try:
            yield fork
        except BaseException:
            fork.kept = False
            raise
        finally:
            if not fork.kept:
                while len(self._log) > start:
                    self._undo(self._log.pop())

    def add(self, template: Template, count: int, suffix: str = "e-", numbered: int | None = None) -> range:
        """Add copies of a template, named `<template>-<suffix><number>`; return their positions.

        Numbers start at `numbered`, by default after those of all nodes added before. If the group's nodes come in
        several zones, the copies continue the sequence of zones of the nodes added before.
        """
        first = self.count
        if count <= 0:
            return range(first, first)
        # The node's resources first: only after that do requests for those that no node had before count.
        allocatable = self.vocabulary.amounts(template.node.allocatable)
        vectors = [self.vocabulary.vector(pod.cls) for pod in template.pods]
        self._reserve(first + count)
        free = np.zeros(len(self._free), dtype=np.int64)
        free[: len(allocatable)] = allocatable
        for vector in vectors:
            free[: len(vector)] -= vector
        new = slice(first, first + count)
        self._free[:, new] = free[:, None]
        self._counted[new] = len(free)
        self._alive[new] = True
        self._cordoned[new] = template.node.unschedulable
        self._taints[new] = self.vocabulary.taint_code(template.node.taints)
        counted = template.node.name if template.zones is not None else ""
        came = self._came.get(counted, 0)
        copies = template.copies(came, count)
        if counted:
            self._came[counted] = came + count
        variants = copies if counted else [template]
        self._kinds[new] = [self._kind(variant) for variant in variants]
        start = len(self._added) if numbered is None else numbered
        self._added.extend(copies)
        self._suffixes.extend(f"{suffix}{start + offset}" for offset in range(count))
        self.count = first + count
        for key, codes in self._labels.items():
            if key == HOSTNAME:
                codes[new] = np.arange(first, self.count) - self.base + self._hostnames
            else:
                codes[new] = [self.vocabulary.code(key, variant.node.labels.get(key)) for variant in variants]
        self._log.append(_Added(count, counted))
        self._announce(template, first, count, 1)
        return range(first, self.count)

    def _kind(self, template: Template) -> int:
        for kind, known in enumerate(self.templates):
            if known is template:
                return kind
        self.templates.append(template)
        self._template_keys.update(template.node.labels)
        return len(self.templates) - 1

    def _announce(self, template: Template, first: int, count: int, sign: int) -> None:
        self.version += 1
        if self._watchers and template.pods:
            positions = np.arange(first, first + count)
            for pod in template.pods:
                self._tell(pod.cls, positions, np.full(count, sign, dtype=np.int64))

    def place(self, cls: PodClass, position: int, count: int = 1) -> None:
        """Put pods of a class on a node, even if they do not fit."""
        self.place_many(cls, np.array([position]), np.array([count]))

    def lift(self, cls: PodClass, position: int, count: int = 1) -> None:
        """Remove pods of a class from a node."""
        self.place_many(cls, np.array([position]), np.array([-count]))

    def place_many(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Put `counts` pods of a class on the nodes at `positions`; the positions are distinct."""
        self._move(cls, positions, counts)
        self._log.append(_Move(cls, positions, counts))

    def remove(self, position: int) -> None:
        """Remove a node. Its pods still count as neighbours unless they are lifted first."""
        self._alive[position] = False
        self._log.append(_Removed(position))
        self.version += 1

    def _move(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        vector = self.vocabulary.vector(cls)
        self._reserve(self.count)
        counted = self._counted[positions]
        everywhere = int(counted.min(initial=len(vector)))
        for row in np.flatnonzero(vector[:everywhere]):
            self._free[row, positions] -= vector[row] * counts
        for row in everywhere + np.flatnonzero(vector[everywhere:]):
            having = counted > row
            self._free[row, positions[having]] -= vector[row] * counts[having]
        deltas = self._deltas.setdefault(cls, {})
        for position, count in zip(positions.tolist(), counts.tolist(), strict=True):
            total = deltas.get(position, 0) + count
            if total:
                deltas[position] = total
            else:
                deltas.pop(position, None)
        self._tell(cls, positions, counts)

    def _tell(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        interested = self._interested.get(cls)
        if interested is None:
            interested = self._interested[cls] = [watcher for watcher in self._watchers if watcher.counts(cls)]
        for watcher in interested:
            watcher.moved(cls, positions, counts)

    def _undo(self, entry: _Move | _Added | _Removed) -> None:
        match entry:
            case _Move(cls, positions, counts):
                self._move(cls, positions, -counts)
            case _Added(count, counted):
                first = self.count - count
                if counted:
                    self._came[counted] -= count
                self._announce(self._added[-1], first, count, -1)
                del self._added[-count:], self._suffixes[-count:]
                self.count = first
            case _Removed(position):
                self._alive[position] = True
                self.version += 1

    def _reserve(self, count: int) -> None:
        """Allocate columns for `count` more nodes, and rows for every known resource."""
        rows, capacity = self._free.shape
        wanted_rows = len(self.vocabulary.rows)
        if count <= capacity and wanted_rows <= rows and capacity == len(self._alive):
            return
        wanted = capacity if count <= capacity else max(count, capacity + capacity // 2 + 64)
        free = np.zeros((max(rows, wanted_rows), wanted), dtype=np.int64)
        free[:rows, :capacity] = self._free
        self._free = free
        if wanted > capacity:
            self._counted = _grown(self._counted, wanted)
            self._alive = _grown(self._alive, wanted)
            self._cordoned = _grown(self._cordoned, wanted)
            self._taints = _grown(self._taints, wanted)
            self._kinds = _grown(self._kinds, wanted)
            self._labels = {key: _grown(codes, wanted) for key, codes in self._labels.items()}


def _grown(array: NDArray[S], size: int) -> NDArray[S]:
    larger = np.zeros(size, dtype=array.dtype)
    larger[: len(array)] = array
    return larger
