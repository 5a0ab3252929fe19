"""Kubernetes quantities, exactly.

The grammar is that of `k8s.io/apimachinery/pkg/api/resource`: an optionally signed decimal number, then a binary
suffix (Ki .. Ei), a decimal suffix (n u m k M G T P E) or a decimal exponent (e3, E-2). The engine keeps integers:
CPU in thousandths of a core, everything else in whole units (bytes, pieces), both rounded up, as the scheduler does.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

_GRAMMAR = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?\d+))"
)
_SCALE = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(10 ** (3 * power)) for power, letter in enumerate("kMGTPE", start=1)},
    **{letter + "i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}
_MAX_EXPONENT = 30
"""Beyond any machine; refuses text that would only make huge integers."""


class BadQuantity(ValueError):
    """The text is not a Kubernetes quantity."""


@lru_cache(maxsize=8192)
def parse(text: str) -> Fraction:
    """Return the exact value of a quantity string; raises `BadQuantity`."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise BadQuantity(f"{text!r} is not a quantity; write a number with an optional suffix such as 500m, 2 or 4Gi")
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > _MAX_EXPONENT:
        raise BadQuantity(f"{text!r} has an exponent beyond {_MAX_EXPONENT}")
    scale = Fraction(10) ** exponent if match["exponent"] else _SCALE[match["suffix"] or ""]
    return Fraction(match["number"]) * scale


@lru_cache(maxsize=8192)
def milli(text: str) -> int:
    """Return thousandths, rounded up."""
    return -int(-parse(text) * 1000 // 1)


@lru_cache(maxsize=8192)
def whole(text: str) -> int:
    """Return whole units, rounded up."""
    return -int(-parse(text) // 1)


def amount(resource: str, text: str) -> int:
    """Return a quantity in the engine's unit for `resource`: milli-CPU, or whole units."""
    return milli(text) if resource == CPU else whole(text)


def amounts(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """Convert a resource list of the API; numbers stand for their decimal text."""
    return {resource: amount(resource, str(quantity)) for resource, quantity in quantities.items()}


def text(resource: str, value: int) -> str:
    """Return a short form for people: `2500m`, `4Gi`, `17`; exact."""
    if resource == CPU:
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource in (MEMORY, EPHEMERAL_STORAGE):
        for power in range(6, 0, -1):
            unit = 1024**power
            if value and value % unit == 0:
                return f"{value // unit}{'KMGTPE'[power - 1]}i"
    return str(value)
