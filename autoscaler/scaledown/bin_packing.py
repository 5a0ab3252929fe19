"""Finds the cheapest mix of new nodes for displaced pods: bin packing with bins of several prices.

Amounts and masks only; what else the scheduler asks is proven later, on the simulated cluster. Greedy packings give a
first answer, then branch and bound looks for better ones as long as the work allowed for it lasts: exact where there
are few pods, good where there are many.
"""

from collections.abc import Sequence

import msgspec

Amount = tuple[int, ...]
"""An amount of each resource, in one order."""

_MOST_PODS = 60
"""Most pods that are also packed exactly."""
_EACH = 6000
"""Most places tried by one branch and bound."""
_EPSILON = 1e-9


class BinType(msgspec.Struct, frozen=True):
    """A new node of one group: its price, what it has free, and how many there may be."""

    price: float
    free: Amount
    most: int


class Item(msgspec.Struct, frozen=True):
    """A pod: what it needs, and where it may go, as bit masks over the bins and over the kinds."""

    need: Amount
    bins: int
    kinds: int


class NodeMix(msgspec.Struct, frozen=True):
    """New nodes by kind, and where each pod goes: a bin by number, new nodes counted on from the bins."""

    price: float
    new: tuple[int, ...]
    """The kind of each new node."""
    places: tuple[int, ...]
    """In the order of the items."""


class SearchBudget:
    """Work that is left, in places tried."""

    def __init__(self, count: int) -> None:
        self.left = count

    def take(self, count: int = 1) -> bool:
        """Use some up; False once there is none left."""
        self.left -= count
        return self.left >= 0


def cheapest_mix(
    items: Sequence[Item], bins: Sequence[Amount], kinds: Sequence[BinType], steps: SearchBudget, below: float
) -> NodeMix | None:
    """Return the cheapest mix found that costs less than `below`; None where there is none."""
    search = _Search(items, bins, kinds, steps, below)
    search.greedy()
    if len(items) <= _MOST_PODS:
        search.exact()
    return search.best


