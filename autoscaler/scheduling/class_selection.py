"""Which classes of pods a term selects: sets of class numbers, found by set arithmetic.

A selection demands index keys (see `index_keys`), labels and namespaces. The classes that have a key are known, so that
what a selection covers is a union, an intersection or a complement of few sets, and no class is compared on its own.
Where a selection demands a key that only few classes have, these few are compared instead, which is cheaper still.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from autoscaler.objects.meta import LabelSelector, Operator, Requirement, integer
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import PodAffinityTerm, SpreadConstraint
from autoscaler.objects.workload import Namespace
from autoscaler.scheduling.index_keys import IndexKey, index_keys_of, sibling_key
from autoscaler.snapshot.columns import Mask

Numbers = NDArray[np.int64]
"""Sorted, each once."""

_FEW = 32
"""So many classes are asked one by one."""
NO_NUMBERS: Numbers = np.zeros(0, dtype=np.int64)
_NOTHING = Requirement(key="", operator=Operator.IN)
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class NamespaceSelection(msgspec.Struct, frozen=True):
    """The namespaces that are listed, and those that are selected; an empty selector selects all."""

    names: frozenset[str]
    selector: LabelSelector | None
    namespaces: Mapping[str, Namespace]

    def holds(self, name: str) -> bool:
        """Whether it is one of these namespaces."""
        if name in self.names:
            return True
        if self.selector is None or self.selector.empty:
            return self.selector is not None
        known = self.namespaces.get(name)
        return known is not None and self.selector.matches(known.metadata.labels)


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Classes of pods that have all that is demanded."""

    identity: bytes
    """Equal for selections that cover the same."""
    labels: tuple[Requirement, ...] = ()
    inside: tuple[NamespaceSelection, ...] = ()
    index_keys: frozenset[IndexKey] | None = None
    """It covers classes with at least one of these keys; None: with any keys."""

    def covers(self, cls: PodClass) -> bool:
        """Whether a class is among them."""
        return (
            all(requirement.matches(cls.labels.get(requirement.key)) for requirement in self.labels)
            and all(namespaces.holds(cls.namespace) for namespaces in self.inside)
            and (self.index_keys is None or not self.index_keys.isdisjoint(index_keys_of(cls)))
        )

    def demanded(self) -> Iterator[Sequence[IndexKey]]:
        """Yield sets of index keys: every class that is covered has a key of each set."""
        for requirement in self.labels:
            if requirement.operator == Operator.IN:
                yield [(requirement.key, value) for value in requirement.values]
            elif requirement.operator not in (Operator.NOT_IN, Operator.DOES_NOT_EXIST):
                yield [requirement.key]
        for place in self.inside:
            if place.selector is None:
                yield [(name,) for name in place.names]
        if self.index_keys is not None:
            yield list(self.index_keys)


