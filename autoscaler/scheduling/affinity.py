"""Required affinity and anti-affinity between pods.

A term selects pods (by namespaces and selector) and names a topology key; being near means a node in the same
domain. Anti-affinity works both ways: a pod already placed keeps others out of its domains too. Source: the
scheduler's InterPodAffinity plug-in.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import PodClass
from autoscaler.objects.workload import Namespace
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import Bound, gate, strictest
from autoscaler.scheduling.class_selection import NO_NUMBERS, Numbers, Selection, all_of, everything, selection_of
from autoscaler.scheduling.domains import DomainTallies, DomainTally
from autoscaler.scheduling.term_index import TermIndex
from autoscaler.snapshot.columns import ABSENT, Mask
from autoscaler.snapshot.overlay import Positions

NOT_NEAR = "node(s) didn't match pod affinity rules"
"""The scheduler's words for a domain without the pods that a pod has to be near to."""


def affinity_peers(cls: PodClass, namespaces: Mapping[str, Namespace]) -> Selection:
    """Return the pods that all required affinity terms of a class select; it has at least one."""
    return all_of(selection_of(term, cls, namespaces) for term in cls.pod_affinity)


class AffinityGuard:
    """Lets a class only into domains where all its affinity terms find a pod."""

    def __init__(self, tallies: list[DomainTally], matches_itself: bool) -> None:
        """`tallies`, one for each topology key, count the pods that all terms select."""
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
        """Return how many may come: any number where one may, since the others may then join it."""
        if any(tally.key == HOSTNAME or tally.shared_code(window, fresh) is None for tally in self._tallies):
            return None
        return gate(self.mask(window), bool(self.mask(slice(fresh, fresh + 1))[0]))

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """Whether terms select pods of the class; see `placement.Guard`."""
        return any(tally.affects_other_nodes(cls) for tally in self._tallies)

    @property
    def _first_of_its_kind(self) -> bool:
        """No pod anywhere matches and this one matches itself: one has to be the first."""
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
    """Keeps a class out of domains in which certain pods are; `message` says whose anti-affinity that is."""

    def __init__(
        self,
        cls: PodClass,
        tallies: Callable[[], list[DomainTally]],
        message: str,
        detail: str,
        others: "OpposingTallies | None" = None,
    ) -> None:
        self.others = others
        """The pods whose anti-affinity it is; None: the class's own."""
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

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """Whether pods of the class are to be avoided; see `placement.Guard`."""
        return any(tally.affects_other_nodes(cls) for tally in self._tallies())

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        tally = self.refusing(position)
        if tally is None:
            return None
        return Rejection(NoFit.POD_AFFINITY, self._message, f"{self._detail} in this domain of {tally.key}")

    def refusing(self, position: int) -> DomainTally | None:
        """Return the tally of the pods that keep the class off a node."""
        window = slice(position, position + 1)
        return next((tally for tally in self._tallies() if tally.at(window)[0] > 0), None)


