"""Counts pods by topology domain, and follows the placements and removals of a trial.

A domain is one value of a label key. A `Tally` counts the placed pods of the classes it is asked to count, over
the nodes it may count. It reads the view's columns at the first question, and from then on, whenever it is asked, what
the trial has moved since; one that is not read costs nothing.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import PodClass
from autoscaler.scheduling.class_selection import Classes, Numbers, Selection
from autoscaler.snapshot.columns import Codes, Mask
from autoscaler.snapshot.overlay import Positions, Trial
from autoscaler.snapshot.template import Template

DomainCounts = NDArray[np.int64]

_MOST_HELD = 1 << 24
"""Counts and class numbers held by all tallies together; beyond that, all are read again when they are asked."""
_MOST_MOVES = 1 << 20
"""Moves that are noted; beyond that, likewise."""
_SIZE = 64
"""What an empty tally takes, in numbers."""
_FEW = 32
"""Most classes whose pods are gathered class by class."""


class Eligibility:
    """Which nodes a tally may count: a mask for the view's nodes, a definition for added ones."""

    def __init__(self, mask: Mask, judge: Callable[[Node], bool]) -> None:
        self.mask = mask
        self._judge = judge
        self._verdicts: list[bool] = []

    def of_kinds(self, templates: Sequence[Template]) -> Mask:
        """Return which of a trial's templates make nodes that may be counted."""
        self._verdicts.extend(self._judge(template.node) for template in templates[len(self._verdicts) :])
        return np.array(self._verdicts, dtype=np.bool_)


class Moves:
    """What a trial has moved: a row each for class number, position, count, and the node's kind at that time."""

    def __init__(self) -> None:
        self._rows: DomainCounts = np.zeros((4, 64), dtype=np.int64)
        self.count = 0

    def add(self, number: int, positions: Positions, counts: Positions, kinds: Codes) -> None:
        """Note a move of pods of one class."""
        end = self.count + len(positions)
        if end > self._rows.shape[1]:
            more = np.zeros((4, end), dtype=np.int64)
            self._rows = np.concatenate([self._rows, more], axis=1)
        new = slice(self.count, end)
        self._rows[0, new] = number
        self._rows[1, new] = positions
        self._rows[2, new] = counts
        self._rows[3, new] = kinds
        self.count = end

    def since(self, start: int) -> DomainCounts:
        """Return what was added from number `start` on."""
        return self._rows[:, start : self.count]


class DomainTallies:
    """All tallies of a trial."""

    def __init__(self, trial: Trial, most_held: int = _MOST_HELD, most_moves: int = _MOST_MOVES) -> None:
        self.trial = trial
        self._most_held = most_held
        self._most_moves = most_moves
        self.moves: Moves | None = None
        """Those that tallies may have to read; they begin with what the trial had moved when the first one read."""
        self._classes: Classes | None = None
        self._order: Numbers
        self._ends: Numbers
        self._terminating: tuple[Numbers, Positions]
        self._shared: dict[Hashable, CountedClasses] = {}
        self._loaded: list[DomainTally] = []
        self._held = 0
        trial.watch(self)

    @property
    def classes(self) -> Classes:
        """The classes of the view's pods, in its order, and others that have come up since."""
        if self._classes is None:
            view = self.trial.view
            self._classes = Classes(view.related.namespaces)
            for cls in (*view.classes, *(pod.cls for pod in view.pending)):
                self._classes.number(cls)
            self._order = np.argsort(view.pod_classes, kind="stable")
            self._ends = np.cumsum(np.bincount(view.pod_classes, minlength=len(view.classes)))
            leaving = [(pod.cls, view.positions.get(pod.node or "")) for pod in view.terminating]
            listed = [(self._classes.number(cls), position) for cls, position in leaving if position is not None]
            numbers, positions = zip(*listed, strict=True) if listed else ((), ())
            self._terminating = np.array(numbers, dtype=np.int64), np.array(positions, dtype=np.int64)
        return self._classes

    def counted(self, selections: Sequence[Selection]) -> "CountedClasses":
        """Return the classes that any of the selections covers, by now and from now on."""
        identity, classes = frozenset(selection.identity for selection in selections), self.classes
        return self.shared(identity, lambda: classes.covered(selections), lambda: len(classes))

    def shared(self, identity: Hashable, find: Callable[[], Numbers], stamp: Callable[[], int]) -> "CountedClasses":
        """Return the classes of an identity; `find` and `stamp` as in `CountedClasses`."""
        known = self._shared.get(identity)
        if known is None:
            known = self._shared[identity] = CountedClasses(self, find, stamp)
        return known

    def counts(self, cls: PodClass) -> bool:
        """Whether moves of the class matter: it may turn out that they do; see `overlay.Watcher`."""
        return True

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Note a placement; see `overlay.Watcher`."""
        if self.moves is None:
            return
        if self.moves.count > self._most_moves:
            self._unload()
            self.moves = None
        else:
            self.moves.add(self.classes.number(cls), positions, counts, self.trial.kinds[positions])

    def follow(self) -> Moves:
        """Return the moves, from now on complete."""
        if self.moves is None:
            self.moves = Moves()
            for cls, positions, counts in self.trial.moves():
                self.moves.add(self.classes.number(cls), positions, counts, self.trial.kinds[positions])
        return self.moves

    def hold(self, tally: "DomainTally", size: int) -> None:
        """Count a loaded tally of `size` numbers; others may be unloaded for it."""
        self._held += size
        if self._held > self._most_held:
            self._unload()
            self._held = size
        self._loaded.append(tally)

    def _unload(self) -> None:
        for tally in self._loaded:
            tally.unload()
        self._loaded.clear()
        self._held = 0

    def placed(self, numbers: Numbers) -> Positions:
        """Return the node of each of the view's pods of these classes."""
        view = self.trial.view
        known = numbers[: np.searchsorted(numbers, len(self._ends))]
        if len(known) > _FEW:
            chosen = np.zeros(len(self._ends), dtype=np.bool_)
            chosen[known] = True
            at: Positions = view.pod_nodes[chosen[view.pod_classes]].astype(np.int64)
            return at
        ends = self._ends
        parts = [self._order[ends[number - 1] if number else 0 : ends[number]] for number in known.tolist()]
        return view.pod_nodes[np.concatenate(parts)].astype(np.int64) if parts else np.zeros(0, dtype=np.int64)

    def terminating(self, numbers: Numbers) -> Positions:
        """Return the node of each of the view's pods of these classes that is being deleted."""
        classes, positions = self._terminating
        return positions[among(classes, numbers)]


