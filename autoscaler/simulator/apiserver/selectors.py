"""Label and field selectors: parsed once, matched against what the store keeps beside the bytes."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from autoscaler.simulator.apiserver.errors import JsonObject, bad_request

_COMMON_FIELDS = ("metadata.name", "metadata.namespace")
_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^()]*)\)\s*$")
_EQUALITY = re.compile(r"^\s*([^\s=!<>]+)\s*(==|!=|=|<|>)\s*([^\s=!<>]*)\s*$")
_EXISTENCE = re.compile(r"^\s*(!?)\s*([^\s=!<>(),]+)\s*$")


class Op(StrEnum):
    """What a requirement asks of a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    ABSENT = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class Requirement(msgspec.Struct, frozen=True):
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
            case Op.GREATER:
                return _integer(value) is not None and int(value or 0) > int(self.values[0])
            case Op.LESS:
                return _integer(value) is not None and int(value or 0) < int(self.values[0])


_OBJECT_OPERATORS = (Op.IN, Op.NOT_IN, Op.EXISTS, Op.ABSENT)
LabelSelector = tuple[Requirement, ...]


class FieldTerm(msgspec.Struct, frozen=True):
    """One term of a field selector."""

    path: str
    value: str
    negated: bool = False

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the object's selectable fields satisfy the term."""
        return (fields.get(self.path, "") == self.value) is not self.negated


FieldSelector = tuple[FieldTerm, ...]


def parse_labels(text: str) -> LabelSelector:
    """Parse the query form (`a=b,c in (d,e),!f,g>3`); raises ApiError 400."""
    return tuple(_label_term(term) for term in _terms(text))


def _label_term(term: str) -> Requirement:
    if (found := _SET.match(term)) is not None:
        values = tuple(value.strip() for value in found[3].split(","))
        return Requirement(found[1], Op.IN if found[2] == "in" else Op.NOT_IN, values)
    if (found := _EXISTENCE.match(term)) is not None:
        return Requirement(found[2], Op.ABSENT if found[1] else Op.EXISTS)
    if (found := _EQUALITY.match(term)) is None:
        raise bad_request(f"unable to parse requirement: {term.strip()!r}")
    key, sign, value = found.groups()
    if sign in "<>":
        if _integer(value) is None:
            raise bad_request(f"for 'Gt', 'Lt' operators, the value must be an integer: {value!r}")
        return Requirement(key, Op.GREATER if sign == ">" else Op.LESS, (value,))
    return Requirement(key, Op.NOT_IN if sign == "!=" else Op.IN, (value,))


def from_object(selector: JsonObject | None) -> LabelSelector | None:
    """Read a `metav1.LabelSelector`; `None` selects nothing, an empty one everything."""
    if selector is None:
        return None
    terms = [Requirement(key, Op.IN, (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        values = tuple(expression.get("values") or ())
        operator = expression.get("operator")
        if operator not in _OBJECT_OPERATORS:
            raise bad_request(f"{operator!r} is not a valid label selector operator")
        terms.append(Requirement(expression["key"], Op(operator), values))
    return tuple(terms)


def labels_match(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
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
        path, found, value = term.partition(sign)
        if found:
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


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
