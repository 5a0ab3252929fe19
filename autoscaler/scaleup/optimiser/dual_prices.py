"""What a pod of each class is worth: the least that room for it costs when nodes may be bought in fractions.

Each good's price is divided among its dimensions so that all pods together, each in the cheapest good, cost as much as
can be: the dual of the linear program. No purchase can be cheaper than that, however the division was found, so it
is a lower bound; and it tells cheap purchases from dear ones. Found by multiplicative weights, a fixed number of steps.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from autoscaler.scaleup.optimiser.model import Counts, PackingModel

_STEPS = 150


class DualPrices(msgspec.Struct, frozen=True):
    """Prices of pods by class, and of each amount of a dimension on a node of each good."""

    pod: tuple[float, ...]
    amount: tuple[tuple[float, ...], ...]

    def of(self, counts: Sequence[int]) -> float:
        """Return what so many pods of each class are worth."""
        return math.fsum(one * count for one, count in zip(self.pod, counts, strict=True))


def worth(model: PackingModel) -> DualPrices:
    """Divide the goods' prices. A class that no good suits is worth nothing."""
    if not model.goods or not model.pods:
        return DualPrices((0.0,) * len(model.pods), ())
    demand = np.array(model.demand, dtype=np.float64)
    prices = np.array([good.price for good in model.goods], dtype=np.float64)
    sizes, holds = np.array(model.sizes, dtype=np.float64), np.array(model.holds, dtype=np.float64)
    fits = np.array([[at in suits for at in range(len(model.pods))] for suits in model.suits])
    room = np.where(holds > 0, holds, 1.0)
    share = np.where(holds[:, None, :] > 0, sizes[None] / room[:, None, :], 0.0) * prices[:, None, None]
    weights = np.where(holds > 0, 1.0, 0.0)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    classes = np.arange(len(model.pods))
    best, best_total = weights, -1.0
    for step in range(_STEPS):
        costs = np.where(fits, np.einsum("gcr,gr->gc", share, weights), np.inf)
        cheapest = costs.argmin(axis=0)
        least = costs[cheapest, classes]
        total = float(np.where(np.isfinite(least), least, 0.0) @ demand)
        if total > best_total:
            best, best_total = weights, total
        gain = np.zeros_like(weights)
        np.add.at(gain, cheapest, share[cheapest, classes] * demand[:, None])
        top = gain.max(axis=1, keepdims=True)
        weights = weights * np.exp(gain / np.where(top > 0, top, 1.0) / math.sqrt(1 + step))
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    costs = np.where(fits, np.einsum("gcr,gr->gc", share, best), np.inf).min(axis=0)
    amounts = prices[:, None] * best / room
    return DualPrices(
        tuple(float(one) if math.isfinite(one) else 0.0 for one in costs),
        tuple(tuple(float(one) for one in row) for row in amounts),
    )


def most(size: Counts, free: Sequence[int]) -> int:
    """Return how many pods of a size the free amounts take; a pod takes something of at least one dimension."""
    return min((have // one for one, have in zip(size, free, strict=True) if one), default=0)
