"""Evaluates selectors for devices: the part of the Common Expression Language that they use.

`selector(text)` reads an expression once and returns a function of the device. Source of the language: its
specification, and the environment that Kubernetes gives to selectors (`device.driver`, `device.attributes`,
`device.capacity`, quantities, semantic versions, optional values). What is not read raises `CelError`; so does an
evaluation that takes more steps than `cel_values.MOST_STEPS`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from autoscaler.scheduling.cel_values import (
    FUNCTIONS,
    METHODS,
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

LONGEST_EXPRESSION = 10 * 1024
"""Characters; the API server takes no longer one."""
_DEEPEST = 40
_LONGEST_NUMBER = 30
"""Digits."""

_TOKEN = re.compile(
    r"(?:\s|//[^\n]*)*(?:(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>0[xX][0-9a-fA-F]+|\d+)"
    r"|(?P<text>[rR]?(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||[=!<>]=|\[\?|\.\?|[-+*/%!<>?:.,()\[\]{}])|(?P<end>$))",
    re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_CONSTANTS: Mapping[str, Value] = {"true": True, "false": False, "null": None}
_BINARY: Sequence[tuple[str, ...]] = (
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Operators between two values, the weakest first; below `&&`, `||` and `?:`."""
_LOOPS = ("all", "exists", "exists_one", "filter", "map")


class CelScope(NamedTuple):
    """What an evaluation knows, and the steps it has left."""

    names: Mapping[str, Value]
    budget: Budget

    def binding(self, name: str, value: Value) -> "CelScope":
        """Return the scope with one more name."""
        return CelScope({**self.names, name: value}, self.budget)


Code = Callable[[CelScope], Value]


@lru_cache(maxsize=4096)
def selector(expression: str) -> Callable[[Mapping[str, Value]], bool]:
    """Return the function that tells whether a device matches; both raise `CelError`."""
    code = _CelReader(expression).whole()

    def matches(device: Mapping[str, Value]) -> bool:
        return truth(code(CelScope({"device": device}, Budget())))

    return matches


class _CelToken(NamedTuple):
    kind: str
    text: str


def _tokens(expression: str) -> list[_CelToken]:
    if len(expression) > LONGEST_EXPRESSION:
        raise CelError(f"is longer than {LONGEST_EXPRESSION} characters")
    tokens, at = list[_CelToken](), 0
    while True:
        found = _TOKEN.match(expression, at)
        if found is None or found.lastgroup is None:
            raise CelError(f"cannot be read from character {at + 1} on")
        tokens.append(_CelToken(found.lastgroup, found[found.lastgroup]))
        if found.lastgroup == "end":
            return tokens
        at = found.end()