class AntiAffinityOfOthers:
    """Every required anti-affinity term of pods that are, or get, placed; shared by all classes of a trial."""

    def __init__(self, tallies: DomainTallies, too_many: Callable[[PodClass], bool]) -> None:
        """`too_many` says which classes have too many terms to be read: they count as selecting any pod."""
        self._trial = trial = tallies.trial
        self._too_many = too_many
        self.tallies = tallies
        self._namespaces = trial.view.related.namespaces
        self._terms: dict[PodClass, Mapping[str, Sequence[Selection]]] = {}
        self._known: set[PodClass] = set()
        self._fresh: list[PodClass] = []
        self._by_key: dict[str, TermIndex] = {}
        placed = (*trial.view.classes, *(cls for cls, _, _ in trial.moves()))
        # Those with few terms first: where all together are too many, it is the others that are not read.
        for cls in sorted(filter(self.counts, placed), key=lambda cls: len(cls.pod_anti_affinity)):
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
        """How many classes have such terms, and how many templates there are: with neither, `by_key` changes."""
        return len(self._known), len(self._trial.templates)

    def terms(self, cls: PodClass) -> Mapping[str, Sequence[Selection]]:
        """Return what the anti-affinity terms of a class select, by topology key, without repetition."""
        known = self._terms.get(cls)
        if known is None:
            if self._too_many(cls):
                return {term.topology_key: [everything()] for term in cls.pod_anti_affinity}
            by_key: dict[str, dict[bytes, Selection]] = {}
            for term in cls.pod_anti_affinity:
                selection = selection_of(term, cls, self._namespaces)
                by_key.setdefault(term.topology_key, {})[selection.identity] = selection
            known = self._terms[cls] = {key: tuple(terms.values()) for key, terms in by_key.items()}
        return known

    def by_key(self) -> Iterator[tuple[str, TermIndex]]:
        """Yield the terms by topology key, but for keys that no node has."""
        for cls in self._fresh:
            for key, terms in self.terms(cls).items():
                if key not in self._by_key:
                    self._by_key[key] = TermIndex(self.tallies.classes)
                self._by_key[key].note(cls, terms)
        self._fresh.clear()
        keys = self._trial.label_keys
        for key in sorted(keys) if len(keys) < len(self._by_key) else self._by_key:
            if key in self._by_key and key in keys:
                yield key, self._by_key[key]


class OpposingTallies:
    """The tallies of placed pods whose anti-affinity concerns one class."""

    def __init__(self, others: AntiAffinityOfOthers, cls: PodClass) -> None:
        self._others = others
        self._cls = cls
        self._read = 0, 0
        self._groups: dict[str, tuple[int, Numbers]] = {}
        """By topology key: how many groups have been asked, and which of them concern the class."""
        self._tallies: dict[str, DomainTally] = {}

    @property
    def concerned(self) -> bool:
        """Whether there are any such pods."""
        noted = self._others.noted
        if self._read != noted:
            for key, index in self._others.by_key():
                asked, groups = self._groups.get(key, (0, NO_NUMBERS))
                more = index.about(self._cls, asked) if asked < len(index) else NO_NUMBERS
                self._groups[key] = len(index), np.concatenate([groups, more])
                if len(more):
                    self._tallies[key] = self._tally(key, index, self._groups[key][1])
            self._read = noted
        return bool(self._tallies)

    def _tally(self, key: str, index: TermIndex, groups: Numbers) -> DomainTally:
        identity = key, hashlib.blake2b(groups.tobytes(), digest_size=16).digest()
        counted = self._others.tallies.shared(identity, lambda: np.sort(index.members(groups)), lambda: index.owners)
        return counted.tally(key)

    def owners(self) -> tuple[PodClass, ...]:
        """Return the classes with anti-affinity to this one."""
        classes = self._others.tallies.classes
        numbers = {number for tally in self.tallies() for number in tally.classes.tolist()}
        return tuple(classes.all[number] for number in sorted(numbers))

    def tallies(self) -> list[DomainTally]:
        """Return them as of now, one for each topology key."""
        return list(self._tallies.values()) if self.concerned else []


def affinity_guards(
    cls: PodClass, others: AntiAffinityOfOthers, namespaces: Mapping[str, Namespace]
) -> Iterator[AffinityGuard | AvoidGuard]:
    """Yield the guards of a class, in the order the scheduler asks them."""
    tallies = others.tallies
    if cls.pod_affinity:
        near = affinity_peers(cls, namespaces)
        peers, keys = tallies.counted((near,)), dict.fromkeys(term.topology_key for term in cls.pod_affinity)
        yield AffinityGuard([peers.tally(key) for key in keys], near.covers(cls))
    if cls.pod_anti_affinity:
        own = [tallies.counted(about).tally(key) for key, about in others.terms(cls).items()]
        message = "node(s) didn't match pod anti-affinity rules"
        yield AvoidGuard(cls, lambda: own, message, "a pod that it keeps away from")
    against = OpposingTallies(others, cls)
    yield AvoidGuard(
        cls,
        against.tallies,
        "node(s) didn't satisfy existing pods anti-affinity rules",
        "a pod that keeps it away",
        against,
    )
