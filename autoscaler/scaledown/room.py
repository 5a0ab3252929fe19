"""Where pods of removed nodes find room: a quick mirror of a trial's free amounts.

Most pods need nothing but room, and are placed tens of thousands at a time, so for them the amounts are plain Python
lists, and each class keeps a map of the nodes it may still find room on. Room on a destination only ever shrinks, so a
node that refused a class keeps refusing it: its mark is wiped. The trial itself learns of moves late, all at once,
when a class asks whose filters depend on other pods.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scheduling import masks
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.columns import Mask

_FREE = 1


class _Spots(msgspec.Struct):
    """What a class needs, and where it may find it."""

    cls: PodClass
    need: tuple[tuple[int, int], ...]
    """Row and amount of each resource."""
    guarded: bool
    marks: bytearray
    """A byte per node, `_FREE` where there may be room."""


class _Put(msgspec.Struct, frozen=True, gc=False):
    spots: _Spots
    position: int


class Room:
    """Destinations of one pass. Nothing is taken for good until `commit`."""

    def __init__(self, placer: Placer, destinations: Mask) -> None:
        trial = placer.trial
        self._placer = placer
        self._trial = trial
        self._destinations = destinations.copy()
        self._initial = trial.free[:, : trial.base].copy()
        self._free: list[list[int]] = self._initial.T.tolist()
        self._spots: dict[PodClass, _Spots] = {}
        self._log: list[_Put] = []
        self._lifted: list[tuple[PodClass, int]] = []
        self._refused: list[tuple[bytearray, int]] = []
        self._untold: dict[PodClass, dict[int, int]] = {}
        self._untold_gone: list[int] = []
        self._leaving = -1
        self._cursor = 0

    def leave(self, position: int, pods: Sequence[Pod]) -> None:
        """Begin to remove a node: these pods are off it, and it is no destination."""
        self._leaving = position
        for pod in pods:
            self._note(pod.cls, position, -1)
            self._lifted.append((pod.cls, position))

    def place(self, cls: PodClass, hint: int | None) -> int | None:
        """Put a pod of the class on a destination, the hinted one if it can go there; None: it fits nowhere.

        A search starts behind the last place found and goes round.
        """
        spots = self._spots_of(cls)
        if hint is not None and hint != self._leaving and self._fits(spots, hint):
            self._put(spots, hint)
            return hint
        position = self._search(spots)
        if position is not None:
            self._cursor = (position + 1) % self._trial.base
            self._put(spots, position)
        return position

    def commit(self, *, gone: bool) -> None:
        """Keep everything since `leave`; the node is no destination any more, and with `gone` no node either."""
        for marks, position in self._refused:
            marks[position] = 0
        self._destinations[self._leaving] = False
        for spots in self._spots.values():
            spots.marks[self._leaving] = 0
        if gone:
            self._untold_gone.append(self._leaving)
        self._begin_anew()

    def undo(self) -> None:
        """Take everything back since `leave`."""
        touched = set()
        for put in self._log:
            touched.add(put.position)
            self._note(put.spots.cls, put.position, -1)
            free = self._free[put.position]
            for row, amount in put.spots.need:
                free[row] += amount
        for cls, position in self._lifted:
            self._note(cls, position, 1)
        for marks, position in self._refused:
            if position not in touched:
                marks[position] = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._leaving = -1
        self._log.clear()
        self._lifted.clear()
        self._refused.clear()

    def _spots_of(self, cls: PodClass) -> _Spots:
        known = self._spots.get(cls)
        if known is None:
            known = self._spots[cls] = self._new_spots(cls)
        return known

    def _new_spots(self, cls: PodClass) -> _Spots:
        trial, everywhere = self._trial, slice(0, self._trial.base)
        vector = trial.vocabulary.vector(cls)
        # A filter that is built now counts what the trial knows now.
        self._tell()
        guarded = bool(self._placer.guards(cls))
        mask = self._destinations & trial.open(everywhere) & self._placer.accepted(cls, everywhere)
        mask &= masks.roomy(vector, self._initial)
        need = tuple((int(row), int(vector[row])) for row in np.flatnonzero(vector > 0))
        return _Spots(cls, need, guarded, bytearray(mask.astype(np.uint8).tobytes()))

    def _fits(self, spots: _Spots, position: int) -> bool:
        if spots.marks[position] != _FREE:
            return False
        free = self._free[position]
        for row, amount in spots.need:
            if free[row] < amount:
                return False
        if not spots.guarded:
            return True
        self._tell()
        return self._placer.fits(spots.cls, position)

    def _search(self, spots: _Spots) -> int | None:
        if spots.guarded:
            return self._search_guarded(spots)
        marks, start = spots.marks, self._cursor
        for low, high in ((start, len(marks)), (0, start)):
            position = marks.find(_FREE, low, high)
            while position >= 0:
                if position != self._leaving:
                    free = self._free[position]
                    for row, amount in spots.need:
                        if free[row] < amount:
                            break
                    else:
                        return position
                    self._refused.append((marks, position))
                position = marks.find(_FREE, position + 1, high)
        return None

    def _search_guarded(self, spots: _Spots) -> int | None:
        self._tell()
        among: Mask = np.frombuffer(spots.marks, dtype=np.uint8) == _FREE
        among[self._leaving] = False
        return self._placer.first(spots.cls, slice(0, self._trial.base), self._cursor, among)

    def _put(self, spots: _Spots, position: int) -> None:
        free = self._free[position]
        for row, amount in spots.need:
            free[row] -= amount
        self._note(spots.cls, position, 1)
        self._log.append(_Put(spots, position))

    def _note(self, cls: PodClass, position: int, count: int) -> None:
        deltas = self._untold.get(cls)
        if deltas is None:
            deltas = self._untold[cls] = {}
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
