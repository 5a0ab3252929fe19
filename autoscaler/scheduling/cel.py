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

from autoscaler.scheduling.cel_code import (
    CelScope,
    Code,
    between,
    call,
    choice,
    constant,
    decided,
    indexed,
    listed,
    loop,
    negated,
    variable,
)
from autoscaler.scheduling.cel_values import (
    FUNCTIONS,
    METHODS,
    Budget,
    CelError,
    Value,
    truth,
    within_64_bits,
)

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
        self._selection: tuple[int, Code, str] = 0, constant(None), ""
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
            condition = choice(condition, yes, self._expression())
        self._depth -= 1
        return condition

    def _or(self) -> Code:
        parts = [self._and()]
        while self._takes("||"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else decided(parts, by=True)

    def _and(self) -> Code:
        parts = [self._binary(0)]
        while self._takes("&&"):
            parts.append(self._binary(0))
        return parts[0] if len(parts) == 1 else decided(parts, by=False)

    def _binary(self, level: int) -> Code:
        if level == len(_BINARY):
            return self._unary()
        code = self._binary(level + 1)
        while sign := self._takes(*_BINARY[level]):
            code = between(sign, code, self._binary(level + 1))
        return code

    def _unary(self) -> Code:
        signs = list[str]()
        while sign := self._takes("!", "-"):
            signs.append(sign)
            if len(signs) > _DEEPEST:
                raise CelError(f"is nested deeper than {_DEEPEST} levels")
        code = self._member()
        for sign in reversed(signs):
            code = negated(sign, code)
        return code

    def _member(self) -> Code:
        code = self._primary()
        while sign := self._takes(".", ".?", "[", "[?"):
            if sign in ("[", "[?"):
                key = self._expression()
                self._needs("]")
                code = indexed(code, key, maybe=sign == "[?")
                continue
            name = self._name()
            if sign == "." and self._takes("("):
                code = self._method(code, name)
            else:
                where, code = code, indexed(code, constant(name), maybe=sign == ".?")
                self._selection = self._at, where, name
        return code

    def _method(self, code: Code, name: str) -> Code:
        if name in _LOOPS:
            entry = self._name()
            self._needs(",")
            return loop(name, entry, code, self._arguments(")"))
        arguments = self._arguments(")")
        return call(name, METHODS.get((name, len(arguments))), [code, *arguments])

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
            return listed(self._arguments("]"))
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "int":
            return constant(_counted(token.text))
        if token.kind == "double":
            return constant(float(token.text))
        if token.kind == "text":
            return constant(_unquoted(token.text))
        if token.kind == "name":
            return self._named(token.text)
        raise CelError(f"has {token.text or 'its end'!r} where a value should be")

    def _named(self, name: str) -> Code:
        if name in _CONSTANTS:
            return constant(_CONSTANTS[name])
        if name == "cel" and self._takes("."):
            return self._bind()
        if not self._takes("("):
            return variable(name)
        if name == "has":
            return self._has()
        arguments = self._arguments(")")
        return call(name, FUNCTIONS.get((name, len(arguments))), arguments)

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
