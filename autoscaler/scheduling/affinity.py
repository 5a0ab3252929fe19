"""Required affinity and anti-affinity between pods.

A term names the pods it is about (namespaces and selector) and a topology key; being near means a node in the same
domain. Anti-affinity works both ways: a pod already placed keeps others out of its domains too. Source: the
scheduler's InterPodAffinity plug-in.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import PodClass
from autoscaler.objects.workload import Namespace
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import Bound, gate, strictest
from autoscaler.scheduling.domains import Tallies, Tally
from autoscaler.scheduling.hooks import Hook, hooks_of
from autoscaler.scheduling.selection import Classes, Numbers, Selection, all_of, everything, selection_of
from autoscaler.snapshot.columns import ABSENT, Mask
from autoscaler.snapshot.overlay import Positions, Trial

NOT_NEAR = "node(s) didn't match pod affinity rules"
"""The scheduler's words for a domain without the pods that a pod has to be near to."""


def wants_near(cls: PodClass, other: PodClass, namespaces: Mapping[str, Namespace]) -> bool:
    """Whether pods of class `other` are what all required affinity of a class is about."""
    return all(selection_of(term, cls, namespaces).covers(other) for term in cls.pod_affinity)


class AffinityGuard:
    """Lets a class only into domains where all its affinity terms find a pod."""

    def __init__(self, tallies: list[Tally], matches_itself: bool) -> None:
        """`tallies`, one for each topology key, count the pods that all terms are about."""
        self._tallies = tallies
        self._matches_itself = matches_itself

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        mask = np.ones(window.stop - window.start, dtype=np.bool_)
        first = self._first_of_its_kind
        for tally in self._tallies:
            mask &= tally.has_key(window) if first else tally.at(window) > 0
            if not mask.any():
                break
        return mask

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come: as many as like where one may, since that one keeps the others company."""
        if any(tally.key == HOSTNAME or tally.shared_code(window, fresh) is None for tally in self._tallies):
            return None
        return gate(self.mask(window), bool(self.mask(slice(fresh, fresh + 1))[0]))

    def felt_elsewhere(self, cls: PodClass) -> bool:
        """Whether pods of the class are company; see `placement.Guard`."""
        return any(tally.felt_elsewhere(cls) for tally in self._tallies)

    @property
    def _first_of_its_kind(self) -> bool:
        """No pod anywhere matches and this one matches itself: somebody has to be first."""
        return self._matches_itself and all(tally.total == 0 for tally in self._tallies)

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        if self.mask(slice(position, position + 1))[0]:
            return None
        keys = ", ".join(str(tally.key) for tally in self._tallies)
        return Rejection(
            NoFit.POD_AFFINITY,
            NOT_NEAR,
            f"no pod that it must be near to in this domain of {keys}",
        )


class AvoidGuard:
    """Keeps a class out of domains in which certain pods are; `message` says whose wish that is."""

    def __init__(
        self,
        cls: PodClass,
        tallies: Callable[[], list[Tally]],
        message: str,
        detail: str,
        others: "OthersAgainst | None" = None,
    ) -> None:
        self.others = others
        """Those whose wish it is; None: the class's own."""
        self._cls = cls
        self._tallies = tallies
        self._message = message
        self._detail = detail

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        tallies = self._tallies()
        free = np.ones(window.stop - window.start, dtype=np.bool_)
        for tally in tallies:
            if tally.total:
                free &= tally.at(window) == 0
        return free

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come: one per domain where pods of the class avoid each other."""
        bounds: list[Bound | None] = []
        for tally in self._tallies():
            present, free = tally.at(window) == 0, bool(tally.at(slice(fresh, fresh + 1))[0] == 0)
            shared = tally.shared_code(window, fresh)
            if not tally.counts(self._cls) or shared == ABSENT:
                bounds.append(gate(present, free))
            elif tally.key == HOSTNAME:
                bounds.append(gate(present, free, 1))
            else:
                bounds.append(None if shared is None else msgspec.structs.replace(gate(present, free), total=1))
        return strictest(bounds, window)

    def felt_elsewhere(self, cls: PodClass) -> bool:
        """Whether pods of the class are to be avoided; see `placement.Guard`."""
        return any(tally.felt_elsewhere(cls) for tally in self._tallies())

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        window = slice(position, position + 1)
        for tally in self._tallies():
            if tally.at(window)[0] > 0:
                return Rejection(NoFit.POD_AFFINITY, self._message, f"{self._detail} in this domain of {tally.key}")
        return None


class Repulsion:
    """Required anti-affinity terms of placed pods that have one topology key, and whose they are.

    Classes with the same terms make a group. A term about few classes is kept by a hook of these; of a group's other
    terms, the set of classes that they cover is kept as a row of bits.
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
        self._narrow: dict[Hook, list[tuple[int, Selection]]] = {}
        self._wide: list[tuple[int, Sequence[Selection]]] = []
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
        identity = frozenset(one.identity for one in terms)
        group = self._groups.setdefault(identity, len(self._groups))
        if group > self._last:
            self._last = group
            self._fresh.append((group, terms))
        self._owners.append(self._classes.number(owner))
        self._group_of.append(group)

    def members(self, groups: Sequence[int]) -> Numbers:
        """Return the classes whose terms these are."""
        if len(self._arrays[0]) < len(self._owners):
            self._arrays = np.array(self._owners, dtype=np.int64), np.array(self._group_of, dtype=np.int64)
        owners, group_of = self._arrays
        chosen = np.zeros(len(self), dtype=np.bool_)
        chosen[groups] = True
        return np.sort(owners[chosen[group_of]])

    def about(self, cls: PodClass, start: int) -> list[int]:
        """Return the groups with a term about a class, but for the first so many groups."""
        number = self._classes.number(cls)
        self._sort()
        groups = set(self._wide_about(number, cls, start))
        for hook in hooks_of(cls):
            for group, term in reversed(self._narrow.get(hook, ())):
                if group < start:
                    break
                if group not in groups and term.covers(cls):
                    groups.add(group)
        return sorted(groups)

    def _wide_about(self, number: int, cls: PodClass, start: int) -> Iterator[int]:
        first = bisect_left(self._wide, start, key=lambda one: one[0])
        if number < self._width:
            column = self._bits[first : len(self._wide), number >> 3] & (128 >> (number & 7))
            for row in np.flatnonzero(column).tolist():
                yield self._wide[first + row][0]
        else:
            for group, terms in self._wide[first:]:
                if any(term.covers(cls) for term in terms):
                    yield group

    def _sort(self) -> None:
        for group, terms in self._fresh:
            wide: list[Selection] = []
            for term in terms:
                hooks = self._classes.rarest(term)
                for hook in dict.fromkeys(hooks or ()):
                    self._narrow.setdefault(hook, []).append((group, term))
                if hooks is None:
                    wide.append(term)
            if wide:
                self._add_row(wide)
                self._wide.append((group, wide))
        self._fresh.clear()

    def _add_row(self, terms: Sequence[Selection]) -> None:
        row, classes = len(self._wide), self._classes
        self._width = self._width or len(classes)
        if row == len(self._bits):
            more = np.zeros((row + 64, (self._width + 7) // 8), dtype=np.uint8)
            self._bits = np.concatenate([self._bits, more]) if row else more
        mask = np.zeros(len(classes), dtype=np.bool_)
        mask[classes.covered(terms)] = True
        self._bits[row] = np.packbits(mask[: self._width])


class AntiAffinityOfOthers:
    """Every required anti-affinity term of pods that are, or get, placed; shared by all classes of a trial."""

    def __init__(self, trial: Trial, namespaces: Mapping[str, Namespace], too_many: Callable[[PodClass], bool]) -> None:
        """`too_many` tells whose terms are too many to be read: they count as being about any pod."""
        self._trial = trial
        self._too_many = too_many
        self.tallies = Tallies(trial)
        self._namespaces = namespaces
        self._terms: dict[PodClass, Mapping[str, Sequence[Selection]]] = {}
        self._known: set[PodClass] = set()
        self._fresh: list[PodClass] = []
        self._by_key: dict[str, Repulsion] = {}
        for cls in (*trial.view.classes, *(cls for cls, _, _ in trial.moves())):
            if cls.pod_anti_affinity:
                self._note(cls)
        trial.watch(self)

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Take in a class that is placed; see `overlay.Watcher`."""
        self._note(cls)

    def counts(self, cls: PodClass) -> bool:
        """Whether the class keeps others away; see `overlay.Watcher`."""
        return bool(cls.pod_anti_affinity)

    def _note(self, cls: PodClass) -> None:
        if cls not in self._known:
            self._known.add(cls)
            self._fresh.append(cls)

    @property
    def noted(self) -> tuple[int, int]:
        """How many classes have such terms, and how many keys nodes may have: where neither changes, `by_key` does not."""
        return len(self._known), len(self._trial.templates)

    def terms(self, cls: PodClass) -> Mapping[str, Sequence[Selection]]:
        """Return what the anti-affinity terms of a class are about, by topology key, each once."""
        known = self._terms.get(cls)
        if known is None:
            if self._too_many(cls):
                return {term.topology_key: [everything()] for term in cls.pod_anti_affinity}
            by_key: dict[str, dict[bytes, Selection]] = {}
            for term in cls.pod_anti_affinity:
                selection = selection_of(term, cls, self._namespaces)
                by_key.setdefault(term.topology_key, {})[selection.identity] = selection
            known = self._terms[cls] = {key: tuple(each.values()) for key, each in by_key.items()}
        return known

    def by_key(self) -> Iterator[tuple[str, Repulsion]]:
        """Yield the terms by topology key, but for keys that no node has."""
        for cls in self._fresh:
            for key, terms in self.terms(cls).items():
                if key not in self._by_key:
                    self._by_key[key] = Repulsion(self.tallies.classes)
                self._by_key[key].note(cls, terms)
        self._fresh.clear()
        keys = self._trial.label_keys
        for key in sorted(keys) if len(keys) < len(self._by_key) else self._by_key:
            if key in self._by_key and key in keys:
                yield key, self._by_key[key]


class OthersAgainst:
    """The tallies of placed pods whose anti-affinity concerns one class."""

    def __init__(self, others: AntiAffinityOfOthers, cls: PodClass) -> None:
        self._others = others
        self._cls = cls
        self._read = 0, 0
        self._groups: dict[str, tuple[int, list[int]]] = {}
        """By topology key: how many groups have been asked, and which of them concern the class."""
        self._tallies: dict[str, Tally] = {}

    @property
    def concerned(self) -> bool:
        """Whether there are any such pods."""
        noted = self._others.noted
        if self._read != noted:
            for key, repulsion in self._others.by_key():
                asked, groups = self._groups.get(key, (0, []))
                more = repulsion.about(self._cls, asked) if asked < len(repulsion) else []
                self._groups[key] = len(repulsion), [*groups, *more]
                if more:
                    self._tallies[key] = self._tally(key, repulsion, self._groups[key][1])
            self._read = noted
        return bool(self._tallies)

    def _tally(self, key: str, repulsion: Repulsion, groups: Sequence[int]) -> Tally:
        identity = key, hashlib.blake2b(np.array(groups).tobytes(), digest_size=16).digest()
        counted = self._others.tallies.shared(
            identity, lambda: repulsion.members(groups), lambda: repulsion.owners
        )
        return counted.tally(key)

    def owners(self) -> tuple[PodClass, ...]:
        """Return the classes whose wish it is to be away from this one."""
        classes = self._others.tallies.classes
        numbers = {number for tally in self.tallies() for number in tally.classes.tolist()}
        return tuple(classes.all[number] for number in sorted(numbers))

    def tallies(self) -> list[Tally]:
        """Return them as of now, one for each topology key."""
        return list(self._tallies.values()) if self.concerned else []


def affinity_guards(
    cls: PodClass, others: AntiAffinityOfOthers, namespaces: Mapping[str, Namespace]
) -> Iterator[AffinityGuard | AvoidGuard]:
    """Yield the guards of a class, in the order the scheduler asks them."""
    tallies = others.tallies
    if cls.pod_affinity:
        near = all_of(selection_of(term, cls, namespaces) for term in cls.pod_affinity)
        company, keys = tallies.counted((near,)), dict.fromkeys(term.topology_key for term in cls.pod_affinity)
        yield AffinityGuard([company.tally(key) for key in keys], near.covers(cls))
    if cls.pod_anti_affinity:
        own = [tallies.counted(about).tally(key) for key, about in others.terms(cls).items()]
        message = "node(s) didn't match pod anti-affinity rules"
        yield AvoidGuard(cls, lambda: own, message, "a pod that it keeps away from")
    against = OthersAgainst(others, cls)
    yield AvoidGuard(
        cls,
        against.tallies,
        "node(s) didn't satisfy existing pods anti-affinity rules",
        "a pod that keeps it away",
        against,
    )
