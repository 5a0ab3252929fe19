"""Values of selectors for devices, and what can be done with them."""

import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import total_ordering

import msgspec

from cloudprovider.quantity import parse_quantity

MOST_STEPS = 100_000
"""Steps of one evaluation."""
_LONGEST = 10_000
"""Characters of a text, and entries of a list."""
_LONGEST_VERSION = 256
_MOST_INCLUDED = 48
_SEMVER = re.compile(
    r"(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
"""A repeated group, or a look around: such a pattern may take forever."""


class CelError(ValueError):
    """An expression that cannot be read, or has no value."""


class Quantity(msgspec.Struct, frozen=True, order=True):
    """An amount."""

    value: Fraction


@total_ordering
class Version(msgspec.Struct, frozen=True):
    """A semantic version, without what it says of its build."""

    numbers: tuple[int, int, int]
    labels: tuple[str, ...] = ()

    def _order(self) -> tuple[tuple[int, int, int], bool, list[tuple[bool, int, str]]]:
        labels = [(not one.isdigit(), int(one) if one.isdigit() else 0, one) for one in self.labels]
        return self.numbers, not self.labels, labels

    def __lt__(self, other: "Version") -> bool:
        """Whether the other one is newer; one without labels is newer than one with them."""
        return self._order() < other._order()


class Maybe(msgspec.Struct, frozen=True):
    """A value that may be missing."""

    found: tuple["Value", ...] = ()


Value = None | bool | int | float | str | list["Value"] | Mapping[str, "Value"] | Quantity | Version | Maybe


class Domains(dict[str, Value]):
    """Attributes or capacities by domain; a domain that the device does not have is empty."""

    def __missing__(self, key: str) -> Value:
        """Return no entries."""
        return {}


class Budget:
    """Steps that one evaluation may still take."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        """Count steps; raises `CelError` when there are none left."""
        self._left -= steps
        if self._left < 0:
            raise CelError(f"takes more than {MOST_STEPS} steps")


def number(value: Value) -> int | float:
    """Return a number; raises `CelError` for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise CelError("a number is missing")


def text(value: Value) -> str:
    """Return a text; raises `CelError` for anything else."""
    if isinstance(value, str):
        return value
    raise CelError("a text is missing")


def truth(value: Value) -> bool:
    """Return a truth value; raises `CelError` for anything else."""
    if isinstance(value, bool):
        return value
    raise CelError("the value is neither true nor false")


def equal(left: Value, right: Value, budget: Budget) -> bool:
    """Whether both are the same; values of different types never are, but for numbers."""
    budget.spend()
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            equal(mine, theirs, budget) for mine, theirs in zip(left, right, strict=True)
        )
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(left[key], right[key], budget) for key in left)
    return left == right


def compare(left: Value, right: Value) -> int:
    """Return below 0, 0 or above 0; raises `CelError` for values that have no order."""
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return (left > right) - (left < right)
    if isinstance(left, Version) and isinstance(right, Version):
        return (left > right) - (left < right)
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    mine, theirs = number(left), number(right)
    return (mine > theirs) - (mine < theirs)


def contains(where: Value, what: Value, budget: Budget) -> bool:
    """Whether a list has an entry, or a map a key."""
    if isinstance(where, list):
        return any(equal(one, what, budget) for one in where)
    if isinstance(where, Mapping):
        return isinstance(what, str) and what in where
    raise CelError("`in` needs a list or a map")


def calculated(sign: str, left: Value, right: Value) -> Value:
    """Return a sum, difference, product, quotient or remainder, as CEL has it: whole numbers stay within 64 bits."""
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        return _bounded(left + right)
    if sign == "+" and isinstance(left, list) and isinstance(right, list):
        return _bounded(left + right)
    mine, theirs = number(left), number(right)
    if isinstance(mine, int) is not isinstance(theirs, int):
        raise CelError("whole and other numbers are not calculated with together")
    if sign in "/%" and not theirs:
        raise CelError("division by zero")
    if isinstance(mine, int) and isinstance(theirs, int) and sign in "/%":
        whole = abs(mine) // abs(theirs) * (1 if (mine < 0) is (theirs < 0) else -1)
        return within_64_bits(whole if sign == "/" else mine - whole * theirs)
    calculate = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}.get(sign)
    if calculate is None:
        raise CelError("only whole numbers have a remainder")
    found: int | float = calculate(mine, theirs)
    return within_64_bits(found) if isinstance(found, int) else found


def within_64_bits(value: int) -> int:
    """Return the number; raises `CelError` if it is too large."""
    if -(2**63) <= value < 2**63:
        return value
    raise CelError("a number is too large")


