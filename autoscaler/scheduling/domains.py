"""Counting pods by topology domain, kept up to date while a trial places and lifts.

A domain is one value of a label key. A `Tally` counts the placed pods of the classes it is asked to count, over
the nodes it may count; it is built once from the view's columns and then only follows the trial's moves. `Tallies`
tells it of these, and knows by hooks which tallies a class concerns, so that neither is asked about all of the other.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import PodClass
from autoscaler.scheduling.selection import Hook, Index, Selection, hooks_of
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Positions, Trial
from autoscaler.snapshot.template import Template

Counts = NDArray[np.int64]


class Eligibility:
    """Which nodes a tally may count: a mask for the view's nodes, a definition for added ones."""

    def __init__(self, mask: Mask, judge: Callable[[Node], bool]) -> None:
        self.mask = mask
        self._judge = judge
        self._verdicts: list[bool] = []

    def of_kinds(self, templates: Sequence[Template]) -> Mask:
        """Return which of a trial's templates make nodes that may be counted."""
        self._verdicts.extend(self._judge(one.node) for one in templates[len(self._verdicts) :])
        return np.array(self._verdicts, dtype=np.bool_)


class Tallies:
    """All tallies of a trial."""

    def __init__(self, trial: Trial, own_hooks: Callable[[PodClass], Iterable[Hook]] = lambda cls: ()) -> None:
        """`own_hooks` are what a class can be found by beside its namespace and labels."""
        self.trial = trial
        self._own_hooks = own_hooks
        self._numbers: dict[PodClass, int] = {}
        self._terminating: dict[PodClass, list[int]] = {}
        self._classes: Index[PodClass] = Index()
        self._asking: Index[tuple[Selection, Counted]] = Index()
        self._shared: dict[frozenset[bytes], Counted] = {}
        self._concerned: dict[PodClass, list[Counted]] = {}
        """By each class that is known, those that count it."""
        trial.watch(self)

    def counted(self, selections: Sequence[Selection]) -> "Counted":
        """Return the classes that any of the selections covers, by now and from now on."""
        identity = frozenset(one.identity for one in selections)
        known = self._shared.get(identity)
        if known is None:
            if not self._shared:
                self._begin()
            known = self._shared[identity] = Counted(self)
            for selection in selections:
                hooks = self._classes.rarest(selection.alternatives)
                self._asking.add((selection, known), hooks)
                for cls in (cls for hook in hooks for cls in self._classes.at(hook)):
                    if cls not in known.classes and selection.covers(cls):
                        known.classes.add(cls)
                        self._concerned[cls].append(known)
        return known

    def _begin(self) -> None:
        """Get to know the classes that are there: only now, since most passes have no tallies."""
        view = self.trial.view
        self._numbers = {cls: number for number, cls in enumerate(view.classes)}
        for pod in view.terminating:
            position = view.positions.get(pod.node or "")
            if position is not None:
                self._terminating.setdefault(pod.cls, []).append(position)
        for cls in view.classes:
            self.learn(cls)
        for cls, _, _ in self.trial.moves():
            self.learn(cls)

    def learn(self, cls: PodClass) -> Sequence["Counted"]:
        """Return who counts a class; ask them if it is new."""
        known = self._concerned.get(cls)
        if known is None:
            hooks = (*hooks_of(cls), *self._own_hooks(cls))
            self._classes.add(cls, hooks)
            known = self._concerned[cls] = []
            for selection, counted in (asking for hook in hooks for asking in self._asking.at(hook)):
                if cls not in counted.classes and selection.covers(cls):
                    counted.classes.add(cls)
                    known.append(counted)
        return known

    def counts(self, cls: PodClass) -> bool:
        """Whether moves of the class matter: it may turn out that they do; see `overlay.Watcher`."""
        return True

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Follow a placement; see `overlay.Watcher`."""
        for counted in self.learn(cls) if self._shared else ():
            for tally in counted.tallies:
                tally.moved(cls, positions, counts)

    def placed(self, classes: Iterable[PodClass]) -> Positions:
        """Return the node of each of the view's pods of these classes."""
        view = self.trial.view
        chosen = np.zeros(len(view.classes), dtype=np.bool_)
        chosen[[self._numbers[cls] for cls in classes if cls in self._numbers]] = True
        at: Positions = view.pod_nodes[chosen[view.pod_classes]].astype(np.int64)
        return at

    def terminating(self, classes: Iterable[PodClass]) -> Positions:
        """Return the node of each of the view's pods of these classes that is being deleted."""
        return np.array([at for cls in classes for at in self._terminating.get(cls, ())], dtype=np.int64)


class Counted:
    """Classes that are counted together."""

    def __init__(self, tallies: Tallies) -> None:
        self._all = tallies
        self.classes: set[PodClass] = set()
        """Those of the known classes; they grow."""
        self.tallies: list[Tally] = []
        self._by_key: dict[str, Tally] = {}

    def counts(self, cls: PodClass) -> bool:
        """Whether pods of the class are counted."""
        self._all.learn(cls)
        return cls in self.classes

    def tally(self, key: str, eligible: Eligibility | None = None) -> "Tally":
        """Return the tally of all these pods by a key.

        With `eligible`, it counts on these nodes alone, and no pods that are on their way out.
        """
        known = self._by_key.get(key) if eligible is None else None
        if known is None:
            known = Tally(self._all, self, key, eligible)
            self.tallies.append(known)
            if eligible is None:
                self._by_key[key] = known
        return known


