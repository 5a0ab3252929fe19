"""Kubernetes quantity strings, for checking what providers are given and for pricing it.

Exact: values are fractions, so that comparing and adding never rounds.
"""

import re
from fractions import Fraction

_GRAMMAR = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    re.ASCII,
)
_SCALE = {
    **{unit: Fraction(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate(("m", "u", "n"), start=1)},
}
_LONGEST = 64
_WIDEST_EXPONENT = 40


def parse_quantity(text: str) -> Fraction:
    """Return the value of a Kubernetes quantity such as `1500m`, `4Gi` or `1e3`, exactly.

    Raises `ValueError` for anything outside the grammar, and for numbers so long or exponents so wide that no API
    server would keep them (it saturates at 2^63-1), because their exact value could fill the memory.
    """
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a quantity such as 500m, 2 or 4Gi")
    number, suffix = Fraction(match["number"]), match["suffix"]
    if suffix is None:
        return number
    if suffix in _SCALE:
        return number * _SCALE[suffix]
    exponent = int(suffix[1:])
    if abs(exponent) > _WIDEST_EXPONENT:
        raise ValueError(f"{text!r} has an exponent beyond {_WIDEST_EXPONENT}")
    return number * Fraction(10) ** exponent