class KeyIndex:
    """Things with labels, by number in the order in which they were added, and by index key."""

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str]] = []
        self._by_key: dict[IndexKey, list[int]] = {}
        self._arrays: dict[IndexKey, Numbers] = {}
        self._integers: dict[str, tuple[int, Numbers, Numbers]] = {}

    def __len__(self) -> int:
        """Return how many things there are."""
        return len(self._labels)

    def add(self, labels: Mapping[str, str], index_keys: Iterable[IndexKey]) -> int:
        """Add something; return its number."""
        number = len(self._labels)
        self._labels.append(labels)
        for index_key in index_keys:
            self._by_key.setdefault(index_key, []).append(number)
        return number

    def at(self, index_key: IndexKey) -> Sequence[int]:
        """Return the things that have a key; some may be repeated."""
        return self._by_key.get(index_key, ())

    def restrict(self, mask: Mask, demands: Iterable[Requirement]) -> None:
        """Take out of a set of all things those that do not meet the demands on labels."""
        for requirement in demands:
            match requirement.operator:
                case Operator.IN:
                    self.keep(mask, ((requirement.key, value) for value in requirement.values))
                case Operator.EXISTS:
                    self.keep(mask, (requirement.key,))
                case Operator.NOT_IN:
                    for value in requirement.values:
                        mask[self._array((requirement.key, value))] = False
                case Operator.DOES_NOT_EXIST:
                    mask[self._array(requirement.key)] = False
                case Operator.GT | Operator.LT:
                    self._compare(mask, requirement)
                case _:
                    mask[:] = False

    def keep(self, mask: Mask, index_keys: Iterable[IndexKey]) -> None:
        """Take out of a set of all things those that have none of these keys."""
        mask &= self.having(index_keys)

    def having(self, index_keys: Iterable[IndexKey]) -> Mask:
        """Return which things have at least one of these keys."""
        inside = np.zeros(len(self), dtype=np.bool_)
        for index_key in index_keys:
            if index_key in self._by_key:
                inside[self._array(index_key)] = True
        return inside

    def _array(self, index_key: IndexKey) -> Numbers:
        listed = self._by_key.get(index_key, ())
        if len(listed) <= _FEW:
            return np.array(listed, dtype=np.int64)
        known = self._arrays.get(index_key)
        if known is None or len(known) < len(listed):
            known = self._arrays[index_key] = np.array(listed, dtype=np.int64)
        return known

    def _compare(self, mask: Mask, demand: Requirement) -> None:
        inside = np.zeros(len(mask), dtype=np.bool_)
        bound = integer(demand.values[0]) if len(demand.values) == 1 else None
        if bound is not None:
            numbers, values = self._integers_of(demand.key)
            inside[numbers[values > bound if demand.operator == Operator.GT else values < bound]] = True
        mask &= inside

    def _integers_of(self, key: str) -> tuple[Numbers, Numbers]:
        """Return which things have an integer as value of a label, and the integers."""
        listed = self.at(key)
        count, numbers, values = self._integers.get(key, (-1, NO_NUMBERS, NO_NUMBERS))
        if count < len(listed):
            by_number = {number: integer(self._labels[number][key]) for number in listed}
            known = {number: value for number, value in by_number.items() if value is not None}
            numbers, values = (np.fromiter(part, dtype=np.int64) for part in (known.keys(), known.values()))
            self._integers[key] = len(listed), numbers, values
        return numbers, values


class Classes:
    """The classes of pods that are known, by number; they grow."""

    def __init__(self, namespaces: Mapping[str, Namespace]) -> None:
        self.all: list[PodClass] = []
        self._leaving: list[int] = []
        self._index = KeyIndex()
        self._numbers: dict[PodClass, int] = {}
        self._places = KeyIndex()
        self._place_numbers = {name: self._places.add(*_place(namespace)) for name, namespace in namespaces.items()}
        self._place_of: list[int] = []
        self._place_array: Numbers = NO_NUMBERS

    def __len__(self) -> int:
        """Return how many are known."""
        return len(self.all)

    def number(self, cls: PodClass) -> int:
        """Return the number of a class; get to know it if it is new."""
        known = self._numbers.get(cls)
        if known is None:
            known = self._numbers[cls] = self._index.add(cls.labels, index_keys_of(cls))
            self.all.append(cls)
            if cls.leaving is not None:
                self._leaving.append(known)
            self._place_of.append(self._place_numbers.get(cls.namespace, len(self._places)))
        return known

    @property
    def leaving(self) -> Numbers:
        """Classes of pods on their way out."""
        return np.array(self._leaving, dtype=np.int64)

    def rarest(self, selection: Selection) -> Sequence[IndexKey] | None:
        """Return keys that few classes have and of which every covered class has one; None: there are none."""
        sets = [
            (sum(len(self._index.at(index_key)) for index_key in index_keys), index_keys)
            for index_keys in selection.demanded()
        ]
        count, rarest = min(sets, key=lambda counter_set: counter_set[0], default=(_FEW + 1, ()))
        return rarest if count <= _FEW else None

    def covered(self, selections: Iterable[Selection]) -> Numbers:
        """Return the classes that one of the selections covers."""
        few: set[int] = set()
        many: Mask | None = None
        for selection in selections:
            index_keys = self.rarest(selection)
            if index_keys is not None:
                asked = (
                    number for index_key in index_keys for number in self._index.at(index_key) if number not in few
                )
                few.update(number for number in asked if selection.covers(self.all[number]))
            elif many is None:
                many = self._among_all(selection)
            elif not many.all():
                many |= self._among_all(selection)
        if many is None:
            return np.array(sorted(few), dtype=np.int64)
        many[list(few)] = True
        return np.flatnonzero(many)

    def _among_all(self, selection: Selection) -> Mask:
        mask = np.ones(len(self), dtype=np.bool_)
        self._index.restrict(mask, selection.labels)
        for place in selection.inside:
            self._keep_inside(mask, place)
        if selection.index_keys is not None:
            self._index.keep(mask, selection.index_keys)
        return mask

    def _keep_inside(self, mask: Mask, place: NamespaceSelection) -> None:
        names = ((name,) for name in place.names)
        if place.selector is None:
            self._index.keep(mask, names)
        elif not place.selector.empty:
            places = np.ones(len(self._places), dtype=np.bool_)
            self._places.restrict(places, _requirements(place.selector))
            if len(self._place_array) < len(self):
                self._place_array = np.array(self._place_of, dtype=np.int64)
            mask &= np.append(places, False)[self._place_array] | self._index.having(names)


