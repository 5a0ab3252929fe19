"""Requirements on the node alone: checked once for the view's nodes and once per template."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from autoscaler.objects.matching import selector_matches
from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelector
from autoscaler.reasons import Rejection
from autoscaler.scheduling import masks
from autoscaler.scheduling.bounds import Bound, gate
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Trial

Select = Callable[[NodeSelector | None], Mask]
"""Tells which of the nodes in question a selector matches; None matches them all."""


class NodeRequirement(Protocol):
    """Something a node must have."""

    @property
    def rejection(self) -> Rejection:
        """What to say of a node that does not have it."""
        ...

    def met(self, select: Select) -> Mask:
        """Return which of the nodes in question have it."""
        ...


class Within(msgspec.Struct, frozen=True):
    """Met where the selector matches."""

    selector: NodeSelector
    rejection: Rejection

    def met(self, select: Select) -> Mask:
        """Return which of the nodes in question have it."""
        return select(self.selector)


class Nowhere(msgspec.Struct, frozen=True):
    """Met by no node."""

    rejection: Rejection

    def met(self, select: Select) -> Mask:
        """Return none of the nodes in question."""
        return ~select(None)


class ReachGuard:
    """Keeps a class off nodes that do not meet all its demands."""

    def __init__(self, trial: Trial, demands: Sequence[NodeRequirement]) -> None:
        self._trial = trial
        self._demands = demands
        self._base: Mask | None = None
        self._by_kind: dict[int, bool] = {}

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        trial = self._trial
        if self._base is None:
            self._base = np.ones(trial.base, dtype=np.bool_)
            for demand in self._demands:
                self._base &= demand.met(self._among_the_views)
        known = self._base[window.start : min(window.stop, trial.base)]
        if window.stop <= trial.base:
            return known.copy()
        first = max(window.start, trial.base)
        added = [
            self._kind_passes(kind, first + offset)
            for offset, kind in enumerate(trial.kinds[first : window.stop].tolist())
        ]
        return np.concatenate([known, np.array(added, dtype=np.bool_)])

    def _among_the_views(self, selector: NodeSelector | None) -> Mask:
        base = self._trial.base
        return np.ones(base, dtype=np.bool_) if selector is None else masks.selected(selector, self._trial)[:base]

    def _kind_passes(self, kind: int, position: int) -> bool:
        known = self._by_kind.get(kind)
        if known is None:
            known = self._by_kind[kind] = self._unmet(self._trial.node(position)) is None
        return known

    def _unmet(self, node: Node) -> NodeRequirement | None:
        def select(selector: NodeSelector | None) -> Mask:
            return np.array([selector is None or selector_matches(selector, node.labels, node.name)])

        return next((demand for demand in self._demands if not demand.met(select)[0]), None)

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """No pod changes what a node has; see `placement.Guard`."""
        return False

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come: as many as like where the demands are met."""
        return gate(self.mask(window), bool(self.mask(slice(fresh, fresh + 1))[0]))

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass: the first demand it does not meet."""
        unmet = self._unmet(self._trial.node(position))
        return None if unmet is None else unmet.rejection
