"""Amounts as the server spells them: `0.5` comes back as `500m`, `1.5Gi` as `1536Mi`, a number as text."""

import re
from fractions import Fraction
from typing import Any

from cloudprovider.quantity import parse_quantity

_LONGEST = 64
_EXPONENTIAL = re.compile(r".*[eE][+-]?\d+")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LISTS = ("requests", "limits", "overhead", "capacity", "allocatable", "hard", "podFixed")


def canonical(amount: Any) -> Any:
    """Return the amount in the server's spelling; what is no amount stays as it is."""
    text = str(amount)
    if isinstance(amount, bool) or not isinstance(amount, str | int | float) or len(text) > _LONGEST:
        return amount
    try:
        value = parse_quantity(text)
    except ValueError:
        return amount
    if text.endswith("i") and value >= 1024:
        whole, power = _shortened(value, 1024, len(_BINARY) - 1)
        return f"{whole}{_BINARY[power]}"
    whole, power = _shortened(value * 10**9, 1000, len(_DECIMAL) - 1)
    if _EXPONENTIAL.fullmatch(text) and isinstance(amount, str):
        exponent = 3 * (power - _DECIMAL.index(""))
        return f"{whole}e{exponent}" if exponent else str(whole)
    return f"{whole}{_DECIMAL[power]}" if whole else "0"


def _shortened(value: Fraction, base: int, most: int) -> tuple[int, int]:
    """A whole number, rounded up, and the power of the base that it counts."""
    whole, power = -(-value // 1), 0
    while whole and whole % base == 0 and power < most:
        whole, power = whole // base, power + 1
    return whole, power


def respell(value: Any) -> None:
    """Spell an object as the server does, in place: amounts in their shortest form, no lists without items."""
    if isinstance(value, list):
        for item in value:
            respell(item)
    elif isinstance(value, dict):
        for key, inner in list(value.items()):
            if inner == []:
                del value[key]
            elif key == "sizeLimit":
                value[key] = canonical(inner)
            elif key in _LISTS and isinstance(inner, dict):
                value[key] = {name: canonical(amount) for name, amount in inner.items()}
            else:
                respell(inner)
