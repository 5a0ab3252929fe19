"""A good filling of any size: the node that gives the most for its price, as often as it can be had, then the next.

What a node gives is the worth of the pods that it takes. Each good's node is filled in several orders, and the best
counts. Afterwards the nodes that give least for their price are emptied and their pods served anew, exactly.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from autoscaler.scaleup.optimiser.branch_and_bound import PackingSearch
from autoscaler.scaleup.optimiser.dual_prices import DualPrices, most
from autoscaler.scaleup.optimiser.model import Counts, PackingModel
from autoscaler.scaleup.optimiser.packing import Packing, filling_of
from autoscaler.tie_break import dice

_FAIR = 1.001
"""A node whose price is at most so many times the worth of its pods cannot be beaten by much: no need to look on."""
_BALANCED_PAIRS = 200
"""Up to so many pairs of a class and a good, nodes are also filled pod by pod."""
_PODS_ANEW, _NODES_ANEW, _ALIKE_ANEW = 16, 6, 3
"""Bounds of serving pods anew each time: pods, nodes, and nodes with the same pods."""
_TIMES_ANEW, _STEPS_ANEW = 24, 500
"""How often that is tried, and steps of each search."""


class _Pattern(msgspec.Struct, frozen=True):
    """Nodes of one good that come together, with what goes on each; `ratio` is their price by the worth of that."""

    good: int
    nodes: tuple[Counts, ...]
    taken: Counts
    ratio: float


class GreedyPacker:
    """Builds one filling. Entangled classes are none of its business: it leaves them out."""

    def __init__(self, model: PackingModel, worth: DualPrices) -> None:
        self._model = model
        self._worth = worth
        self._left = [0 if at in model.entangled else count for at, count in enumerate(model.demand)]
        self._bought = [0] * len(model.goods)
        self._orders = [self._orders_of(good) for good in range(len(model.goods))]
        self._nodes: list[int] = []
        self._contents: list[list[int]] = []

    def fill(self) -> Packing:
        """Return the filling."""
        model = self._model
        for held, suits in zip(model.standing_holds, model.standing_suits, strict=True):
            order = sorted(suits, key=lambda cls: -self._worth.pod[cls])
            counts = self._packed(held, order, self._left)
            self._contents.append(list(counts))
            self._take(counts, 1)
        while (pattern := self._cheapest()) is not None:
            self._buy(pattern)
        self._serve_anew()
        return filling_of(model, self._nodes, self._contents, sum(self._left))

    def _orders_of(self, good: int) -> tuple[tuple[int, ...], ...]:
        """Return the orders in which a good's node is filled: by size, by worth, by worth for what it takes there."""
        model, worth = self._model, self._worth
        suits, holds, amounts = sorted(model.suits[good] - model.entangled), model.holds[good], worth.amount[good]

        def share(cls: int) -> float:
            return max((one / have for one, have in zip(model.sizes[cls], holds, strict=True) if have), default=0.0)

        def takes(cls: int) -> float:
            return sum(one * amount for one, amount in zip(model.sizes[cls], amounts, strict=True))

        def density(cls: int) -> float:
            return worth.pod[cls] / takes(cls) if takes(cls) > 0 else 0.0

        by_size = tuple(sorted(suits, key=lambda cls: -share(cls)))
        by_worth = tuple(sorted(suits, key=lambda cls: -worth.pod[cls]))
        by_density = tuple(sorted(suits, key=lambda cls: (-round(density(cls), 6), -share(cls))))
        return tuple(dict.fromkeys((by_density, by_size, by_worth)))

    def _packed(self, holds: Sequence[int], order: Sequence[int], left: Sequence[int]) -> Counts:
        """Fill one node: each class in turn, as many as there is room for."""
        free, counts = list(holds), [0] * len(self._model.pods)
        for cls in order:
            if left[cls] and (count := min(left[cls], most(self._model.sizes[cls], free))):
                counts[cls] = count
                for dimension, one in enumerate(self._model.sizes[cls]):
                    free[dimension] -= count * one
        return tuple(counts)

    def _balanced(self, good: int, left: Sequence[int]) -> Counts:
        """Fill one node pod by pod, always with the class that gives most for its share of what is still free."""
        model = self._model
        free, counts = list(model.holds[good]), [0] * len(model.pods)
        waiting = [cls for cls in self._orders[good][0] if left[cls]]
        while waiting:
            rated = []
            for cls in waiting:
                size = model.sizes[cls]
                if counts[cls] < left[cls] and all(have >= one for one, have in zip(size, free, strict=True)):
                    share = sum(one / have for one, have in zip(size, free, strict=True) if one)
                    rated.append((-self._worth.pod[cls] / share, cls))
            waiting = [cls for _, cls in rated]
            if rated:
                cls = min(rated)[1]
                counts[cls] += 1
                for dimension, one in enumerate(model.sizes[cls]):
                    free[dimension] -= one
        return tuple(counts)

    def _cheapest(self) -> _Pattern | None:
        """Return the pattern with the best ratio."""
        best: _Pattern | None = None
        for good in range(len(self._model.goods)):
            if self._model.means.nodes(self._bought, good) < self._model.goods[good].unit:
                continue
            for pattern in self._patterns(good):
                if best is None or pattern.ratio < best.ratio:
                    best = pattern
            if best is not None and best.ratio <= _FAIR:
                break
        return best

    def _patterns(self, good: int) -> list[_Pattern]:
        found = []
        small = len(self._model.pods) * len(self._model.goods) <= _BALANCED_PAIRS
        for order in (*self._orders[good], *((None,) if small else ())):
            left, nodes = list(self._left), []
            for _ in range(self._model.goods[good].unit):
                counts = (
                    self._balanced(good, left) if order is None else self._packed(self._model.holds[good], order, left)
                )
                if not any(counts):
                    break
                nodes.append(counts)
                left = [before - one for before, one in zip(left, counts, strict=True)]
            taken = tuple(before - after for before, after in zip(self._left, left, strict=True))
            if nodes:
                price = self._model.goods[good].price * self._model.goods[good].unit
                worth = self._worth.of(taken)
                found.append(_Pattern(good, tuple(nodes), taken, price / worth if worth > 0 else float(price > 0)))
        return found

    def _buy(self, pattern: _Pattern) -> None:
        good = self._model.goods[pattern.good]
        times = min(have // one for have, one in zip(self._left, pattern.taken, strict=True) if one)
        times = min(times, self._model.means.nodes(self._bought, pattern.good) // good.unit)
        empty: Counts = (0,) * len(self._model.pods)
        for _ in range(times):
            self._contents.extend(list(counts) for counts in pattern.nodes)
            self._contents.extend(list(empty) for _ in range(good.unit - len(pattern.nodes)))
        self._nodes.extend([pattern.good] * good.unit * times)
        self._bought[pattern.good] += good.unit * times
        self._take(pattern.taken, times)

    def _take(self, counts: Counts, times: int) -> None:
        self._left = [have - one * times for have, one in zip(self._left, counts, strict=True)]

    def _serve_anew(self) -> None:
        """Empty some nodes, and search for the cheapest way to serve their pods; those that give least come first."""
        rolled = dice(0)
        while self._emptied(self._few(self._poorest())):
            pass
        for _ in range(_TIMES_ANEW):
            nodes = self._poorest()
            rolled.shuffle(nodes)
            self._emptied(self._few(nodes))

    def _poorest(self) -> list[int]:
        """Return the nodes that may be emptied (indices of `_nodes`), those that give least for their price first."""
        first, goods = len(self._model.standing), self._model.goods

        def gives(node: int) -> float:
            price = goods[self._nodes[node]].price
            return self._worth.of(self._contents[first + node]) / price if price > 0 else 1.0

        emptied = [node for node, good in enumerate(self._nodes) if goods[good].unit == 1]
        return sorted(emptied, key=lambda node: (round(gives(node), 9), self._nodes[node]))

    def _few(self, nodes: Sequence[int]) -> list[int]:
        """Return the first of the nodes, as many as one search copes with; of nodes that are alike only some."""
        first = len(self._model.standing)
        chosen: list[int] = []
        alike: Counter[object] = Counter()
        pods = 0
        for node in nodes:
            kind = (self._nodes[node], *self._contents[first + node])
            count = sum(self._contents[first + node])
            if alike[kind] == _ALIKE_ANEW or pods + count > _PODS_ANEW:
                continue
            alike[kind] += 1
            pods += count
            chosen.append(node)
            if len(chosen) == _NODES_ANEW:
                break
        return chosen

    def _emptied(self, chosen: list[int]) -> bool:
        """Serve the pods of some nodes anew; whether that made it better."""
        if not chosen:
            return False
        model, first = self._model, len(self._model.standing)
        demand = [0] * len(model.pods)
        bought = list(self._bought)
        for node in chosen:
            demand = [one + other for one, other in zip(demand, self._contents[first + node], strict=True)]
            bought[self._nodes[node]] -= 1
        more = self._some_left(_PODS_ANEW - sum(demand))
        demand = [one + other for one, other in zip(demand, more, strict=True)]
        kept = [node for node in range(len(self._nodes)) if node not in chosen]
        part = self._part(kept, demand, bought)
        price = sum(model.goods[self._nodes[node]].price for node in chosen)
        found = PackingSearch(part, self._worth, _STEPS_ANEW, (sum(more), price)).run().best
        if found is None:
            return False
        contents = found.contents(part)
        nodes = [self._nodes[node] for node in kept]
        merged = [list(self._contents[at]) for at in range(first)] + [list(self._contents[first + at]) for at in kept]
        for at, counts in zip(part.standing, contents, strict=False):
            merged[at] = [one + other for one, other in zip(merged[at], counts, strict=True)]
        self._nodes = [*nodes, *found.nodes]
        self._contents = [*merged, *contents[len(part.standing) :]]
        for good in found.nodes:
            bought[good] += 1
        self._bought = bought
        served = [sum(counts[cls] for counts in contents) for cls in range(len(model.pods))]
        kept_back = [have - one for have, one in zip(self._left, more, strict=True)]
        self._left = [back + wanted - done for back, wanted, done in zip(kept_back, demand, served, strict=True)]
        return True

    def _part(self, kept: Sequence[int], demand: Sequence[int], bought: Sequence[int]) -> PackingModel:
        """Return the question how to serve some pods beside the nodes that are kept: its standing nodes, by index."""
        model, first = self._model, len(self._model.standing)
        frees = [self._free(at) for at in (*range(first), *(first + node for node in kept))]
        suits = [*model.standing_suits, *(model.suits[self._nodes[node]] for node in kept)]
        wanted = [cls for cls, count in enumerate(demand) if count]
        roomy = [
            at
            for at, free in enumerate(frees)
            if any(cls in suits[at] and most(model.sizes[cls], free) for cls in wanted)
        ]
        return msgspec.structs.replace(
            model,
            pods=tuple(
                msgspec.structs.replace(each, pods=each.pods[:count])
                for each, count in zip(model.pods, demand, strict=True)
            ),
            means=model.means.after(bought),
            standing=tuple(roomy),
            standing_holds=tuple(tuple(frees[at]) for at in roomy),
            standing_suits=tuple(suits[at] for at in roomy),
        )

    def _some_left(self, most_pods: int) -> list[int]:
        """Return up to so many of the pods that are not helped, by class."""
        found = []
        for count in self._left:
            found.append(min(count, most_pods))
            most_pods -= found[-1]
        return found

    def _free(self, at: int) -> list[int]:
        """Return what a node, standing ones first, has left of each dimension."""
        model, first = self._model, len(self._model.standing)
        held = model.standing_holds[at] if at < first else model.holds[self._nodes[at - first]]
        free = list(held)
        for cls, count in enumerate(self._contents[at]):
            if count:
                for dimension, one in enumerate(model.sizes[cls]):
                    free[dimension] -= count * one
        return free
