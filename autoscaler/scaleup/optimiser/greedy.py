"""A good packing of any size: the node that gives the most for its price, as often as possible, then the next.

What a node gives is the value of its pods by dual prices. The node of each offer is filled in several orders, and the
best counts. Afterwards the nodes that give least for their price are emptied, and an exact search repacks their pods.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from autoscaler.scaleup.optimiser.branch_and_bound import PackingSearch
from autoscaler.scaleup.optimiser.dual_prices import DualPrices, max_pods
from autoscaler.scaleup.optimiser.model import Counts, PackingModel
from autoscaler.scaleup.optimiser.packing import Packing, packing_of
from autoscaler.tie_break import dice

_FAIR = 1.001
"""Highest ratio of a node's price to the value of its pods at which the search for a better node ends."""
_BALANCED_PAIRS = 200
"""Most pairs of a class and an offer with which nodes are also filled pod by pod."""
_REPACKED_PODS, _REPACKED_NODES, _REPACKED_ALIKE = 16, 6, 3
"""Most pods, nodes, and nodes with the same pods that are repacked at a time."""
_REPACK_TIMES, _REPACK_STEPS = 24, 500
"""Random attempts to repack, and steps of each search."""


class _Pattern(msgspec.Struct, frozen=True):
    """Nodes of one offer that come together."""

    offer: int
    nodes: tuple[Counts, ...]
    """(nodes, classes): the pods on each."""
    taken: Counts
    """By class: the pods on all of them."""
    ratio: float
    """Their price divided by the value of their pods."""


