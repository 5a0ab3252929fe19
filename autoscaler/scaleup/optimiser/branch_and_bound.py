"""The cheapest filling, by branch and bound: exact where the search ends before its steps are used up.

Pods are placed one after the other, each on a node that is there or on a new one of any good. A branch ends where it
leaves out more pods than the best answer so far, or as many and cannot become cheaper: what the rest is worth, less
what the open nodes still have room for, is the least that it costs. Nodes of one good with the same pods are alike, and
what was reached once is not looked at again. Figures come first; a referee, where there is one, has the last word.
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
    """Says whether the scheduler would agree."""

    def move(self, cls: int, node: int, opens: int | None) -> AbstractContextManager[bool]:
        """Put a pod on a node, for the length of the block; `opens`: the good of which new nodes come first."""
        ...


class TrialCheck:
    """A referee that tries everything on the trial."""

    def __init__(self, market: ExpansionOptions, model: PackingModel, templates: list[Template]) -> None:
        self._placer: Placer = market.placer
        self._model = model
        self._templates = templates
        self._first = self._placer.trial.count - len(model.standing)

    @contextmanager
    def move(self, cls: int, node: int, opens: int | None) -> Iterator[bool]:
        """Put a pod on a node, for the length of the block; `opens`: the good of which new nodes come first."""
        placer, pod_class = self._placer, self._model.pods[cls].cls
        with placer.trial.fork():
            if opens is not None:
                placer.trial.add(self._templates[opens], self._model.goods[opens].unit)
            fits = placer.fits(pod_class, self._first + node)
            if fits:
                placer.place(pod_class, self._first + node)
            yield fits


class PackingSearch:
    """One search. `best` is None until something better than the bar is found; `proven`: nothing else is better."""

    def __init__(
        self,
        model: PackingModel,
        worth: DualPrices,
        steps: int,
        bar: tuple[int, float],
        referee: FeasibilityCheck | None = None,
    ) -> None:
        self._model = model
        self._worth = worth
        self._steps = steps
        self._bar = bar
        self._referee = referee
        self._left = list(model.demand)
        self._out = 0
        self._bought = [0] * len(model.goods)
        self._cost = 0.0
        self._nodes: list[int] = []
        self._free = [list(held) for held in model.standing_holds]
        self._contents = [[0] * len(model.pods) for _ in model.standing]
        self._dear = _dearest(model, worth)
        self._credits = [self._credit(node) for node in range(len(model.standing))]
        self._moves: list[Assignment] = []
        self._seen: set[object] = set()
        self.best: Packing | None = None
        self.proven = True

    def run(self) -> "PackingSearch":
        """Search until nothing is left to try, or no steps are left."""
        self._explore()
        return self

    def _explore(self) -> None:
        if self._steps <= 0:
            self.proven = False
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
        for cls in waiting if self._referee is not None else waiting[:1]:
            self._onto_open(cls)
            self._onto_new(cls)
        self._without(waiting[0])

    def _promising(self, waiting: list[int]) -> bool:
        out, cost = self._bar
        if self._out != out:
            return self._out < out
        worth = sum(self._worth.pod[cls] * self._left[cls] for cls in waiting)
        if worth:
            worth -= sum(self._credits)
        return self._cost + max(0.0, worth) < cost - TINY * max(1.0, cost)

    def _credit(self, node: int) -> float:
        """Return the most that the free room of a node can be worth."""
        free, standing = self._free[node], len(self._model.standing)
        each = (have * dear for have, dear in zip(free, self._dear, strict=True) if dear is not None)
        credit = min(each, default=math.inf)
        if node < standing:
            return credit
        amounts = self._worth.amount[self._nodes[node - standing]]
        return min(credit, sum(have * one for have, one in zip(free, amounts, strict=True)))

    def _state(self) -> object:
        standing = len(self._model.standing)
        there = tuple(tuple(counts) for counts in self._contents[:standing])
        new = sorted(zip(self._nodes, map(tuple, self._contents[standing:]), strict=True))
        return tuple(self._left), there, tuple(new)

    def _onto_open(self, cls: int) -> None:
        model, standing, size = self._model, len(self._model.standing), self._model.sizes[cls]
        tried: set[object] = set()
        for node, free in enumerate(self._free):
            if node < standing:
                alike: object = node
                suits = model.standing_suits[node]
            else:
                good = self._nodes[node - standing]
                alike, suits = (good, tuple(self._contents[node])), model.suits[good]
            roomy = cls in suits and all(have >= one for one, have in zip(size, free, strict=True))
            if roomy and alike not in tried:
                tried.add(alike)
                self._put(cls, node, None)

    def _onto_new(self, cls: int) -> None:
        model = self._model
        for good, offered in enumerate(model.goods):
            fits = cls in model.suits[good] and all(
                have >= one for one, have in zip(model.sizes[cls], model.holds[good], strict=True)
            )
            if not fits or model.means.nodes(self._bought, good) < offered.unit:
                continue
            self._bought[good] += offered.unit
            cost, self._cost = self._cost, price_of(model, [*self._nodes, *[good] * offered.unit])
            self._nodes.extend([good] * offered.unit)
            self._free.extend(list(model.holds[good]) for _ in range(offered.unit))
            self._contents.extend([0] * len(model.pods) for _ in range(offered.unit))
            self._credits.extend([self._credit(len(self._free) - 1)] * offered.unit)
            self._put(cls, len(self._free) - offered.unit, good)
            for each in (self._nodes, self._free, self._contents, self._credits):
                del each[-offered.unit :]
            self._bought[good] -= offered.unit
            self._cost = cost

    def _put(self, cls: int, node: int, opens: int | None) -> None:
        agreed = nullcontext(True) if self._referee is None else self._referee.move(cls, node, opens)
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
        for dimension, one in enumerate(self._model.sizes[cls]):
            free[dimension] -= sign * one
        self._contents[node][cls] += sign
        self._left[cls] -= sign
        self._credits[node] = self._credit(node)

    def _without(self, cls: int) -> None:
        count, self._left[cls] = self._left[cls], 0
        self._out += count
        self._explore()
        self._out -= count
        self._left[cls] = count


def _dearest(model: PackingModel, worth: DualPrices) -> list[float | None]:
    """Return the most that an amount of each dimension can be worth by itself; None where a class takes none of it."""
    return [
        None
        if any(size[dimension] == 0 for size in model.sizes)
        else max(one / size[dimension] for one, size in zip(worth.pod, model.sizes, strict=True))
        for dimension in model.figures
    ]
