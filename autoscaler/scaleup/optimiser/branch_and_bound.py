"""The cheapest packing, by branch and bound: exact where the search ends before its steps are used up.

The search places one pod after the other, each on an open node or on a new one of any offer. A branch ends where it
leaves out more pods than the best answer so far, or as many and cannot become cheaper: the least that the rest costs is
its value by dual prices, less that of the room on open nodes. Nodes of one offer with the same pods are alike, and no
state is searched twice. Integers decide first; where there is a feasibility check, it has the last word.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from autoscaler.scaleup.optimiser.dual_prices import DualPrices
from autoscaler.scaleup.optimiser.model import PackingModel
from autoscaler.scaleup.optimiser.packing import Assignment, Packing, price_of
from autoscaler.scaleup.options import ExpansionOptions
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.template import Template

TINY = 1e-9
"""Costs that differ by less than this share are the same."""


class FeasibilityCheck(Protocol):
    """Says whether the scheduler would accept a move."""

    def move(self, cls: int, node: int, opens: int | None) -> AbstractContextManager[bool]:
        """Put a pod on a node, for the length of the block; `opens`: the offer of which new nodes come first."""
        ...


class TrialCheck:
    """Tries every move on the trial with the scheduler's filters."""

    def __init__(self, options: ExpansionOptions, model: PackingModel, templates: list[Template]) -> None:
        self._placer: Placer = options.placer
        self._model = model
        self._templates = templates
        self._first = self._placer.trial.count - len(model.open_nodes)

    @contextmanager
    def move(self, cls: int, node: int, opens: int | None) -> Iterator[bool]:
        """Put a pod on a node, for the length of the block; `opens`: the offer of which new nodes come first."""
        placer, pod_class = self._placer, self._model.pods[cls].cls
        with placer.trial.fork():
            if opens is not None:
                placer.trial.add(self._templates[opens], self._model.offers[opens].unit)
            fits = placer.fits(pod_class, self._first + node)
            if fits:
                placer.place(pod_class, self._first + node)
            yield fits


