"""Label and field selectors: parsed once, matched against what the store keeps beside the bytes."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from autoscaler.objects.meta import JsonObject, integer
from autoscaler.sandbox.apiserver.errors import bad_request

_COMMON_FIELDS = ("metadata.name", "metadata.namespace")
_TOKEN_SIGN = re.compile(r"==|!=|[=!()<>,]")
_TOKEN = re.compile(rf"{_TOKEN_SIGN.pattern}|[^=!()<>,\s]+")


class Op(StrEnum):
    """What a requirement asks of a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    ABSENT = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class LabelRequirement(msgspec.Struct, frozen=True):
    """One term of a label selector."""

    key: str
    op: Op
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy the term; a missing label satisfies NotIn."""
        value = labels.get(self.key)
        match self.op:
            case Op.IN:
                return value is not None and value in self.values
            case Op.NOT_IN:
                return value is None or value not in self.values
            case Op.EXISTS:
                return value is not None
            case Op.ABSENT:
                return value is None
            case Op.GREATER | Op.LESS:
                have, bound = integer(value or ""), integer(self.values[0])
                if have is None or bound is None:
                    return False
                return have > bound if self.op is Op.GREATER else have < bound


_SIGNS = {
    "in": Op.IN,
    "notin": Op.NOT_IN,
    "=": Op.IN,
    "==": Op.IN,
    "!=": Op.NOT_IN,
    ">": Op.GREATER,
    "<": Op.LESS,
}
_OBJECT_OPERATORS = (Op.IN, Op.NOT_IN, Op.EXISTS, Op.ABSENT)
ParsedSelector = tuple[LabelRequirement, ...]


class FieldTerm(msgspec.Struct, frozen=True):
    """One term of a field selector."""

    path: str
    value: str
    negated: bool = False

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the object's selectable fields satisfy the term."""
        return (fields.get(self.path, "") == self.value) is not self.negated


FieldSelector = tuple[FieldTerm, ...]


def parse_labels(text: str) -> ParsedSelector:
    """Parse the query form (`a=b,c in (d,e),!f,g>3`); raises ApiError 400."""
    return tuple(_Parser(text).requirements())


class _Parser:
    """Reads a label selector token by token, and objects to it in the server's words."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]
        self._at = 0
        self._last = ""

    def requirements(self) -> Iterator[LabelRequirement]:
        if self._next and not self._is_word and self._next != "!":
            raise bad_request(f"found '{self._next}', expected: !, identifier, or 'end of string'")
        while self._next:
            yield self._requirement()
            if self._next and self._take() != ",":
                raise bad_request(f"found '{self._last}', expected: ',' or 'end of string'")
            if self._last == "," and not self._is_word and self._next != "!":
                raise bad_request(f"found '{self._next}', expected: identifier after ','")

    @property
    def _next(self) -> str:
        return self._tokens[self._at]

    @property
    def _is_word(self) -> bool:
        return bool(self._next) and _TOKEN_SIGN.fullmatch(self._next) is None

    def _take(self) -> str:
        self._last = self._next
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return self._last

    def _word(self) -> str:
        if not self._is_word:
            raise bad_request(f"unable to parse requirement: found '{self._next}', expected: identifier")
        return self._take()

    def _requirement(self) -> LabelRequirement:
        if self._next == "!":
            self._take()
            return LabelRequirement(self._word(), Op.ABSENT)
        key = self._word()
        if self._next in ("", ","):
            return LabelRequirement(key, Op.EXISTS)
        operator = _SIGNS.get(self._next)
        if operator is None:
            known = "in, notin, =, ==, !=, gt, lt"
            raise bad_request(f"unable to parse requirement: found '{self._next}', expected: {known}")
        is_set = self._take() in ("in", "notin")
        values = tuple(self._values()) if is_set else (self._word() if self._next not in ("", ",") else "",)
        if operator in (Op.GREATER, Op.LESS) and integer(values[0]) is None:
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise bad_request(f"unable to parse requirement: {why}")
        return LabelRequirement(key, operator, values)

    def _values(self) -> Iterator[str]:
        if self._take() != "(":
            raise bad_request(f"unable to parse requirement: found '{self._last}' expected: '('")
        while True:
            yield self._take() if self._is_word else ""
            if self._take() == ")":
                return
            if self._last != ",":
                raise bad_request(f"unable to parse requirement: found '{self._last}', expected: ',' or ')'")


def from_object(selector: JsonObject | None) -> ParsedSelector | None:
    """Read a `metav1.LabelSelector`; `None` selects nothing, an empty one everything."""
    if selector is None:
        return None
    terms = [LabelRequirement(key, Op.IN, (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        values = tuple(expression.get("values") or ())
        operator = expression.get("operator")
        if operator not in _OBJECT_OPERATORS:
            raise bad_request(f"{operator!r} is not a valid label selector operator")
        terms.append(LabelRequirement(expression["key"], Op(operator), values))
    return tuple(terms)


def labels_match(selector: ParsedSelector, labels: Mapping[str, str]) -> bool:
    """Whether every requirement holds."""
    return all(term.matches(labels) for term in selector)


def parse_fields(text: str, supported: tuple[str, ...]) -> FieldSelector:
    """Parse the query form (`spec.nodeName=n1,status.phase!=Failed`); raises ApiError 400 for unknown fields."""
    terms = []
    for term in _terms(text):
        path, sign, value = _split_field(term)
        if path not in supported and path not in _COMMON_FIELDS:
            raise bad_request(f"field label not supported: {path}")
        terms.append(FieldTerm(path, value, negated=sign == "!="))
    return tuple(terms)


def _split_field(term: str) -> tuple[str, str, str]:
    for sign in ("!=", "==", "="):
        path, separator, value = term.partition(sign)
        if separator:
            return path.strip(), sign, value.strip()
    raise bad_request(f"invalid field selector: {term!r}")


def _terms(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for position, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    if text[start:].strip():
        yield text[start:]