def _bounded(value: Value) -> Value:
    if isinstance(value, str | list) and len(value) > _LONGEST:
        raise CelError(f"a text or list has more than {_LONGEST} entries")
    return value


def quantity(value: Value) -> Quantity:
    """Return the amount that a text spells; raises `CelError` if it spells none."""
    try:
        return Quantity(Fraction(parse_quantity(text(value))))
    except ValueError as error:
        raise CelError(str(error)) from None


def version(value: Value) -> Version:
    """Return the version that a text spells; raises `CelError` if it spells none."""
    spelt = _SEMVER.fullmatch(text(value)[:_LONGEST_VERSION])
    if spelt is None:
        raise CelError("that is no semantic version")
    major, minor, patch, labels = spelt.groups()
    return Version((int(major), int(minor), int(patch)), tuple(labels.split(".")) if labels else ())


def _spells(read: Callable[[Value], Value], value: Value) -> bool:
    try:
        read(value)
    except CelError:
        return False
    return True


def size(value: Value) -> int:
    """Return the number of characters or entries."""
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise CelError("that has no size")


def _whole(value: Value) -> int:
    if isinstance(value, Quantity):
        if value.value.denominator != 1:
            raise CelError("the amount is not whole")
        return within_64_bits(value.value.numerator)
    try:
        return within_64_bits(int(value) if isinstance(value, str) else int(number(value)))
    except (OverflowError, ValueError):
        raise CelError("that is no whole number") from None


def _amount(value: Value) -> Quantity:
    if isinstance(value, Quantity):
        return value
    return Quantity(Fraction(_whole(value)))


def _release(part: int) -> Callable[[Value], Value]:
    def read(value: Value) -> Value:
        if isinstance(value, Version):
            return value.numbers[part]
        raise CelError("a version is missing")

    return read


def _spelt(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return text(value) if isinstance(value, str) else str(number(value))


def _includes(value: Value, what: Value) -> bool:
    """Whether a value is the other, or a list has it."""
    if isinstance(value, list) and len(value) > _MOST_INCLUDED:
        raise CelError(f"includes() looks at no more than {_MOST_INCLUDED} values")
    values = value if isinstance(value, list) else [value]
    return any(equal(one, what, Budget()) for one in values)


def _found(value: Value) -> Value:
    if isinstance(value, Maybe) and value.found:
        return value.found[0]
    raise CelError("there is no such value")


def _or(value: Value, other: Value) -> Value:
    return value.found[0] if isinstance(value, Maybe) and value.found else other


FUNCTIONS: Mapping[tuple[str, int], Callable[..., Value]] = {
    ("size", 1): size,
    ("int", 1): _whole,
    ("double", 1): lambda value: float(number(value)),
    ("string", 1): _spelt,
    ("quantity", 1): quantity,
    ("isQuantity", 1): lambda value: _spells(quantity, value),
    ("semver", 1): version,
    ("isSemver", 1): lambda value: _spells(version, value),
}
"""By name and number of arguments."""
METHODS: Mapping[tuple[str, int], Callable[..., Value]] = {
    ("size", 0): size,
    ("startsWith", 1): lambda value, start: text(value).startswith(text(start)),
    ("endsWith", 1): lambda value, end: text(value).endswith(text(end)),
    ("contains", 1): lambda value, part: text(part) in text(value),
    ("includes", 1): _includes,
    ("lowerAscii", 0): lambda value: text(value).lower(),
    ("upperAscii", 0): lambda value: text(value).upper(),
    ("trim", 0): lambda value: text(value).strip(),
    ("compareTo", 1): lambda value, other: (compare(value, other) > 0) - (compare(value, other) < 0),
    ("isGreaterThan", 1): lambda value, other: compare(value, other) > 0,
    ("isLessThan", 1): lambda value, other: compare(value, other) < 0,
    ("sign", 0): lambda value: (_amount(value).value > 0) - (_amount(value).value < 0),
    ("asInteger", 0): _whole,
    ("isInteger", 0): lambda value: _amount(value).value.denominator == 1,
    ("asApproximateFloat", 0): lambda value: float(_amount(value).value),
    ("add", 1): lambda value, other: Quantity(_amount(value).value + _amount(other).value),
    ("sub", 1): lambda value, other: Quantity(_amount(value).value - _amount(other).value),
    ("major", 0): _release(0),
    ("minor", 0): _release(1),
    ("patch", 0): _release(2),
    ("value", 0): _found,
    ("hasValue", 0): lambda value: isinstance(value, Maybe) and bool(value.found),
    ("orValue", 1): _or,
}
"""By name and number of arguments after the receiver."""
