"""Dual prices: the least that room for a pod of each class costs when nodes may be bought in fractions.

The dual of the linear program divides the price of each offer among its dimensions so that all pods together, each in
the cheapest offer, cost as much as possible. Any such division is a lower bound of every purchase, and it shows which
purchases are cheap for what they hold. Method: multiplicative weights, with a fixed number of steps.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from autoscaler.scaleup.optimiser.model import Counts, PackingModel

_STEPS = 150


class DualPrices(msgspec.Struct, frozen=True):
    """Prices of an hour of room."""

    by_class: tuple[float, ...]
    """Of a pod."""
    by_dimension: tuple[tuple[float, ...], ...]
    """(offers, dimensions): of one unit on a node."""

    def value_of(self, counts: Sequence[int]) -> float:
        """Return the price of these pods of each class."""
        return math.fsum(price * count for price, count in zip(self.by_class, counts, strict=True))


def solve_dual(model: PackingModel) -> DualPrices:
    """Divide the offers' prices. The price of a class that no offer accepts is 0."""
    if not model.offers or not model.pods:
        return DualPrices((0.0,) * len(model.pods), ())
    demand = np.array(model.demand, dtype=np.float64)
    prices = np.array([offer.price for offer in model.offers], dtype=np.float64)
    requests, capacity = np.array(model.requests, dtype=np.float64), np.array(model.capacity, dtype=np.float64)
    fits = np.array([[cls in accepted for cls in range(len(model.pods))] for accepted in model.accepts])
    room = np.where(capacity > 0, capacity, 1.0)
    share = np.where(capacity[:, None, :] > 0, requests[None] / room[:, None, :], 0.0) * prices[:, None, None]
    weights = np.where(capacity > 0, 1.0, 0.0)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    classes = np.arange(len(model.pods))
    best, best_total = weights, -1.0
    for step in range(_STEPS):
        costs = np.where(fits, np.einsum("ocd,od->oc", share, weights), np.inf)
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
    costs = np.where(fits, np.einsum("ocd,od->oc", share, best), np.inf).min(axis=0)
    amounts = prices[:, None] * best / room
    return DualPrices(
        tuple(float(cost) if math.isfinite(cost) else 0.0 for cost in costs),
        tuple(tuple(float(price) for price in row) for row in amounts),
    )


def max_pods(request: Counts, free: Sequence[int]) -> int:
    """Return how many pods with a request fit into the free amounts; every pod requests at least one dimension."""
    return min((have // amount for amount, have in zip(request, free, strict=True) if amount), default=0)
