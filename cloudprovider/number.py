"""Numbers and booleans in text, as Go's flag package reads them, in ASCII digits only.

Digits of other scripts, underscores between digits and infinity are invalid, although Go reads the last two."""

import math
import re

LARGEST = (1 << 63) - 1
BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
"""How Go spells them."""
_LONGEST_TEXT = 64
_INT = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[1-9][0-9]*|0)")
_FLOAT = re.compile(r"[+-]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_bool(text: str) -> bool:
    """Return a boolean; raises `ValueError` as `parse_int` does."""
    if text not in BOOLEANS:
        raise ValueError("is not a boolean; write true or false")
    return BOOLEANS[text]


def parse_int(text: str) -> int:
    """Return a whole number of 64 bits, with Go's prefixes (a leading 0 means octal).

    Raises `ValueError` with what is wrong and how to write it; the message follows the text.
    """
    if len(text) > _LONGEST_TEXT or not _INT.fullmatch(text):
        raise ValueError("is not a whole number; write digits only, such as 10")
    value = value_of(text)
    if not -LARGEST - 1 <= value <= LARGEST:
        raise ValueError("does not fit into 64 bits")
    return value


def value_of(integer: str) -> int:
    """Return the value of an integer as Go writes it: a sign, then a prefix such as 0x, or a 0 for octal."""
    digits = integer.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    return int(digits, 8 if octal else 0) * (-1 if integer.startswith("-") else 1)


def parse_float(text: str) -> float:
    """Return a finite decimal number; raises `ValueError` as `parse_int` does."""
    if len(text) > _LONGEST_TEXT or not _FLOAT.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError("is not a number; write for example 0.5")
    return float(text)


def parse_count(text: str, most: int = LARGEST) -> int | None:
    """Return a number that consists of digits only; None for other text and for numbers above `most`."""
    if not (len(text) <= _LONGEST_TEXT and text.isascii() and text.isdecimal()):
        return None
    value = int(text)
    return value if value <= most else None
