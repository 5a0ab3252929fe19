"""Required affinity and anti-affinity between pods.

A term names the pods it is about (namespaces and selector) and a topology key; being near means a node in the same
domain. Anti-affinity works both ways: a pod already placed keeps others out of its domains too. Source: the
scheduler's InterPodAffinity plug-in.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
import numpy as np

from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import PodClass
from autoscaler.objects.workload import Namespace
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import Bound, gate, strictest
from autoscaler.scheduling.domains import Tallies, Tally
from autoscaler.scheduling.selection import (
    Index,
    Selection,
    all_of,
    everything,
    having,
    hooks_of,
    selection_of,
    term_covers,
)
from autoscaler.snapshot.columns import ABSENT, Mask
from autoscaler.snapshot.overlay import Positions, Trial

NOT_NEAR = "node(s) didn't match pod affinity rules"
"""The scheduler's words for a domain without the pods that a pod has to be near to."""

Wish = tuple[bytes, str]
"""An anti-affinity term: which pods it is about, and its topology key."""

_MOST_TALLIES = 64
"""More than this are counted anew, together."""


def wants_near(cls: PodClass, other: PodClass, namespaces: Mapping[str, Namespace]) -> bool:
    """Whether pods of class `other` are what all required affinity of a class is about."""
    return all(term_covers(term, cls, other, namespaces) for term in cls.pod_affinity)


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


class AntiAffinityOfOthers:
    """Every required anti-affinity term of pods that are, or get, placed; shared by all classes of a trial.

    Terms that are about the same pods and have the same topology key are one, whosever they are.
    """

    def __init__(self, trial: Trial, namespaces: Mapping[str, Namespace], too_many: Callable[[PodClass], bool]) -> None:
        """`too_many` tells whose terms are too many to be read: they count as being about any pod."""
        self._too_many = too_many
        self.tallies = Tallies(trial, self.wishes)
        self._namespaces = namespaces
        self._wishes: dict[PodClass, Mapping[Wish, Selection]] = {}
        self._noted: set[Wish] = set()
        self._terms: Index[tuple[int, Wish, Selection]] = Index()
        self._owners: Index[PodClass] = Index()
        self._placed: set[PodClass] = set()
        # Those with few terms first: where all together are too many, it is the others that are not read.
        for cls in sorted(trial.view.classes, key=lambda cls: len(cls.pod_anti_affinity)):
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
        if not cls.pod_anti_affinity or cls.leaving is not None or cls in self._placed:
            return
        self._placed.add(cls)
        wishes = self.wishes(cls)
        self._owners.add(cls, wishes)
        for wish, selection in wishes.items():
            if wish not in self._noted:
                self._terms.add((len(self._noted), wish, selection), self._terms.rarest(selection.narrow))
                self._noted.add(wish)

    def wishes(self, cls: PodClass) -> Mapping[Wish, Selection]:
        """Return the anti-affinity terms of a class, each once."""
        known = self._wishes.get(cls)
        if known is None:
            if self._too_many(cls):
                anything = everything()
                return {(anything.identity, term.topology_key): anything for term in cls.pod_anti_affinity}
            terms = ((term.topology_key, selection_of(term, cls, self._namespaces)) for term in cls.pod_anti_affinity)
            known = self._wishes[cls] = {(selection.identity, key): selection for key, selection in terms}
        return known

    def __len__(self) -> int:
        """Return how many terms are known."""
        return len(self._noted)

    def concerning(self, cls: PodClass, start: int) -> list[Wish]:
        """Return the terms about the class that were noted since there were `start` of them."""
        found = []
        for hook in hooks_of(cls):
            for number, wish, selection in reversed(self._terms.at(hook)):
                if number < start:
                    break
                if selection.covers(cls):
                    found.append((number, wish))
        return [wish for _, wish in sorted(found)]

    def owners(self, wishes: Iterable[Wish]) -> tuple[PodClass, ...]:
        """Return the classes whose terms these are."""
        return tuple(dict.fromkeys(owner for wish in wishes for owner in self._owners.at(wish)))


class OthersAgainst:
    """The tallies of placed pods whose anti-affinity concerns one class."""

    def __init__(self, others: AntiAffinityOfOthers, cls: PodClass) -> None:
        self._others = others
        self._cls = cls
        self._read = 0
        self._wishes: list[Wish] = []
        self._counted = 0
        self._tallies: list[Tally] = []

    @property
    def concerned(self) -> bool:
        """Whether there are any such pods."""
        if self._read < len(self._others):
            self._wishes.extend(self._others.concerning(self._cls, self._read))
            self._read = len(self._others)
        return bool(self._wishes)

    def owners(self) -> tuple[PodClass, ...]:
        """Return the classes whose wish it is to be away from this one."""
        return self._others.owners(self._wishes) if self.concerned else ()

    def tallies(self) -> list[Tally]:
        """Return them as of now: one for each topology key of the terms that came up together."""
        if self.concerned and self._counted < len(self._wishes):
            if len(self._tallies) > _MOST_TALLIES:
                self._tallies, self._counted = [], 0
            by_key: dict[str, list[Wish]] = {}
            for wish in self._wishes[self._counted :]:
                by_key.setdefault(wish[1], []).append(wish)
            self._tallies.extend(
                self._others.tallies.counted((having(wishes),)).tally(key) for key, wishes in by_key.items()
            )
            self._counted = len(self._wishes)
        return self._tallies


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
        by_key: dict[str, list[Selection]] = {}
        for (_, key), selection in others.wishes(cls).items():
            by_key.setdefault(key, []).append(selection)
        own = [tallies.counted(about).tally(key) for key, about in by_key.items()]
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
