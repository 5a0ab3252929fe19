"""Solutions of a packing model: nodes to buy, and which pods go where."""

import math
from collections.abc import Iterable, Sequence

import msgspec

from autoscaler.scaleup.optimiser.model import PackingModel


class Assignment(msgspec.Struct, frozen=True):
    """Pods of a class on a node. Open nodes come first, then new ones in the order in which they are bought."""

    cls: int
    node: int
    count: int


class Packing(msgspec.Struct, frozen=True):
    """Nodes to buy, as indices of offers, in order; and assignments in an order in which each is possible."""

    nodes: tuple[int, ...] = ()
    moves: tuple[Assignment, ...] = ()
    left_out: int = 0
    """Pods that get no place."""

    def cost(self, model: PackingModel) -> float:
        """Return what the nodes cost for an hour."""
        return price_of(model, self.nodes)

    def contents(self, model: PackingModel) -> list[list[int]]:
        """Return (nodes, classes): how many pods each node has, open nodes first."""
        counts = [[0] * len(model.pods) for _ in range(len(model.open_nodes) + len(self.nodes))]
        for move in self.moves:
            counts[move.node][move.cls] += move.count
        return counts


def price_of(model: PackingModel, nodes: Iterable[int]) -> float:
    """Return what nodes of these offers cost for an hour; their order makes no difference."""
    return math.fsum(model.offers[offer].price for offer in nodes)


def packing_of(model: PackingModel, nodes: Sequence[int], contents: Sequence[Sequence[int]], left_out: int) -> Packing:
    """Return the packing with these contents (open nodes first), nodes of one offer next to each other."""
    first = len(model.open_nodes)
    order = [*range(first), *sorted(range(first, first + len(nodes)), key=lambda node: nodes[node - first])]
    moves = [
        Assignment(cls, new_index, count)
        for new_index, node in enumerate(order)
        for cls, count in enumerate(contents[node])
        if count
    ]
    return Packing(tuple(sorted(nodes)), tuple(moves), left_out)