class _Search:
    """One search: bins that fill up, and the best mix so far."""

    def __init__(
        self, items: Sequence[Item], bins: Sequence[Amount], kinds: Sequence[BinType], steps: SearchBudget, below: float
    ) -> None:
        self._kinds = kinds
        self._steps = steps
        self._base = len(bins)
        self._bins = tuple(bins)
        scale = [
            max((amounts[row] for amounts in (*bins, *(kind.free for kind in kinds))), default=0)
            for row in _rows(items)
        ]
        self._order = sorted(range(len(items)), key=lambda number: -_weight(items[number].need, scale))
        self._items = [items[number] for number in self._order]
        self._below = below
        self.best: NodeMix | None = None
        self._rests = self._suffixes()
        self._rates = [
            min((kind.price / kind.free[row] for kind in kinds if kind.free[row] > 0), default=0.0)
            for row in _rows(items)
        ]

    def _suffixes(self) -> list[list[int]]:
        """Return what the items from each on need together."""
        total = [0] * len(_rows(self._items))
        rests = [list(total)]
        for item in reversed(self._items):
            total = [have + need for have, need in zip(total, item.need, strict=True)]
            rests.append(total)
        return rests[::-1]

    # Greedy packings.

    def greedy(self) -> None:
        """First fit decreasing, with each kind in turn as the one that is opened; then smaller nodes where they do."""
        for opened in (None, *range(len(self._kinds))):
            self._pack(opened)

    def _pack(self, opened: int | None) -> None:
        free = [list(amounts) for amounts in self._bins]
        new: list[int] = []
        places: list[int] = []
        for item in self._items:
            place = next(
                (bin_index for bin_index in range(len(free)) if self._fits(item, free[bin_index], bin_index, new)), None
            )
            if place is None:
                kind = self._to_open(item, new, opened)
                if kind is None:
                    return
                place = len(free)
                new.append(kind)
                free.append(list(self._kinds[kind].free))
            _take(free[place], item.need)
            places.append(place)
        self._offer(self._shrunk(new, places), places)

    def _to_open(self, item: Item, new: Sequence[int], opened: int | None) -> int | None:
        """Return the kind to open for an item: the one that was asked for, else the cheapest that can take it."""
        usable = [
            kind
            for kind, bin_type in enumerate(self._kinds)
            if item.kinds >> kind & 1 and new.count(kind) < bin_type.most and _within(item.need, bin_type.free)
        ]
        if opened in usable:
            return opened
        return min(usable, key=lambda kind: (self._kinds[kind].price, kind), default=None)

    def _shrunk(self, new: Sequence[int], places: Sequence[int]) -> list[int]:
        """Return the kinds of the new nodes, each as cheap as what it holds allows."""
        kinds = list(new)
        for number in range(len(new)):
            held = [item for item, place in zip(self._items, places, strict=True) if place == self._base + number]
            need = [sum(amounts) for amounts in zip(*(item.need for item in held), strict=True)]
            for kind in sorted(range(len(self._kinds)), key=lambda kind: self._kinds[kind].price):
                bin_type = self._kinds[kind]
                if bin_type.price >= self._kinds[kinds[number]].price:
                    break
                if kinds.count(kind) >= bin_type.most or not all(item.kinds >> kind & 1 for item in held):
                    continue
                if _within(need, bin_type.free):
                    kinds[number] = kind
                    break
        return kinds

    def _offer(self, new: Sequence[int], places: Sequence[int]) -> None:
        price = sum(self._kinds[kind].price for kind in new)
        if price >= self._below - _EPSILON:
            return
        self._below = price
        given = [0] * len(places)
        for number, place in zip(self._order, places, strict=True):
            given[number] = place
        self.best = NodeMix(price, tuple(new), tuple(given))

    # Branch and bound.

    def exact(self) -> None:
        """Look for cheaper mixes among all there are, as long as steps last."""
        self._allowed = SearchBudget(min(_EACH, max(0, self._steps.left)))
        before = self._allowed.left
        self._descend(0, 0.0, [list(amounts) for amounts in self._bins], [], [])
        self._steps.take(before - max(0, self._allowed.left))

    def _descend(self, depth: int, price: float, free: list[list[int]], new: list[int], places: list[int]) -> None:
        if price + self._at_least(depth, free) >= self._below - _EPSILON:
            return
        if depth == len(self._items):
            self._offer(new, places)
            return
        item = self._items[depth]
        same = depth > 0 and self._items[depth - 1] == item
        tried: set[tuple[int, ...]] = set()
        # Equal pods go to places in ascending order: every other order is the same packing.
        for place in range(places[-1] if same else 0, len(free)):
            if not self._allowed.take():
                return
            if not self._fits(item, free[place], place, new):
                continue
            state = (new[place - self._base], *free[place]) if place >= self._base else ()
            if state and not same and state in tried:
                continue
            tried.add(state)
            _take(free[place], item.need)
            places.append(place)
            self._descend(depth + 1, price, free, new, places)
            places.pop()
            _give(free[place], item.need)
        for kind, bin_type in enumerate(self._kinds):
            if not self._allowed.take():
                return
            if not item.kinds >> kind & 1 or new.count(kind) >= bin_type.most or not _within(item.need, bin_type.free):
                continue
            rest = list(bin_type.free)
            _take(rest, item.need)
            free.append(rest)
            new.append(kind)
            places.append(len(free) - 1)
            self._descend(depth + 1, price + bin_type.price, free, new, places)
            places.pop()
            new.pop()
            free.pop()

    def _at_least(self, depth: int, free: Sequence[Sequence[int]]) -> float:
        """Return what the items from a depth on cost at least."""
        lacking = (
            (need - sum(amounts[row] for amounts in free)) * self._rates[row]
            for row, need in enumerate(self._rests[depth])
        )
        return max(0.0, max(lacking, default=0.0))

    def _fits(self, item: Item, free: Sequence[int], place: int, new: Sequence[int]) -> bool:
        allowed = item.bins >> place & 1 if place < self._base else item.kinds >> new[place - self._base] & 1
        self._steps.left -= 1
        return bool(allowed) and _within(item.need, free)


def _rows(items: Sequence[Item]) -> range:
    return range(len(items[0].need)) if items else range(0)


def _weight(need: Amount, scale: Sequence[int]) -> float:
    return sum(amount / most for amount, most in zip(need, scale, strict=True) if most > 0)


def _within(need: Sequence[int], free: Sequence[int]) -> bool:
    return all(amount <= left for amount, left in zip(need, free, strict=True) if amount)


def _take(free: list[int], need: Amount) -> None:
    for row, amount in enumerate(need):
        free[row] -= amount


def _give(free: list[int], need: Amount) -> None:
    for row, amount in enumerate(need):
        free[row] += amount
