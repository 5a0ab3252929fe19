"""Chance as a value: which random choice comes next follows from a seed and from how many were made before."""

import random

import msgspec


class Luck(msgspec.Struct, frozen=True):
    """Where a sequence of random choices has come to; part of what passes remember, so that a pass can be replayed."""

    seed: int = 0
    turn: int = 0

    def source(self) -> random.Random:
        """Return the source of this turn's choices: the same for the same seed and turn."""
        return random.Random(f"{self.seed}/{self.turn}")

    def next(self) -> "Luck":
        """Return the luck of the turn after this."""
        return Luck(self.seed, self.turn + 1)


def drawn(seed: int | None) -> Luck:
    """Return the luck of a process that starts now: as the seed says, or any."""
    return Luck(random.SystemRandom().getrandbits(63) if seed is None else seed)