class _CelReader:
    """Reads one expression by recursive descent."""

    def __init__(self, expression: str) -> None:
        self._tokens = _tokens(expression)
        self._at = 0
        self._depth = 0
        self._selection: tuple[int, Code, str] = 0, _constant(None), ""
        """The last `where.field` that was read, and the token after it."""

    def whole(self) -> Code:
        """Return the code of the whole expression."""
        code = self._expression()
        if self._tokens[self._at].kind != "end":
            raise CelError(f"has {self._tokens[self._at].text!r} where it should end")
        return code

    def _takes(self, *signs: str) -> str:
        """Take the next token if it is one of these signs or words; return it, or nothing."""
        token = self._tokens[self._at]
        if token.kind not in ("sign", "name") or token.text not in signs:
            return ""
        self._at += 1
        return token.text

    def _needs(self, sign: str) -> None:
        if not self._takes(sign):
            raise CelError(f"lacks {sign!r} before {self._tokens[self._at].text!r}")

    def _name(self) -> str:
        token = self._tokens[self._at]
        if token.kind != "name":
            raise CelError(f"lacks a name before {token.text!r}")
        self._at += 1
        return token.text

    def _expression(self) -> Code:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise CelError(f"is nested deeper than {_DEEPEST} levels")
        condition = self._or()
        if self._takes("?"):
            yes = self._or()
            self._needs(":")
            condition = _choice(condition, yes, self._expression())
        self._depth -= 1
        return condition

    def _or(self) -> Code:
        parts = [self._and()]
        while self._takes("||"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else _decided(parts, by=True)

    def _and(self) -> Code:
        parts = [self._binary(0)]
        while self._takes("&&"):
            parts.append(self._binary(0))
        return parts[0] if len(parts) == 1 else _decided(parts, by=False)

    def _binary(self, level: int) -> Code:
        if level == len(_BINARY):
            return self._unary()
        code = self._binary(level + 1)
        while sign := self._takes(*_BINARY[level]):
            code = _between(sign, code, self._binary(level + 1))
        return code

    def _unary(self) -> Code:
        signs = list[str]()
        while sign := self._takes("!", "-"):
            signs.append(sign)
            if len(signs) > _DEEPEST:
                raise CelError(f"is nested deeper than {_DEEPEST} levels")
        code = self._member()
        for sign in reversed(signs):
            code = _negated(sign, code)
        return code

    def _member(self) -> Code:
        code = self._primary()
        while sign := self._takes(".", ".?", "[", "[?"):
            if sign in ("[", "[?"):
                key = self._expression()
                self._needs("]")
                code = _indexed(code, key, maybe=sign == "[?")
                continue
            name = self._name()
            if sign == "." and self._takes("("):
                code = self._method(code, name)
            else:
                where, code = code, _indexed(code, _constant(name), maybe=sign == ".?")
                self._selection = self._at, where, name
        return code

    def _method(self, code: Code, name: str) -> Code:
        if name in _LOOPS:
            variable = self._name()
            self._needs(",")
            parts = self._arguments(")")
            return _loop(name, variable, code, parts)
        arguments = self._arguments(")")
        return _call(name, METHODS.get((name, len(arguments))), [code, *arguments])

    def _arguments(self, closing: str) -> list[Code]:
        arguments = list[Code]()
        while not self._takes(closing):
            if arguments:
                self._needs(",")
            arguments.append(self._expression())
        return arguments

    def _primary(self) -> Code:
        if self._takes("("):
            code = self._expression()
            self._needs(")")
            return code
        if self._takes("["):
            return _listed(self._arguments("]"))
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "int":
            return _constant(_counted(token.text))
        if token.kind == "double":
            return _constant(float(token.text))
        if token.kind == "text":
            return _constant(_unquoted(token.text))
        if token.kind == "name":
            return self._named(token.text)
        raise CelError(f"has {token.text or 'its end'!r} where a value should be")

    def _named(self, name: str) -> Code:
        if name in _CONSTANTS:
            return _constant(_CONSTANTS[name])
        if name == "cel" and self._takes("."):
            return self._bind()
        if not self._takes("("):
            return _variable(name)
        if name == "has":
            return self._has()
        arguments = self._arguments(")")
        return _call(name, FUNCTIONS.get((name, len(arguments))), arguments)

    def _bind(self) -> Code:
        if self._name() != "bind":
            raise CelError("calls a function of cel that is not read")
        self._needs("(")
        name = self._name()
        self._needs(",")
        parts = self._arguments(")")
        if len(parts) != 2:
            raise CelError("cel.bind() needs a name, a value and an expression")
        value, body = parts
        return lambda scope: body(scope.binding(name, value(scope)))

    def _has(self) -> Code:
        """Read the rest of `has(a.b)`."""
        self._expression()
        end, where, field = self._selection
        if end != self._at:
            raise CelError("has() needs a field")
        self._needs(")")

        def found(scope: CelScope) -> Value:
            scope.budget.spend()
            value = where(scope)
            if not isinstance(value, Mapping):
                raise CelError("has() needs a map")
            return field in value

        return found


def _unquoted(quoted: str) -> str:
    raw = quoted[0] in "rR"
    inner = quoted[2:-1] if raw else quoted[1:-1]
    if raw:
        return inner

    def plain(found: re.Match[str]) -> str:
        coded = found[1] or found[2]
        return chr(int(coded, 16)) if coded else _ESCAPED.get(found[3], found[3])

    return _ESCAPE.sub(plain, inner)


def _counted(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise CelError("has a number that is too large")
    return within_64_bits(int(digits, 16 if digits[1:2] in ("x", "X") else 10))


def _constant(value: Value) -> Code:
    return lambda scope: value


def _variable(name: str) -> Code:
    def found(scope: CelScope) -> Value:
        scope.budget.spend()
        if name not in scope.names:
            raise CelError(f"{name} is not known")
        return scope.names[name]

    return found


def _choice(condition: Code, yes: Code, no: Code) -> Code:
    return lambda scope: yes(scope) if truth(condition(scope)) else no(scope)


def _decided(parts: Sequence[Code], *, by: bool) -> Code:
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


def _between(sign: str, left: Code, right: Code) -> Code:
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


def _negated(sign: str, code: Code) -> Code:
    def found(scope: CelScope) -> Value:
        value = code(scope)
        if sign == "!":
            return not truth(value)
        opposite = -number(value)
        return within_64_bits(opposite) if isinstance(opposite, int) else opposite

    return found


def _indexed(where: Code, key: Code, *, maybe: bool) -> Code:
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


def _call(name: str, function: Callable[..., Value] | None, arguments: Sequence[Code]) -> Code:
    if function is None:
        raise CelError(f"calls {name}(), which is not read with these arguments")

    def found(scope: CelScope) -> Value:
        scope.budget.spend(100 if name == "matches" else 1)
        return function(*(argument(scope) for argument in arguments))

    return found


def _listed(parts: Sequence[Code]) -> Code:
    def found(scope: CelScope) -> Value:
        scope.budget.spend(len(parts))
        return [part(scope) for part in parts]

    return found


def _loop(name: str, variable: str, where: Code, parts: Sequence[Code]) -> Code:
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
        return lambda scope: _decided([_bound(condition, one) for one in entries(scope)], by=by)(scope)
    if name == "exists_one":
        return lambda scope: sum(truth(condition(one)) for one in entries(scope)) == 1
    if name == "filter":
        return lambda scope: [one.names[variable] for one in entries(scope) if truth(condition(one))]
    made = parts[-1]
    return lambda scope: [made(one) for one in entries(scope) if len(parts) == 1 or truth(condition(one))]


def _bound(code: Code, scope: CelScope) -> Code:
    return lambda outer: code(scope)
