"""Counting pods by topology domain, kept up to date while a trial places and lifts.

A domain is one value of a label key. A `Tally` counts the placed pods of the classes it is asked to count, over
the nodes it may count; it is built once from the view's columns and then only follows the trial's moves.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import PodClass
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Positions, Trial

Counts = NDArray[np.int64]


class Eligibility(msgspec.Struct, frozen=True):
    """Which nodes a tally may count: a mask for the view's nodes, a definition for added ones."""

    mask: Mask
    judge: Callable[[Node], bool]


class Tally:
    """Pods by domain of one label key."""

    def __init__(
        self,
        trial: Trial,
        key: str,
        counted: Callable[[PodClass], bool],
        eligible: Eligibility | None = None,
        skip_terminating: bool = False,
    ) -> None:
        self.key = key
        self._trial = trial
        self._counted = counted
        self._memo: dict[PodClass, bool] = {}
        self._eligible = eligible
        self._verdicts: list[bool] = []
        self.pods: Counts = np.zeros(1, dtype=np.int64)
        """Pods by domain code."""
        self._nodes: Counts = np.zeros(1, dtype=np.int64)
        self._nodes_version: int | None = None
        self._skip_terminating = skip_terminating
        self._load()
        trial.watch(self)

    def counts(self, cls: PodClass) -> bool:
        """Whether pods of the class are counted."""
        known = self._memo.get(cls)
        if known is None:
            skipped = self._skip_terminating and cls.leaving is not None
            known = self._memo[cls] = not skipped and self._counted(cls)
        return known

    def at(self, window: slice) -> Counts:
        """Return the count of the domain of each node in the window; 0 where the node lacks the key."""
        codes = self._trial.labels(self.key)[window]
        self._cover(codes)
        return np.where(codes < 0, 0, self.pods[codes])

    def has_key(self, window: slice) -> Mask:
        """Return which nodes of the window have the key."""
        return self._trial.labels(self.key)[window] >= 0

    @property
    def total(self) -> int:
        """All pods counted, in whatever domain."""
        return int(self.pods.sum())

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

    def _load(self) -> None:
        trial, view = self._trial, self._trial.view
        codes = trial.labels(self.key)
        self._cover(codes)
        countable = self._countable(np.arange(trial.count))
        chosen = np.fromiter((self.counts(cls) for cls in view.classes), dtype=np.bool_, count=len(view.classes))
        if chosen.any():
            at = view.pod_nodes[chosen[view.pod_classes]]
            at = at[countable[at]]
            np.add.at(self.pods, codes[at], 1)
        if self._skip_terminating:
            for pod in view.terminating:
                position = view.positions.get(pod.node or "")
                if position is not None and countable[position] and self.counts(pod.cls):
                    self.pods[codes[position]] -= 1
        for cls, positions, counts in trial.moves():
            self.moved(cls, positions, counts)

    def _countable(self, positions: Positions) -> Mask:
        has_key: Mask = self._trial.labels(self.key)[positions] >= 0
        if self._eligible is None:
            return has_key
        kinds = self._trial.kinds[positions]
        old = kinds < 0
        if old.all():
            return has_key & self._eligible.mask[positions]
        for template in self._trial.templates[len(self._verdicts) :]:
            self._verdicts.append(self._eligible.judge(template.node))
        eligible: Mask = np.array(self._verdicts, dtype=np.bool_)[kinds]
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
        """Follow a placement; see `overlay.Watcher`."""
        if not self.counts(cls):
            return
        countable = self._countable(positions)
        codes = self._trial.labels(self.key)[positions][countable]
        self._cover(codes)
        np.add.at(self.pods, codes, counts[countable])

    def _cover(self, codes: NDArray[np.int32]) -> None:
        highest = int(codes.max(initial=0))
        if highest >= len(self.pods):
            size = highest + 1 + highest // 2
            self.pods = np.concatenate([self.pods, np.zeros(size - len(self.pods), dtype=np.int64)])