class GreedyPacker:
    """Builds one packing, without interdependent classes."""

    def __init__(self, model: PackingModel, dual_prices: DualPrices) -> None:
        self._model = model
        self._dual_prices = dual_prices
        self._left = [0 if cls in model.interdependent else count for cls, count in enumerate(model.demand)]
        self._bought = [0] * len(model.offers)
        self._orders = [self._orders_of(offer) for offer in range(len(model.offers))]
        self._nodes: list[int] = []
        self._contents: list[list[int]] = []

    def pack(self) -> Packing:
        """Return the packing."""
        model = self._model
        for free, accepted in zip(model.open_free, model.open_accepts, strict=True):
            order = sorted(accepted, key=lambda cls: -self._dual_prices.by_class[cls])
            counts = self._filled(free, order, self._left)
            self._contents.append(list(counts))
            self._take(counts, 1)
        while (pattern := self._cheapest()) is not None:
            self._buy(pattern)
        self._repack_worst_nodes()
        return packing_of(model, self._nodes, self._contents, sum(self._left))

    def _orders_of(self, offer: int) -> tuple[tuple[int, ...], ...]:
        """Return the orders in which an offer's node is filled: by value for the room it takes, by size, by value."""
        model, values, prices = self._model, self._dual_prices.by_class, self._dual_prices.by_dimension[offer]
        accepted, capacity = sorted(model.accepts[offer] - model.interdependent), model.capacity[offer]

        def share(cls: int) -> float:
            return max(
                (amount / have for amount, have in zip(model.requests[cls], capacity, strict=True) if have), default=0.0
            )

        def cost(cls: int) -> float:
            return sum(amount * price for amount, price in zip(model.requests[cls], prices, strict=True))

        def density(cls: int) -> float:
            return values[cls] / cost(cls) if cost(cls) > 0 else 0.0

        by_size = tuple(sorted(accepted, key=lambda cls: -share(cls)))
        by_value = tuple(sorted(accepted, key=lambda cls: -values[cls]))
        by_density = tuple(sorted(accepted, key=lambda cls: (-round(density(cls), 6), -share(cls))))
        return tuple(dict.fromkeys((by_density, by_size, by_value)))

    def _filled(self, capacity: Sequence[int], order: Sequence[int], left: Sequence[int]) -> Counts:
        """Fill one node: each class in turn, as many as there is room for."""
        free, counts = list(capacity), [0] * len(self._model.pods)
        for cls in order:
            if left[cls] and (count := min(left[cls], max_pods(self._model.requests[cls], free))):
                counts[cls] = count
                for dimension, amount in enumerate(self._model.requests[cls]):
                    free[dimension] -= count * amount
        return tuple(counts)

    def _balanced(self, offer: int, left: Sequence[int]) -> Counts:
        """Fill one node pod by pod, always with the class that gives most for its share of what is still free."""
        model = self._model
        free, counts = list(model.capacity[offer]), [0] * len(model.pods)
        waiting = [cls for cls in self._orders[offer][0] if left[cls]]
        while waiting:
            rated = []
            for cls in waiting:
                request = model.requests[cls]
                if counts[cls] < left[cls] and all(have >= amount for amount, have in zip(request, free, strict=True)):
                    share = sum(amount / have for amount, have in zip(request, free, strict=True) if amount)
                    rated.append((-self._dual_prices.by_class[cls] / share, cls))
            waiting = [cls for _, cls in rated]
            if rated:
                cls = min(rated)[1]
                counts[cls] += 1
                for dimension, amount in enumerate(model.requests[cls]):
                    free[dimension] -= amount
        return tuple(counts)

    def _cheapest(self) -> _Pattern | None:
        """Return the pattern with the best ratio."""
        best: _Pattern | None = None
        for offer in range(len(self._model.offers)):
            if self._model.limits.nodes_left(self._bought, offer) < self._model.offers[offer].unit:
                continue
            for pattern in self._patterns(offer):
                if best is None or pattern.ratio < best.ratio:
                    best = pattern
            if best is not None and best.ratio <= _FAIR:
                break
        return best

    def _patterns(self, offer: int) -> list[_Pattern]:
        model, patterns = self._model, list[_Pattern]()
        small = len(model.pods) * len(model.offers) <= _BALANCED_PAIRS
        for order in (*self._orders[offer], *((None,) if small else ())):
            left, nodes = list(self._left), []
            for _ in range(model.offers[offer].unit):
                counts = (
                    self._balanced(offer, left) if order is None else self._filled(model.capacity[offer], order, left)
                )
                if not any(counts):
                    break
                nodes.append(counts)
                left = _less(left, counts)
            if nodes:
                taken = tuple(_less(self._left, left))
                price, value = model.offers[offer].price * model.offers[offer].unit, self._dual_prices.value_of(taken)
                patterns.append(_Pattern(offer, tuple(nodes), taken, price / value if value > 0 else float(price > 0)))
        return patterns

    def _buy(self, pattern: _Pattern) -> None:
        unit = self._model.offers[pattern.offer].unit
        times = min(have // taken for have, taken in zip(self._left, pattern.taken, strict=True) if taken)
        times = min(times, self._model.limits.nodes_left(self._bought, pattern.offer) // unit)
        empty: Counts = (0,) * len(self._model.pods)
        for _ in range(times):
            self._contents.extend(list(counts) for counts in pattern.nodes)
            self._contents.extend(list(empty) for _ in range(unit - len(pattern.nodes)))
        self._nodes.extend([pattern.offer] * unit * times)
        self._bought[pattern.offer] += unit * times
        self._take(pattern.taken, times)

    def _take(self, counts: Counts, times: int) -> None:
        self._left = [have - count * times for have, count in zip(self._left, counts, strict=True)]

    def _repack_worst_nodes(self) -> None:
        """Empty some nodes, those that give least first, and search for the cheapest places of their pods."""
        random_source = dice(0)
        while self._repacked(self._first_few(self._worst_first())):
            pass
        for _ in range(_REPACK_TIMES):
            nodes = self._worst_first()
            random_source.shuffle(nodes)
            self._repacked(self._first_few(nodes))

    def _worst_first(self) -> list[int]:
        """Return the nodes that may be emptied (indices of `_nodes`), those that give least for their price first."""
        first, offers = len(self._model.open_nodes), self._model.offers

        def gives(node: int) -> float:
            price = offers[self._nodes[node]].price
            return self._dual_prices.value_of(self._contents[first + node]) / price if price > 0 else 1.0

        single = [node for node, offer in enumerate(self._nodes) if offers[offer].unit == 1]
        return sorted(single, key=lambda node: (round(gives(node), 9), self._nodes[node]))

    def _first_few(self, nodes: Sequence[int]) -> list[int]:
        """Return the first of the nodes, as many as one search can repack; of nodes that are alike only some."""
        first = len(self._model.open_nodes)
        chosen: list[int] = []
        alike: Counter[object] = Counter()
        pods = 0
        for node in nodes:
            kind = (self._nodes[node], *self._contents[first + node])
            count = sum(self._contents[first + node])
            if alike[kind] == _REPACKED_ALIKE or pods + count > _REPACKED_PODS:
                continue
            alike[kind] += 1
            pods += count
            chosen.append(node)
            if len(chosen) == _REPACKED_NODES:
                break
        return chosen

    def _repacked(self, chosen: list[int]) -> bool:
        """Repack the pods of some nodes; return whether that is better."""
        if not chosen:
            return False
        model, first = self._model, len(self._model.open_nodes)
        demand = [0] * len(model.pods)
        bought = list(self._bought)
        for node in chosen:
            demand = _sum(demand, self._contents[first + node])
            bought[self._nodes[node]] -= 1
        more = self._some_left(_REPACKED_PODS - sum(demand))
        demand = _sum(demand, more)
        kept = [node for node in range(len(self._nodes)) if node not in chosen]
        part = self._part(kept, demand, bought)
        price = sum(model.offers[self._nodes[node]].price for node in chosen)
        better = PackingSearch(part, self._dual_prices, _REPACK_STEPS, (sum(more), price)).run().best
        if better is None:
            return False
        contents = better.contents(part)
        nodes = [self._nodes[node] for node in kept]
        merged = [list(self._contents[node]) for node in (*range(first), *(first + node for node in kept))]
        for node, counts in zip(part.open_nodes, contents, strict=False):
            merged[node] = _sum(merged[node], counts)
        self._nodes = [*nodes, *better.nodes]
        self._contents = [*merged, *contents[len(part.open_nodes) :]]
        for offer in better.nodes:
            bought[offer] += 1
        self._bought = bought
        placed = [sum(counts[cls] for counts in contents) for cls in range(len(model.pods))]
        self._left = _sum(_less(self._left, more), _less(demand, placed))
        return True

    def _part(self, kept: Sequence[int], demand: Sequence[int], bought: Sequence[int]) -> PackingModel:
        """Return the model of repacking these pods beside the nodes that are kept, which are its open nodes."""
        model, first = self._model, len(self._model.open_nodes)
        frees = [self._free(node) for node in (*range(first), *(first + node for node in kept))]
        accepts = [*model.open_accepts, *(model.accepts[self._nodes[node]] for node in kept)]
        waiting = [cls for cls, count in enumerate(demand) if count]
        usable = [
            node
            for node, free in enumerate(frees)
            if any(cls in accepts[node] and max_pods(model.requests[cls], free) for cls in waiting)
        ]
        return msgspec.structs.replace(
            model,
            pods=tuple(
                msgspec.structs.replace(group, pods=group.pods[:count])
                for group, count in zip(model.pods, demand, strict=True)
            ),
            limits=model.limits.after(bought),
            open_nodes=tuple(usable),
            open_free=tuple(tuple(frees[node]) for node in usable),
            open_accepts=tuple(accepts[node] for node in usable),
        )

    def _some_left(self, limit: int) -> list[int]:
        """Return how many of the pods without a place are repacked too, by class; `limit`: in total."""
        counts = []
        for count in self._left:
            counts.append(min(count, limit))
            limit -= counts[-1]
        return counts

    def _free(self, node: int) -> list[int]:
        """Return what a node has left of each dimension; open nodes come first."""
        model, first = self._model, len(self._model.open_nodes)
        free = list(model.open_free[node] if node < first else model.capacity[self._nodes[node - first]])
        for cls, count in enumerate(self._contents[node]):
            if count:
                for dimension, amount in enumerate(model.requests[cls]):
                    free[dimension] -= count * amount
        return free


def _less(counts: Sequence[int], other: Sequence[int]) -> list[int]:
    return [have - count for have, count in zip(counts, other, strict=True)]


def _sum(counts: Sequence[int], other: Sequence[int]) -> list[int]:
    return [have + count for have, count in zip(counts, other, strict=True)]
