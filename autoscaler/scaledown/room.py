"""Finds room for pods of removed nodes with a fast copy of a trial's free amounts.

Most pods need nothing but room, and are placed tens of thousands at a time, so for them the amounts are plain Python
lists, and each kind of request keeps a map of the nodes it may still find room on. Room on a destination only ever
shrinks, so a node that refused a request keeps refusing it: its mark is wiped. The trial itself learns of moves late,
all at once, when a class asks whose filters depend on other pods.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from autoscaler.objects.pod import PodClass
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.columns import Mask

_FREE = 1

Need = tuple[tuple[int, int], ...]
"""Row and amount of each resource that a pod asks for."""


class _Spots(msgspec.Struct, frozen=True, gc=False):
    """What a class needs, and where it may find it."""

    cls: PodClass
    need: Need
    guarded: bool
    marks: bytearray
    """A byte per node, `_FREE` where there may be room; shared by all classes with the same wishes."""


class Room:
    """Destinations of one pass. Nothing is taken for good until `commit`."""

    def __init__(self, placer: Placer, destinations: Mask) -> None:
        trial = placer.trial
        self._placer = placer
        self._trial = trial
        self._destinations = destinations.copy()
        self._initial = trial.free[:, : trial.base].copy()
        self._rows = len(self._initial)
        # One flat list: thousands of small ones would set off the garbage collector.
        self._free: list[int] = self._initial.T.ravel().tolist()
        self._spots: dict[PodClass, _Spots] = {}
        self._welcoming: dict[tuple[object, ...], Mask] = {}
        self._marks: dict[tuple[tuple[object, ...], Need], bytearray] = {}
        self._put: list[_Spots] = []
        self._put_at: list[int] = []
        self._lifted: list[PodClass] = []
        self._refused: list[tuple[bytearray, int]] = []
        self._untold: dict[PodClass, dict[int, int]] = {}
        self._untold_gone: list[int] = []
        self._leaving = -1
        self._cursor = 0
        placed = (cls for cls, _, _ in trial.moves())
        self._some_keep_away = any(cls.pod_anti_affinity for cls in (*trial.view.classes, *placed))

    def leave(self, position: int, classes: Sequence[PodClass]) -> None:
        """Begin to remove a node: a pod of each of these classes is off it, and it is no destination."""
        self._leaving = position
        for cls in classes:
            self._note(cls, position, -1)
        self._lifted += classes

    def place(self, cls: PodClass, hint: int | None) -> int | None:
        """Put a pod of the class on a destination, the hinted one if it can go there; None: it fits nowhere.

        A search starts behind the last place found and goes round.
        """
        spots = self._spots.get(cls)
        if spots is None:
            spots = self._spots[cls] = self._new_spots(cls)
        if hint is not None and self._fits(spots, hint):
            return self._take(spots, hint)
        position = self._search_guarded(spots) if spots.guarded else self._search(spots)
        if position is None:
            return None
        self._cursor = (position + 1) % self._trial.base
        return self._take(spots, position)

    def _take(self, spots: _Spots, position: int) -> int:
        free, first = self._free, position * self._rows
        for row, amount in spots.need:
            free[first + row] -= amount
        self._note(spots.cls, position, 1)
        self._put.append(spots)
        self._put_at.append(position)
        return position

    def commit(self, *, gone: bool) -> None:
        """Keep everything since `leave`; the node is no destination any more, and with `gone` no node either."""
        for marks, position in self._refused:
            marks[position] = 0
        self._destinations[self._leaving] = False
        if gone:
            self._untold_gone.append(self._leaving)
        self._begin_anew()

    def undo(self) -> None:
        """Take everything back since `leave`."""
        free, touched = self._free, set(self._put_at)
        for spots, position in zip(self._put, self._put_at, strict=True):
            self._note(spots.cls, position, -1)
            for row, amount in spots.need:
                free[position * self._rows + row] += amount
        for cls in self._lifted:
            self._note(cls, self._leaving, 1)
        for marks, position in self._refused:
            if position not in touched:
                marks[position] = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._leaving = -1
        self._put.clear()
        self._put_at.clear()
        self._lifted.clear()
        self._refused.clear()

    def _new_spots(self, cls: PodClass) -> _Spots:
        needed = self._placer.need(cls)
        need = tuple((row, int(needed[row])) for row in np.flatnonzero(needed > 0).tolist())
        wishes = _wishes(cls)
        marks = self._marks.get((wishes, need))
        if marks is None:
            mask = self._welcoming_nodes(wishes, cls) & self._destinations
            for row, amount in need:
                mask &= self._initial[row] >= amount
            marks = self._marks[wishes, need] = bytearray(mask.tobytes())
        return _Spots(cls, need, self._guarded(cls), marks)

    def _welcoming_nodes(self, wishes: tuple[object, ...], cls: PodClass) -> Mask:
        known = self._welcoming.get(wishes)
        if known is None:
            everywhere = slice(0, self._trial.base)
            known = self._trial.open(everywhere) & self._placer.accepted(cls, everywhere)
            self._welcoming[wishes] = known
        return known

    def _guarded(self, cls: PodClass) -> bool:
        """Whether filters of the class depend on other pods."""
        if not (self._some_keep_away or self._placer.may_guard(cls)):
            return False
        # A filter that is built now counts what the trial knows now.
        self._tell()
        return bool(self._placer.guards(cls))

    def _fits(self, spots: _Spots, position: int) -> bool:
        if spots.marks[position] != _FREE or position == self._leaving or not self._destinations[position]:
            return False
        free, first = self._free, position * self._rows
        for row, amount in spots.need:
            if free[first + row] < amount:
                return False
        if not spots.guarded:
            return True
        self._tell()
        return self._placer.fits(spots.cls, position)

    def _search(self, spots: _Spots) -> int | None:
        marks, need, start = spots.marks, spots.need, self._cursor
        for low, high in ((start, len(marks)), (0, start)):
            position = marks.find(_FREE, low, high)
            while position >= 0:
                if position != self._leaving and self._has_room(marks, need, position):
                    return position
                position = marks.find(_FREE, position + 1, high)
        return None

    def _has_room(self, marks: bytearray, need: Need, position: int) -> bool:
        if not self._destinations[position]:
            marks[position] = 0
            return False
        free, first = self._free, position * self._rows
        for row, amount in need:
            if free[first + row] < amount:
                self._refused.append((marks, position))
                return False
        return True

    def _search_guarded(self, spots: _Spots) -> int | None:
        self._tell()
        among: Mask = (np.frombuffer(spots.marks, dtype=np.uint8) == _FREE) & self._destinations
        among[self._leaving] = False
        return self._placer.first(spots.cls, slice(0, self._trial.base), self._cursor, among)

    def _note(self, cls: PodClass, position: int, count: int) -> None:
        deltas = self._untold.get(cls)
        if deltas is None:
            self._untold[cls] = {position: count}
        else:
            deltas[position] = deltas.get(position, 0) + count

    def _tell(self) -> None:
        """Bring the trial up to date."""
        for cls, deltas in self._untold.items():
            moved = {position: count for position, count in deltas.items() if count}
            if moved:
                positions = np.fromiter(moved.keys(), dtype=np.int64, count=len(moved))
                counts = np.fromiter(moved.values(), dtype=np.int64, count=len(moved))
                self._placer.place_many(cls, positions, counts)
        self._untold.clear()
        for position in self._untold_gone:
            self._trial.remove(position)
        self._untold_gone.clear()


def _wishes(cls: PodClass) -> tuple[object, ...]:
    """Return what decides which nodes suit a class: equal for equal wishes."""
    affinity = None if cls.node_affinity is None else msgspec.msgpack.encode(cls.node_affinity)
    selector = tuple(sorted(cls.node_selector.items())) if cls.node_selector else ()
    return selector, affinity, cls.tolerations, cls.node_name, cls.features