def _place(namespace: Namespace) -> tuple[Mapping[str, str], list[IndexKey]]:
    labels = namespace.metadata.labels
    return labels, [*labels, *labels.items()]


def _requirements(selector: LabelSelector | None) -> tuple[Requirement, ...]:
    if selector is None:
        return (_NOTHING,)
    return (*_having(selector.match_labels), *selector.match_expressions)


def _having(labels: Mapping[str, str], operator: Operator = Operator.IN) -> Iterator[Requirement]:
    return (Requirement(key=key, operator=operator, values=[value]) for key, value in labels.items())


def selection_of(term: PodAffinityTerm, owner: PodClass, namespaces: Mapping[str, Namespace]) -> Selection:
    """Return which classes a term of `owner` selects.

    Namespaces are those listed and those selected; with neither, the owner's own. `matchLabelKeys` add the owner's own
    value of a label to the selector, `mismatchLabelKeys` exclude it.
    """
    same = {key: owner.labels[key] for key in term.match_label_keys if key in owner.labels}
    other = {key: owner.labels[key] for key in term.mismatch_label_keys if key in owner.labels}
    names = sorted(term.namespaces) if term.namespaces or term.namespace_selector is not None else [owner.namespace]
    return Selection(
        identity=_identity(names, term.namespace_selector, term.label_selector, same, other),
        labels=(*_having(same), *_requirements(term.label_selector), *_having(other, Operator.NOT_IN)),
        inside=(NamespaceSelection(frozenset(names), term.namespace_selector, namespaces),),
    )


def _identity(*parts: object) -> bytes:
    return hashlib.blake2b(_ENCODER.encode(parts), digest_size=16).digest()


def selected_in(namespace: str, selector: LabelSelector | None, same: Mapping[str, str]) -> Selection:
    """Return the classes of one namespace that a selector matches and that have these labels too.

    One that asks for nothing matches nothing.
    """
    asks = selector is not None and not (selector.empty and not same)
    return Selection(
        identity=_identity("selected", namespace, selector, same),
        labels=(*_having(same), *_requirements(selector if asks else None)),
        inside=(NamespaceSelection(frozenset((namespace,)), None, {}),),
    )


def selection_for(constraint: SpreadConstraint, cls: PodClass) -> Selection:
    """Return which classes a spread constraint of a class counts.

    They are of the same namespace, selected, with the same values of the keys to match.
    """
    same = {key: cls.labels[key] for key in constraint.match_label_keys if key in cls.labels}
    return selected_in(cls.namespace, constraint.label_selector, same)


def siblings(cls: PodClass) -> Selection:
    """Return the classes of the same controller, which the class has."""
    index_keys = () if cls.owner is None else (sibling_key(cls.namespace, cls.owner),)
    return Selection(identity=_identity("siblings", cls.namespace, cls.owner), index_keys=frozenset(index_keys))


def having(index_keys: Iterable[IndexKey]) -> Selection:
    """Return the selection of classes with at least one of these keys."""
    known = frozenset(index_keys)
    return Selection(identity=_identity("index keys", sorted(known, key=repr)), index_keys=known)


def all_of(selections: Iterable[Selection]) -> Selection:
    """Return what all selections cover together; none of them may have index keys."""
    parts = {selection.identity: selection for selection in selections}
    return Selection(
        identity=_identity("all", sorted(parts)),
        labels=tuple(requirement for part in parts.values() for requirement in part.labels),
        inside=tuple(place for part in parts.values() for place in part.inside),
    )


def everything() -> Selection:
    """Return all classes."""
    return Selection(identity=b"")
