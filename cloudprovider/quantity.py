"""Kubernetes quantities, exactly, as `k8s.io/apimachinery/pkg/api/resource` reads them.

An optionally signed decimal number, then a binary suffix (Ki .. Ei), a decimal suffix (n u m k M G T P E) or a decimal
exponent (e3, E-2). As in Kubernetes, fractions finer than a billionth are rounded away from zero, and values are
limited to 64 bits.
"""

import re
from fractions import Fraction
from functools import lru_cache

from cloudprovider.quoted import quoted

LARGEST = (1 << 63) - 1
_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?[0-9]{1,9}))"
)
_SCALE = {
    "": Fraction(1),
    **{unit: Fraction(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate(("m", "u", "n"), start=1)},
}
_LONGEST_TEXT = 64
_WIDEST_EXPONENT = 2 * _LONGEST_TEXT
"""Beyond it a number of that length is above all limits, or below."""
_NANO = 10**9


def parse_quantity(text: str) -> Fraction:
    """Return the value of a quantity such as `1500m`, `4Gi` or `1e3`: a multiple of a billionth within 64 bits.

    Raises `ValueError`, which names the text. Unlike Kubernetes, no more than 64 characters are read, and no exponent
    of more than nine digits.
    """
    if len(text) > _LONGEST_TEXT:
        raise _bad(text)
    return _parsed(text)


@lru_cache(maxsize=8192)
def _parsed(text: str) -> Fraction:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise _bad(text)
    exponent = max(-_WIDEST_EXPONENT, min(int(match["exponent"] or 0), _WIDEST_EXPONENT))
    scale = Fraction(10) ** exponent if match["exponent"] else _SCALE[match["suffix"]]
    value = Fraction(match["number"]) * scale
    if _NANO % value.denominator:
        value = Fraction(-(-value * _NANO // 1), _NANO)
    value = min(value, Fraction(LARGEST))
    return -value if match["sign"] == "-" else value


def _bad(text: str) -> ValueError:
    return ValueError(
        f"{quoted(text)} is not a quantity; write a number with a suffix if need be, such as 500m, 2 or 4Gi"
    )
