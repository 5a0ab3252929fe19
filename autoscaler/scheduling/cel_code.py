"""The code of selectors for devices: functions of what is known, made from the functions of their parts."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from autoscaler.scheduling.cel_values import (
    Budget,
    CelError,
    Maybe,
    Value,
    calculated,
    compare,
    contains,
    equal,
    number,
    text,
    truth,
    within_64_bits,
)
from cloudprovider.quoted import quoted


class CelScope(NamedTuple):
    """What an evaluation knows, and the steps it has left."""

    names: Mapping[str, Value]
    budget: Budget

    def binding(self, name: str, value: Value) -> "CelScope":
        """Return the scope with one more name."""
        return CelScope({**self.names, name: value}, self.budget)


Code = Callable[[CelScope], Value]


def constant(value: Value) -> Code:
    """Return the code of a value."""
    return lambda scope: value


def variable(name: str) -> Code:
    """Return the code of a name."""

    def found(scope: CelScope) -> Value:
        scope.budget.spend()
        if name not in scope.names:
            raise CelError(f"{name} is not known")
        return scope.names[name]

    return found


def choice(condition: Code, yes: Code, no: Code) -> Code:
    """Return the code of `?:`."""
    return lambda scope: yes(scope) if truth(condition(scope)) else no(scope)


def decided(parts: Sequence[Code], *, by: bool) -> Code:
    """Return the code of `||` (`by` true) or `&&`: a part with that value decides, even if another has none."""

    def found(scope: CelScope) -> Value:
        wrong: CelError | None = None
        for part in parts:
            scope.budget.spend()
            try:
                if truth(part(scope)) is by:
                    return by
            except CelError as error:
                wrong = wrong or error
        if wrong is not None:
            raise wrong
        return not by

    return found


def between(sign: str, left: Code, right: Code) -> Code:
    """Return the code of an operator between two values."""

    def found(scope: CelScope) -> Value:
        scope.budget.spend()
        mine, theirs = left(scope), right(scope)
        match sign:
            case "==" | "!=":
                return equal(mine, theirs, scope.budget) is (sign == "==")
            case "in":
                return contains(theirs, mine, scope.budget)
            case "<":
                return compare(mine, theirs) < 0
            case "<=":
                return compare(mine, theirs) <= 0
            case ">":
                return compare(mine, theirs) > 0
            case ">=":
                return compare(mine, theirs) >= 0
        return calculated(sign, mine, theirs)

    return found


def negated(sign: str, code: Code) -> Code:
    """Return the code of `!` or `-` before a value."""

    def found(scope: CelScope) -> Value:
        value = code(scope)
        if sign == "!":
            return not truth(value)
        opposite = -number(value)
        return within_64_bits(opposite) if isinstance(opposite, int) else opposite

    return found


def indexed(where: Code, key: Code, *, maybe: bool) -> Code:
    """Return the code of an entry of a map or list; `maybe`: it may be missing."""

    def found(scope: CelScope) -> Value:
        scope.budget.spend()
        value, wanted = where(scope), key(scope)
        if isinstance(value, Maybe):
            return Maybe(tuple(_entry(one, wanted) for one in value.found if contains(one, wanted, scope.budget)))
        if maybe:
            return Maybe((_entry(value, wanted),) if contains(value, wanted, scope.budget) else ())
        return _entry(value, wanted)

    return found


def _entry(value: Value, wanted: Value) -> Value:
    if isinstance(value, list):
        if isinstance(wanted, int) and not isinstance(wanted, bool) and 0 <= wanted < len(value):
            return value[wanted]
        raise CelError("a list has no such entry")
    if not isinstance(value, Mapping):
        raise CelError("only maps and lists have entries")
    try:
        return value[text(wanted)]
    except KeyError:
        raise CelError(f"there is no {quoted(text(wanted))}") from None


def call(name: str, function: Callable[..., Value] | None, arguments: Sequence[Code]) -> Code:
    """Return the code of a call; raises `CelError` for a function that is not known."""
    if function is None:
        raise CelError(f"calls {name}(), which is not read with these arguments")

    def found(scope: CelScope) -> Value:
        scope.budget.spend(1)
        return function(*(argument(scope) for argument in arguments))

    return found


def listed(parts: Sequence[Code]) -> Code:
    """Return the code of a list."""

    def found(scope: CelScope) -> Value:
        scope.budget.spend(len(parts))
        return [part(scope) for part in parts]

    return found


def loop(name: str, variable: str, where: Code, parts: Sequence[Code]) -> Code:
    """Return the code of a loop over `where`; raises `CelError` for a wrong number of `parts`."""
    if len(parts) != 1 and not (name == "map" and len(parts) == 2):
        raise CelError(f"{name}() has a wrong number of arguments")

    def entries(scope: CelScope) -> list[CelScope]:
        value = where(scope)
        if not isinstance(value, list | Mapping):
            raise CelError(f"{name}() needs a list or a map")
        scope.budget.spend(len(value))
        return [scope.binding(variable, one) for one in value]

    condition = parts[0]
    if name in ("all", "exists"):
        by = name == "exists"
        return lambda scope: decided([_bound(condition, one) for one in entries(scope)], by=by)(scope)
    if name == "exists_one":
        return lambda scope: sum(truth(condition(one)) for one in entries(scope)) == 1
    if name == "filter":
        return lambda scope: [one.names[variable] for one in entries(scope) if truth(condition(one))]
    made = parts[-1]
    return lambda scope: [made(one) for one in entries(scope) if len(parts) == 1 or truth(condition(one))]


def _bound(code: Code, scope: CelScope) -> Code:
    return lambda outer: code(scope)