class PackingSearch:
    """One search. `best` is None until something is better than the bar; `optimal`: nothing is better than that."""

    def __init__(
        self,
        model: PackingModel,
        dual_prices: DualPrices,
        steps: int,
        bar: tuple[int, float],
        check: FeasibilityCheck | None = None,
    ) -> None:
        """`bar`: the pods that the best answer so far leaves out, and its price."""
        self._model = model
        self._dual_prices = dual_prices
        self._steps = steps
        self._bar = bar
        self._check = check
        self._left = list(model.demand)
        self._out = 0
        self._bought = [0] * len(model.offers)
        self._cost = 0.0
        self._nodes: list[int] = []
        self._free = [list(free) for free in model.open_free]
        self._contents = [[0] * len(model.pods) for _ in model.open_nodes]
        self._highest_prices = _highest_prices(model, dual_prices)
        self._credits = [self._credit(node) for node in range(len(model.open_nodes))]
        self._moves: list[Assignment] = []
        self._seen: set[object] = set()
        self.best: Packing | None = None
        self.optimal = True

    def run(self) -> "PackingSearch":
        """Search until nothing is left to try, or no steps are left."""
        self._explore()
        return self

    def _explore(self) -> None:
        if self._steps <= 0:
            self.optimal = False
            return
        self._steps -= 1
        waiting = [cls for cls, count in enumerate(self._left) if count]
        if not self._promising(waiting):
            return
        if not waiting:
            self._bar = (self._out, self._cost)
            self.best = Packing(tuple(self._nodes), tuple(self._moves), self._out)
            return
        key = self._state()
        if key in self._seen:
            return
        self._seen.add(key)
        for cls in waiting if self._check is not None else waiting[:1]:
            self._onto_open(cls)
            self._onto_new(cls)
        self._without(waiting[0])

    def _promising(self, waiting: list[int]) -> bool:
        out, cost = self._bar
        if self._out != out:
            return self._out < out
        value = sum(self._dual_prices.by_class[cls] * self._left[cls] for cls in waiting)
        if value:
            value -= sum(self._credits)
        return self._cost + max(0.0, value) < cost - TINY * max(1.0, cost)

    def _credit(self, node: int) -> float:
        """Return the highest value that the free room of a node can have."""
        free, first = self._free[node], len(self._model.open_nodes)
        values = (have * price for have, price in zip(free, self._highest_prices, strict=True) if price is not None)
        credit = min(values, default=math.inf)
        if node < first:
            return credit
        prices = self._dual_prices.by_dimension[self._nodes[node - first]]
        return min(credit, sum(have * price for have, price in zip(free, prices, strict=True)))

    def _state(self) -> object:
        first = len(self._model.open_nodes)
        opened = tuple(tuple(counts) for counts in self._contents[:first])
        new = sorted(zip(self._nodes, map(tuple, self._contents[first:]), strict=True))
        return tuple(self._left), opened, tuple(new)

    def _onto_open(self, cls: int) -> None:
        model, first, request = self._model, len(self._model.open_nodes), self._model.requests[cls]
        tried: set[object] = set()
        for node, free in enumerate(self._free):
            if node < first:
                alike: object = node
                accepted = model.open_accepts[node]
            else:
                offer = self._nodes[node - first]
                alike, accepted = (offer, tuple(self._contents[node])), model.accepts[offer]
            fits = cls in accepted and all(have >= amount for amount, have in zip(request, free, strict=True))
            if fits and alike not in tried:
                tried.add(alike)
                self._put(cls, node, None)

    def _onto_new(self, cls: int) -> None:
        model = self._model
        for offer, unit in enumerate(node_offer.unit for node_offer in model.offers):
            fits = cls in model.accepts[offer] and all(
                have >= amount for amount, have in zip(model.requests[cls], model.capacity[offer], strict=True)
            )
            if not fits or model.limits.nodes_left(self._bought, offer) < unit:
                continue
            self._bought[offer] += unit
            cost, self._cost = self._cost, price_of(model, [*self._nodes, *[offer] * unit])
            self._nodes.extend([offer] * unit)
            self._free.extend(list(model.capacity[offer]) for _ in range(unit))
            self._contents.extend([0] * len(model.pods) for _ in range(unit))
            self._credits.extend([self._credit(len(self._free) - 1)] * unit)
            self._put(cls, len(self._free) - unit, offer)
            for by_node in (self._nodes, self._free, self._contents, self._credits):
                del by_node[-unit:]
            self._bought[offer] -= unit
            self._cost = cost

    def _put(self, cls: int, node: int, opens: int | None) -> None:
        agreed = nullcontext(True) if self._check is None else self._check.move(cls, node, opens)
        with agreed as fits:
            if not fits:
                return
            self._change(cls, node, 1)
            self._moves.append(Assignment(cls, node, 1))
            self._explore()
            self._moves.pop()
            self._change(cls, node, -1)

    def _change(self, cls: int, node: int, sign: int) -> None:
        free = self._free[node]
        for dimension, amount in enumerate(self._model.requests[cls]):
            free[dimension] -= sign * amount
        self._contents[node][cls] += sign
        self._left[cls] -= sign
        self._credits[node] = self._credit(node)

    def _without(self, cls: int) -> None:
        count, self._left[cls] = self._left[cls], 0
        self._out += count
        self._explore()
        self._out -= count
        self._left[cls] = count


def _highest_prices(model: PackingModel, dual_prices: DualPrices) -> list[float | None]:
    """Return the highest price of a unit of each dimension by itself; None where a class requests none of it."""
    return [
        None
        if any(request[dimension] == 0 for request in model.requests)
        else max(
            price / request[dimension] for price, request in zip(dual_prices.by_class, model.requests, strict=True)
        )
        for dimension in model.dimensions
    ]
