"""The plain twin of consolidation: every set of nodes, every mix of new ones, every way to place the pods."""

from collections.abc import Sequence
from itertools import chain, combinations, combinations_with_replacement

import msgspec

Amount = tuple[int, int]
"""CPU in milli and memory in MiB."""


class Type(msgspec.Struct, frozen=True):
    """A node group: what one node has, what it costs, and how many more there may be."""

    size: Amount
    price: float
    room: int


class Placed(msgspec.Struct, frozen=True):
    """A node: its type by number, and what its pods ask for."""

    type: int
    pods: tuple[Amount, ...]


def largest_saving(nodes: Sequence[Placed], types: Sequence[Type], margin: float, most_new: int = 7) -> float:
    """Return what the best plan saves; 0 where no plan saves more than the margin."""
    best = 0.0
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(range(len(nodes)), size):
            before = sum(types[nodes[number].type].price for number in chosen)
            free = [_left(node, types) for number, node in enumerate(nodes) if number not in chosen]
            pods = sorted(chain.from_iterable(nodes[number].pods for number in chosen), reverse=True)
            for price, mix in _mixes(types, most_new):
                if price >= before * (1 - margin) - 1e-9 or before - price <= best:
                    break
                if _packs(pods, [*free, *(types[kind].size for kind in mix)]):
                    best = before - price
                    break
    return best


def _left(node: Placed, types: Sequence[Type]) -> Amount:
    cpu, memory = types[node.type].size
    return cpu - sum(pod[0] for pod in node.pods), memory - sum(pod[1] for pod in node.pods)


def _mixes(types: Sequence[Type], most: int) -> list[tuple[float, tuple[int, ...]]]:
    """Return every mix of up to so many new nodes, the cheapest first."""
    kinds = range(len(types))
    every = chain.from_iterable(combinations_with_replacement(kinds, count) for count in range(most + 1))
    allowed = [mix for mix in every if all(mix.count(kind) <= types[kind].room for kind in kinds)]
    return sorted((sum(types[kind].price for kind in mix), mix) for mix in allowed)


def _packs(pods: Sequence[Amount], bins: Sequence[Amount]) -> bool:
    if not pods:
        return True
    (cpu, memory), rest = pods[0], pods[1:]
    for number, (free_cpu, free_memory) in enumerate(bins):
        if bins[number] in bins[:number] or cpu > free_cpu or memory > free_memory:
            continue
        if _packs(rest, [*bins[:number], (free_cpu - cpu, free_memory - memory), *bins[number + 1 :]]):
            return True
    return False
