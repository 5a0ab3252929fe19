"""Explains why a class fits no node: groups nodes by their reasons, nearest miss first.

Every node is asked in words, by `Placer.why`: at tens of microseconds a node that is for people's questions, not for
passes.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from autoscaler.objects.pod import PodClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.placement import Placer

MissShares = NDArray[np.float64]
Words = tuple[tuple[NoFit, str], ...]


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that the same filters refuse with the same messages."""

    rejections: tuple[Rejection, ...]
    """Those of the nearest node, each reason and message once; empty: these nodes would take the pod."""
    positions: tuple[int, ...]
    """Nearest first, then as in the trial."""
    shortfall: float
    """What the nearest node lacks of the scarcest resource / what one pod requests of it; 0 where nothing is short."""

    @property
    def distance(self) -> tuple[int, float]:
        """How far off the nearest node is, to sort by: failing filters, then the shortfall.

        Filters that do not compare amounts are missed by the whole.
        """
        filters = {rejection.reason for rejection in self.rejections}
        missed = self.shortfall if NoFit.RESOURCES in filters else 1.0
        return len(filters), missed if filters else 0.0


def near_misses(placer: Placer, cls: PodClass, window: slice, most: int | None = None) -> tuple[Miss, ...]:
    """Return the nodes of the window, removed ones aside, by why they would not take one more pod of the class.

    `most`: ask only so many nodes, those with the smallest shortfalls.
    """
    shortfalls = _shortfalls(placer, cls, window)
    present = placer.trial.alive[window]
    by_words: dict[Words, Miss] = {}
    positions: dict[Words, list[int]] = {}
    for offset in np.argsort(np.where(present, shortfalls, np.inf), kind="stable")[:most].tolist():
        if not present[offset]:
            continue
        position = window.start + offset
        rejections = _rejections(placer, cls, position)
        words = tuple((rejection.reason, rejection.message) for rejection in rejections)
        if words not in by_words:
            by_words[words] = Miss(rejections=rejections, positions=(), shortfall=float(shortfalls[offset]))
        positions.setdefault(words, []).append(position)
    found = (msgspec.structs.replace(miss, positions=tuple(positions[words])) for words, miss in by_words.items())
    return tuple(sorted(found, key=_order))


def _order(miss: Miss) -> tuple[tuple[int, float], int, int, tuple[str, ...]]:
    messages = tuple(rejection.message for rejection in miss.rejections)
    return miss.distance, len(messages), -len(miss.positions), messages


def _rejections(placer: Placer, cls: PodClass, position: int) -> tuple[Rejection, ...]:
    """Return why a node refuses; of several constraints with the same message the first speaks for all."""
    found: dict[tuple[NoFit, str], Rejection] = {}
    for rejection in placer.why(cls, position):
        found.setdefault((rejection.reason, rejection.message), rejection)
    return tuple(found.values())


def _shortfalls(placer: Placer, cls: PodClass, window: slice) -> MissShares:
    """Return, by node, what is missing of the scarcest resource / what is requested; 0 where all of it is there."""
    vector, free = placer.need(cls), placer.trial.free
    worst: MissShares = np.zeros(window.stop - window.start, dtype=np.float64)
    for row in np.flatnonzero(vector > 0):
        left = np.maximum(free[row, window], 0)
        np.maximum(worst, (vector[row] - left) / vector[row], out=worst)
    return worst
