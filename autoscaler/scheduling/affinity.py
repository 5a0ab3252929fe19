"""Required affinity and anti-affinity between pods.

A term names the pods it is about (namespaces and selector) and a topology key; being near means a node in the same
domain. Anti-affinity works both ways: a pod already placed keeps others out of its domains too. Source: the
scheduler's InterPodAffinity plug-in.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np

from autoscaler.objects.meta import selects
from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import PodAffinityTerm
from autoscaler.objects.workload import Namespace
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import Bound, gate, strictest
from autoscaler.scheduling.domains import Tally
from autoscaler.snapshot.columns import ABSENT, Mask
from autoscaler.snapshot.overlay import Positions, Trial

NOT_NEAR = "node(s) didn't match pod affinity rules"
"""The scheduler's words for a domain without the pods that a pod has to be near to."""


def term_covers(term: PodAffinityTerm, owner: PodClass, other: PodClass, namespaces: Mapping[str, Namespace]) -> bool:
    """Whether a term of `owner` is about pods of class `other`.

    Namespaces are those listed and those selected (an empty selector selects all); with neither, the owner's own.
    `matchLabelKeys` add the owner's own value of a label to the selector, `mismatchLabelKeys` exclude it.
    """
    if term.namespaces or term.namespace_selector is not None:
        listed = other.namespace in term.namespaces
        if not listed and not _namespace_selected(term, other.namespace, namespaces):
            return False
    elif other.namespace != owner.namespace:
        return False
    if not selects(term.label_selector, other.labels):
        return False
    same = all(other.labels.get(key) == owner.labels[key] for key in term.match_label_keys if key in owner.labels)
    return same and not any(
        other.labels.get(key) == owner.labels[key] for key in term.mismatch_label_keys if key in owner.labels
    )


def _namespace_selected(term: PodAffinityTerm, name: str, namespaces: Mapping[str, Namespace]) -> bool:
    if term.namespace_selector is None:
        return False
    if term.namespace_selector.empty:
        return True
    known = namespaces.get(name)
    return known is not None and term.namespace_selector.matches(known.metadata.labels)


def wants_near(cls: PodClass, other: PodClass, namespaces: Mapping[str, Namespace]) -> bool:
    """Whether pods of class `other` are what all required affinity of a class is about."""
    return all(term_covers(term, cls, other, namespaces) for term in cls.pod_affinity)


class AffinityGuard:
    """Lets a class only into domains where all its affinity terms find a pod."""

    def __init__(self, cls: PodClass, tallies: list[Tally], matches_itself: bool) -> None:
        self._cls = cls
        self._tallies = tallies
        self._matches_itself = matches_itself

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        present = self._tallies[0].has_key(window)
        for tally in self._tallies[1:]:
            present = present & tally.has_key(window)
        if self._first_of_its_kind:
            return present
        for tally in self._tallies:
            present = present & (tally.at(window) > 0)
        return present

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
        keys = ", ".join(tally.key for tally in self._tallies)
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


class AntiAffinityOfOthers:
    """Every required anti-affinity term of pods that are, or get, placed; shared by all classes of a trial."""

    def __init__(self, trial: Trial, namespaces: Mapping[str, Namespace]) -> None:
        self._trial = trial
        self._namespaces = namespaces
        self._terms: list[tuple[PodClass, PodAffinityTerm]] = []
        self._seen: set[PodClass] = set()
        self._tallies: dict[tuple[PodClass, str], Tally] = {}
        for cls in trial.view.classes:
            self._note(cls)
        for cls, _, _ in trial.moves():
            self._note(cls)
        trial.watch(self)

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Take in a class that is placed; see `overlay.Watcher`."""
        self._note(cls)

    def counts(self, cls: PodClass) -> bool:
        """Whether the class keeps others away; see `overlay.Watcher`."""
        return bool(cls.pod_anti_affinity)

    def _note(self, cls: PodClass) -> None:
        if cls.pod_anti_affinity and cls.leaving is None and cls not in self._seen:
            self._seen.add(cls)
            self._terms.extend((cls, term) for term in cls.pod_anti_affinity)

    def against(self, cls: PodClass) -> "OthersAgainst":
        """Return the terms that concern a class, following those still to come."""
        return OthersAgainst(self, cls)

    def terms(self, start: int) -> Iterator[tuple[PodClass, PodAffinityTerm]]:
        """Yield the terms noted since there were `start` of them."""
        yield from self._terms[start:]

    def __len__(self) -> int:
        """Return how many terms are known."""
        return len(self._terms)

    def concerns(self, owner: PodClass, term: PodAffinityTerm, cls: PodClass) -> bool:
        """Whether the term is about pods of the class."""
        return term_covers(term, owner, cls, self._namespaces)

    def tally(self, owner: PodClass, key: str) -> Tally:
        """Return where pods of `owner` are, by domain of `key`."""
        known = self._tallies.get((owner, key))
        if known is None:
            known = Tally(self._trial, key, lambda other: owner in (other, other.leaving))
            self._tallies[owner, key] = known
        return known


class OthersAgainst:
    """The tallies of placed pods whose anti-affinity concerns one class."""

    def __init__(self, others: AntiAffinityOfOthers, cls: PodClass) -> None:
        self._others = others
        self._cls = cls
        self._read = 0
        self._found: dict[tuple[PodClass, str], Tally] = {}

    def owners(self) -> tuple[PodClass, ...]:
        """Return the classes whose wish it is to be away from this one."""
        self.tallies()
        return tuple(dict.fromkeys(owner for owner, _ in self._found))

    def tallies(self) -> list[Tally]:
        """Return them as of now."""
        if self._read < len(self._others):
            for owner, term in self._others.terms(self._read):
                if self._others.concerns(owner, term, self._cls):
                    self._found[owner, term.topology_key] = self._others.tally(owner, term.topology_key)
            self._read = len(self._others)
        return list(self._found.values())


def affinity_guards(
    cls: PodClass, trial: Trial, others: AntiAffinityOfOthers, namespaces: Mapping[str, Namespace]
) -> Iterator[AffinityGuard | AvoidGuard]:
    """Yield the guards of a class, in the order the scheduler asks them."""
    if cls.pod_affinity:

        def near(other: PodClass) -> bool:
            return wants_near(cls, other, namespaces)

        yield AffinityGuard(cls, [Tally(trial, term.topology_key, near) for term in cls.pod_affinity], near(cls))
    if cls.pod_anti_affinity:
        own = [Tally(trial, term.topology_key, _about(term, cls, namespaces)) for term in cls.pod_anti_affinity]
        message = "node(s) didn't match pod anti-affinity rules"
        yield AvoidGuard(cls, lambda: own, message, "a pod that it keeps away from")
    against = others.against(cls)
    yield AvoidGuard(
        cls,
        against.tallies,
        "node(s) didn't satisfy existing pods anti-affinity rules",
        "a pod that keeps it away",
        against,
    )


def _about(term: PodAffinityTerm, cls: PodClass, namespaces: Mapping[str, Namespace]) -> Callable[[PodClass], bool]:
    return lambda other: term_covers(term, cls, other, namespaces)
