"""Which classes have terms that select a given class: the other direction of `class_selection`."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autoscaler.objects.pod import PodClass
from autoscaler.scheduling.class_selection import Classes, Numbers, Selection
from autoscaler.scheduling.index_keys import IndexKey, index_keys_of


class TermIndex:
    """Terms of classes, to be found by the classes that they select.

    Classes with the same terms make a group. A term that selects few classes is kept by an index key of these; a
    group's other terms are kept as a row of bits, which is the set of classes that they select.
    """

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self._groups: dict[frozenset[bytes], int] = {}
        self._owners: list[int] = []
        self._group_of: list[int] = []
        """By owner; a class is one once."""
        self._last = -1
        self._fresh: list[tuple[int, Sequence[Selection]]] = []
        """Groups that have not been sorted into those below, by number, with their terms."""
        self._narrow: dict[IndexKey, list[tuple[int, Selection]]] = {}
        self._wide: list[int] = []
        """The groups that have other terms."""
        self._wide_terms: list[Sequence[Selection]] = []
        self._wide_array: Numbers = np.zeros(0, dtype=np.int64)
        self._width = 0
        self._bits: NDArray[np.uint8] = np.zeros((0, 0), dtype=np.uint8)
        """A row for each of `_wide`, a bit for each of the first classes: those known when the first row was made."""
        self._arrays: tuple[Numbers, Numbers] = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        """Return how many groups there are."""
        return len(self._groups)

    @property
    def owners(self) -> int:
        """How many classes have such terms."""
        return len(self._owners)

    def note(self, owner: PodClass, terms: Sequence[Selection]) -> None:
        """Take in a class with its terms."""
        identity = frozenset(selection.identity for selection in terms)
        group = self._groups.setdefault(identity, len(self._groups))
        if group > self._last:
            self._last = group
            self._fresh.append((group, terms))
        self._owners.append(self._classes.number(owner))
        self._group_of.append(group)

    def members(self, groups: Numbers) -> Numbers:
        """Return the classes whose terms these are, in the order in which they were noted."""
        if len(self._arrays[0]) < len(self._owners):
            self._arrays = np.array(self._owners, dtype=np.int64), np.array(self._group_of, dtype=np.int64)
        owners, group_of = self._arrays
        chosen = np.zeros(len(self), dtype=np.bool_)
        chosen[groups] = True
        return owners[chosen[group_of]]

    def owners_about(self, cls: PodClass) -> list[PodClass]:
        """Return the classes with a term that selects a class, in the order in which they were noted."""
        groups = self.about(cls, 0)
        return [self._classes.all[number] for number in self.members(groups).tolist()]

    def about(self, cls: PodClass, start: int) -> Numbers:
        """Return the groups with a term that selects a class, from group number `start` on."""
        number = self._classes.number(cls)
        self._sort()
        groups: set[int] = set()
        for index_key in index_keys_of(cls):
            for group, term in reversed(self._narrow.get(index_key, ())):
                if group < start:
                    break
                if group not in groups and term.covers(cls):
                    groups.add(group)
        wide = self._wide_about(number, cls, start)
        return np.union1d(wide, sorted(groups)).astype(np.int64) if groups else wide

    def _wide_about(self, number: int, cls: PodClass, start: int) -> Numbers:
        first = bisect_left(self._wide, start)
        if number < self._width:
            column = self._bits[first : len(self._wide), number >> 3] & (128 >> (number & 7))
            return self._wide_array[first : len(self._wide)][column > 0]
        about = (
            group
            for group, terms in zip(self._wide[first:], self._wide_terms[first:], strict=True)
            if any(term.covers(cls) for term in terms)
        )
        return np.fromiter(about, dtype=np.int64)

    def _sort(self) -> None:
        for group, terms in self._fresh:
            wide: list[Selection] = []
            for term in terms:
                index_keys = self._classes.rarest(term)
                for index_key in dict.fromkeys(index_keys or ()):
                    self._narrow.setdefault(index_key, []).append((group, term))
                if index_keys is None:
                    wide.append(term)
            if wide:
                self._add_row(wide)
                self._wide.append(group)
                self._wide_terms.append(wide)
        self._fresh.clear()
        if len(self._wide_array) < len(self._wide):
            self._wide_array = np.array(self._wide, dtype=np.int64)

    def _add_row(self, terms: Sequence[Selection]) -> None:
        row, classes = len(self._wide), self._classes
        self._width = self._width or len(classes)
        if row == len(self._bits):
            more = np.zeros((row + 64, (self._width + 7) // 8), dtype=np.uint8)
            self._bits = np.concatenate([self._bits, more]) if row else more
        mask = np.zeros(len(classes), dtype=np.bool_)
        mask[classes.covered(terms)] = True
        self._bits[row] = np.packbits(mask[: self._width])
