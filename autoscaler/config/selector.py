"""Label selectors in the syntax of `kubectl -l`: `a=b,c!=d,e in (x,y),f,!g`; every part must hold."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from autoscaler.config.names import is_label_value
from cloudprovider.structure import Syntax

_NAME = r"(?:[A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_PART = re.compile(
    rf"(?:(?P<absent>!)\s*+)?(?P<key>{_NAME})"
    r"(?:\s*+(?P<sign>==|=|!=)\s*+(?P<value>[^\s,()!=]*+)|\s++(?P<op>in|notin)\s*+\((?P<values>[^()]*+)\))?"
)


_LONGEST_TEXT = 10_000


class Part(msgspec.Struct, frozen=True):
    """One condition on a label."""

    key: str
    among: frozenset[str] | None = None
    """Values that count; None: any."""
    negated: bool = False

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it; an absent label satisfies only what is negated."""
        value = labels.get(self.key)
        matches = value is not None and (self.among is None or value in self.among)
        return matches is not self.negated


class Selector(msgspec.Struct, frozen=True):
    """Conditions that must all hold; none at all select everything."""

    text: str = ""
    parts: tuple[Part, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether every condition holds."""
        return all(part.holds(labels) for part in self.parts)


def parse_selector(text: str) -> Selector:
    """Read a selector; raises `ValueError`."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"has {len(text)} characters; write at most {_LONGEST_TEXT}")
    return Selector(text, tuple(_part(piece.strip()) for piece in _pieces(text)) if text.strip() else ())


def _pieces(text: str) -> Iterator[str]:
    """Yield what stands between commas that are not in parentheses."""
    start, inside = 0, False
    for position, char in enumerate(text):
        inside = char == "(" or (inside and char != ")")
        if char == "," and not inside:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _part(text: str) -> Part:
    match = _PART.fullmatch(text)
    if match is None or (match["absent"] and (match["sign"] or match["op"])):
        raise ValueError("is not a label selector; write for example app=web,tier in (a,b),!canary")
    if match["sign"] is None and match["op"] is None:
        return Part(match["key"], negated=bool(match["absent"]))
    values = [match["value"]] if match["sign"] else [value.strip() for value in match["values"].split(",")]
    if not all(map(is_label_value, values)):
        raise ValueError(f"holds a value that no label can have: {', '.join(values)}")
    return Part(match["key"], frozenset(values), negated=match["sign"] == "!=" or match["op"] == "notin")


LabelText = Annotated[Selector, Syntax("label selector", parse_selector, lambda selector: selector.text)]