def among(some: Numbers, numbers: Numbers) -> Mask:
    """Return which of some numbers, in any order, are among others."""
    if not len(numbers):
        return np.zeros(len(some), dtype=np.bool_)
    at = np.searchsorted(numbers, some)
    at[at == len(numbers)] = 0
    inside: Mask = numbers[at] == some
    return inside


class CountedClasses:
    """Classes that are counted together."""

    def __init__(self, tallies: DomainTallies, find: Callable[[], Numbers], stamp: Callable[[], int]) -> None:
        """`find` returns them as of now; it is asked again when `stamp` returns another number. They only grow."""
        self._all = tallies
        self._find = find
        self._stamp = stamp
        self._found_at: int | None = None
        self._numbers: Numbers
        self._by_key: dict[str | None, DomainTally] = {}

    @property
    def numbers(self) -> Numbers:
        """Those of the known classes."""
        stamp = self._stamp()
        if self._found_at != stamp:
            self._numbers, self._found_at = self._find(), stamp
        return self._numbers

    def forget(self) -> None:
        """Find them again when they are asked for."""
        self._found_at, self._numbers = None, np.zeros(0, dtype=np.int64)

    def counts(self, cls: PodClass) -> bool:
        """Whether pods of the class are counted."""
        return bool(among(np.array([self._all.classes.number(cls)]), self.numbers)[0])

    def tally(self, key: str | None, eligible: Eligibility | None = None) -> "DomainTally":
        """Return the tally of all these pods by a key; None: by node.

        With `eligible`, it counts on these nodes alone, and no pods that are on their way out.
        """
        if eligible is not None:
            return DomainTally(self._all, self, key, eligible)
        known = self._by_key.get(key)
        if known is None:
            known = self._by_key[key] = DomainTally(self._all, self, key, None)
        return known


