"""Random choices as values: the next choice follows from a seed and the number of earlier choices.

Decisions get their dice here and nowhere else, so that none is rolled without a seed.
"""

import random
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")


class RandomSource(Protocol):
    """Makes random choices."""

    def choice(self, options: Sequence[T], /) -> T:
        """Return any of them; there has to be one."""
        ...

    def shuffle(self, items: list[Any], /) -> None:
        """Bring the items in any order."""
        ...


def dice(seed: int | str) -> RandomSource:
    """Return dice that roll the same for the same seed."""
    return random.Random(seed)


class TieBreakSeed(msgspec.Struct, frozen=True):
    """Where a sequence of random choices has come to; part of what passes remember, so that a pass can be replayed."""

    seed: int = 0
    turn: int = 0

    def dice(self) -> RandomSource:
        """Return the dice of this turn: the same for the same seed and turn."""
        return dice(f"{self.seed}/{self.turn}")

    def next(self) -> "TieBreakSeed":
        """Return the seed of the turn after this."""
        return TieBreakSeed(self.seed, self.turn + 1)
