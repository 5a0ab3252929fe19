"""Computes how many pods of one class nodes can take at once, as far as other pods limit it.

A `Bound` lets the estimator count where it would otherwise have to try: it holds for nodes added from one template, as
long as only pods of that one class are placed. Guards that cannot say so in advance return None.
"""

from collections.abc import Iterable

import msgspec
import numpy as np

from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Positions

UNBOUNDED = 1 << 62


class Bound(msgspec.Struct, frozen=True):
    """Pods that may still come: to each node that is there, to each fresh one, and to all together."""

    present: Positions
    fresh: int
    total: int = UNBOUNDED


def gate(present: Mask, fresh: bool, per_node: int = UNBOUNDED) -> Bound:
    """Return the bound of a filter that lets `per_node` pods onto the nodes that pass and none onto the others."""
    return Bound(np.where(present, per_node, 0), per_node if fresh else 0)


def strictest(bounds: Iterable[Bound | None], window: slice) -> Bound | None:
    """Return the bound that meets all of them; None where one is unknown."""
    present, fresh, total = np.full(window.stop - window.start, UNBOUNDED, dtype=np.int64), UNBOUNDED, UNBOUNDED
    for bound in bounds:
        if bound is None:
            return None
        present = np.minimum(present, bound.present)
        fresh, total = min(fresh, bound.fresh), min(total, bound.total)
    return Bound(present, fresh, total)