class DomainTally:
    """Pods by domain of one label key."""

    def __init__(
        self, tallies: DomainTallies, counted: CountedClasses, key: str | None, eligible: Eligibility | None
    ) -> None:
        self.key = key
        self._all = tallies
        self._trial = tallies.trial
        self._counted = counted
        self._eligible = eligible
        self.unload()

    def unload(self) -> None:
        """Drop the counts until they are read again."""
        self._classes = -1
        self._seen = 0
        self._total = 0
        self._pods: DomainCounts = np.zeros(1, dtype=np.int64)
        self._nodes: DomainCounts = self._pods
        self._nodes_version: int | None = None
        self._counted.forget()

    @property
    def classes(self) -> Numbers:
        """The classes that are counted."""
        return self._counted.numbers

    @property
    def total(self) -> int:
        """All pods counted, in all domains."""
        self._read()
        return self._total

    @property
    def pods(self) -> DomainCounts:
        """Pods by domain code."""
        self._read()
        return self._pods

    def counts(self, cls: PodClass) -> bool:
        """Whether pods of the class are counted."""
        return self._counted.counts(cls) and not self._passes_over(cls)

    def _passes_over(self, cls: PodClass) -> bool:
        """Whether the class is of pods on their way out, which do not count where only eligible nodes do."""
        return self._eligible is not None and cls.leaving is not None

    def at(self, window: slice) -> DomainCounts:
        """Return the count of the domain of each node in the window; 0 where the node lacks the key."""
        if not self.total:
            return np.zeros(window.stop - window.start, dtype=np.int64)
        codes = self._trial.labels(self.key)[window]
        self._cover(codes)
        return np.where(codes < 0, 0, self._pods[codes])

    def has_key(self, window: slice) -> Mask:
        """Return which nodes of the window have the key."""
        return self._trial.labels(self.key)[window] >= 0

    @property
    def nodes(self) -> DomainCounts:
        """Countable nodes by domain code: a domain without any does not exist."""
        trial = self._trial
        if self._nodes_version != trial.version:
            codes = trial.labels(self.key)
            self._cover(codes)
            existing = codes[self._countable(np.arange(trial.count), trial.kinds, codes) & trial.alive]
            self._nodes = np.bincount(existing, minlength=len(self._pods))
            self._nodes_version = trial.version
        return self._nodes

    def countable(self, position: int) -> bool:
        """Whether a node makes up, or adds to, a domain."""
        window = slice(position, position + 1)
        codes = self._trial.labels(self.key)[window]
        return bool(self._countable(np.array([position]), self._trial.kinds[window], codes)[0])

    def fewest_but(self, code: int, min_domains: int = 1) -> int | None:
        """Like `fewest` over all domains but one; None where there is no other, or none that counts yet."""
        self._read()
        existing = self.nodes > 0
        if np.count_nonzero(existing) < min_domains:
            return 0
        existing = existing.copy()
        existing[code] = False
        return int(self._pods[: len(existing)][existing].min()) if existing.any() else None

    def fewest(self, min_domains: int = 1) -> int:
        """Return the smallest count over existing domains; 0 while there are fewer than `min_domains`."""
        self._read()
        existing = self.nodes > 0
        if np.count_nonzero(existing) < min_domains:
            return 0
        return int(self._pods[: len(existing)][existing].min()) if existing.any() else 0

    def _read(self) -> None:
        """Count what has been moved since the last question; all that there is at the first."""
        moves, numbers = self._all.follow(), self._counted.numbers
        if self._seen == moves.count and self._classes == len(numbers):
            return
        if self._classes != len(numbers):
            self._load(numbers)
        if len(numbers) and self._seen < moves.count:
            fresh = moves.since(self._seen)
            fresh = fresh[:, among(fresh[0], self._asked(numbers))]
            if fresh.shape[1]:
                self._count(fresh[1], fresh[2], fresh[3].astype(np.int32))
        self._seen = moves.count

    def _asked(self, numbers: Numbers) -> Numbers:
        """Return the classes whose moves count."""
        if self._eligible is None:
            return numbers
        known = self._all.classes.leaving
        return numbers[~among(numbers, known)] if len(known) else numbers

    def _load(self, numbers: Numbers) -> None:
        first = self._classes < 0
        self._classes, self._seen, self._total = len(numbers), 0, 0
        self._pods = np.zeros(len(self._pods), dtype=np.int64)
        if len(numbers):
            self._count_of_view(self._all.placed(numbers), 1)
            if self._eligible is not None:
                self._count_of_view(self._all.terminating(numbers), -1)
        if first:
            self._all.hold(self, _SIZE + len(self._pods) + len(numbers))

    def _count_of_view(self, positions: Positions, step: int) -> None:
        kinds = np.full(len(positions), -1, dtype=np.int32)
        self._count(positions, np.full(len(positions), step, dtype=np.int64), kinds)

    def _countable(self, positions: Positions, kinds: Codes, codes: Codes) -> Mask:
        has_key: Mask = codes >= 0
        if self._eligible is None:
            return has_key
        old = kinds < 0
        if old.all():
            return has_key & self._eligible.mask[positions]
        eligible = self._eligible.of_kinds(self._trial.templates)[kinds]
        eligible[old] = self._eligible.mask[positions[old]]
        return has_key & eligible

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """Whether pods of the class are counted in domains that may have several nodes."""
        return self.key not in (HOSTNAME, None) and self.counts(cls)

    def shared_code(self, window: slice, fresh: int) -> int | None:
        """Return the one domain code that all nodes of the window and the node at `fresh` have; None where they differ.

        `ABSENT` where none of them has the key.
        """
        codes = self._trial.labels(self.key)
        code = int(codes[fresh])
        return code if bool((codes[window] == code).all()) else None

    def _count(self, positions: Positions, counts: DomainCounts, kinds: Codes) -> None:
        if not self._trial.has_label(self.key):
            return
        codes = self._trial.codes_at(self.key, positions, kinds)
        countable = self._countable(positions, kinds, codes)
        codes, added = codes[countable], counts[countable]
        self._cover(codes)
        np.add.at(self._pods, codes, added)
        self._total += int(added.sum())

    def _cover(self, codes: Codes) -> None:
        highest = int(codes.max(initial=0))
        if highest >= len(self._pods):
            size = highest + 1 + highest // 2
            self._pods = np.concatenate([self._pods, np.zeros(size - len(self._pods), dtype=np.int64)])