class Tally:
    """Pods by domain of one label key."""

    def __init__(self, tallies: Tallies, counted: Counted, key: str, eligible: Eligibility | None) -> None:
        self.key = key
        self._trial = tallies.trial
        self._counted = counted
        self._eligible = eligible
        self.total = 0
        """All pods counted, in whatever domain."""
        self.pods: Counts = np.zeros(1, dtype=np.int64)
        """Pods by domain code."""
        self._nodes: Counts = self.pods
        self._nodes_version: int | None = None
        self._load(tallies)

    def counts(self, cls: PodClass) -> bool:
        """Whether pods of the class are counted."""
        return self._counted.counts(cls) and not self._passes_over(cls)

    def _passes_over(self, cls: PodClass) -> bool:
        """Whether the class is of pods on their way out, which do not count where only eligible nodes do."""
        return self._eligible is not None and cls.leaving is not None

    def at(self, window: slice) -> Counts:
        """Return the count of the domain of each node in the window; 0 where the node lacks the key."""
        if not self.total:
            return np.zeros(window.stop - window.start, dtype=np.int64)
        codes = self._trial.labels(self.key)[window]
        self._cover(codes)
        return np.where(codes < 0, 0, self.pods[codes])

    def has_key(self, window: slice) -> Mask:
        """Return which nodes of the window have the key."""
        return self._trial.labels(self.key)[window] >= 0

    @property
    def nodes(self) -> Counts:
        """Countable nodes by domain code: a domain without any does not exist."""
        trial = self._trial
        if self._nodes_version != trial.version:
            codes = trial.labels(self.key)
            self._cover(codes)
            existing = codes[self._countable(np.arange(trial.count)) & trial.alive]
            self._nodes = np.bincount(existing, minlength=len(self.pods))
            self._nodes_version = trial.version
        return self._nodes

    def countable(self, position: int) -> bool:
        """Whether a node makes up, or adds to, a domain."""
        return bool(self._countable(np.array([position]))[0])

    def fewest_but(self, code: int, min_domains: int = 1) -> int | None:
        """Like `fewest` over all domains but one; None where there is no other, or none that counts yet."""
        existing = self.nodes > 0
        if np.count_nonzero(existing) < min_domains:
            return 0
        existing = existing.copy()
        existing[code] = False
        return int(self.pods[: len(existing)][existing].min()) if existing.any() else None

    def fewest(self, min_domains: int = 1) -> int:
        """Return the smallest count over existing domains; 0 while there are fewer than `min_domains`."""
        existing = self.nodes > 0
        if np.count_nonzero(existing) < min_domains:
            return 0
        return int(self.pods[: len(existing)][existing].min()) if existing.any() else 0

    def _load(self, tallies: Tallies) -> None:
        classes = self._counted.classes
        if not classes:
            return
        self._count(tallies.placed(classes), 1)
        if self._eligible is not None:
            self._count(tallies.terminating(classes), -1)
        for cls, positions, counts in self._trial.moves(classes):
            self.moved(cls, positions, counts)

    def _countable(self, positions: Positions) -> Mask:
        has_key: Mask = self._trial.labels(self.key)[positions] >= 0
        if self._eligible is None:
            return has_key
        kinds = self._trial.kinds[positions]
        old = kinds < 0
        if old.all():
            return has_key & self._eligible.mask[positions]
        eligible = self._eligible.of_kinds(self._trial.templates)[kinds]
        eligible[old] = self._eligible.mask[positions[old]]
        return has_key & eligible

    def felt_elsewhere(self, cls: PodClass) -> bool:
        """Whether pods of the class are counted in domains that may have several nodes."""
        return self.key != HOSTNAME and self.counts(cls)

    def shared_code(self, window: slice, fresh: int) -> int | None:
        """Return the one domain code that all nodes of the window and the node at `fresh` have; None where they differ.

        `ABSENT` where none of them has the key.
        """
        codes = self._trial.labels(self.key)
        code = int(codes[fresh])
        return code if bool((codes[window] == code).all()) else None

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Follow a placement of a class that is counted."""
        if not self._passes_over(cls):
            self._count(positions, counts)

    def _count(self, positions: Positions, counts: Positions | int) -> None:
        if not self._trial.has_label(self.key):
            return
        countable = self._countable(positions)
        codes = self._trial.labels(self.key)[positions][countable]
        self._cover(codes)
        added = counts if isinstance(counts, int) else counts[countable]
        np.add.at(self.pods, codes, added)
        self.total += added * len(codes) if isinstance(added, int) else int(added.sum())

    def _cover(self, codes: NDArray[np.int32]) -> None:
        highest = int(codes.max(initial=0))
        if highest >= len(self.pods):
            size = highest + 1 + highest // 2
            self.pods = np.concatenate([self.pods, np.zeros(size - len(self.pods), dtype=np.int64)])
