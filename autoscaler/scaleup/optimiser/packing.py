"""Answers in figures: nodes of goods, and which pods go where."""

import math
from collections.abc import Iterable, Sequence

import msgspec

from autoscaler.scaleup.optimiser.model import PackingModel


class Assignment(msgspec.Struct, frozen=True):
    """Pods of a class put on a node. Standing nodes come first, then new ones in the order in which they are bought."""

    cls: int
    node: int
    count: int


class Packing(msgspec.Struct, frozen=True):
    """Nodes to buy, by good, in order; and moves in an order in which every one of them is possible."""

    nodes: tuple[int, ...] = ()
    moves: tuple[Assignment, ...] = ()
    left: int = 0
    """Pods that are not helped."""

    def cost(self, model: PackingModel) -> float:
        """Return what the nodes cost for an hour."""
        return price_of(model, self.nodes)

    def contents(self, model: PackingModel) -> list[list[int]]:
        """Return pods by class on each node, standing ones first."""
        found = [[0] * len(model.pods) for _ in range(len(model.standing) + len(self.nodes))]
        for move in self.moves:
            found[move.node][move.cls] += move.count
        return found


def price_of(model: PackingModel, nodes: Iterable[int]) -> float:
    """Return what nodes of these goods cost for an hour, the same for any order."""
    return math.fsum(model.goods[good].price for good in nodes)


def filling_of(model: PackingModel, nodes: Sequence[int], contents: Sequence[Sequence[int]], left: int) -> Packing:
    """Return the filling with these contents (standing nodes first), nodes of one good next to each other."""
    first = len(model.standing)
    order = [*range(first), *sorted(range(first, first + len(nodes)), key=lambda node: nodes[node - first])]
    moves = [
        Assignment(cls, at, count) for at, node in enumerate(order) for cls, count in enumerate(contents[node]) if count
    ]
    return Packing(tuple(sorted(nodes)), tuple(moves), left)
