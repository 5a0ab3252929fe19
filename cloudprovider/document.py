"""Parses YAML and JSON text to plain JSON data, the way Kubernetes does."""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar

import yaml

from cloudprovider.file import read_text
from cloudprovider.interface import Misconfigured
from cloudprovider.number import value_of

T = TypeVar("T")
MOST_CHARACTERS = 64 << 20
"""Of YAML. Reading it takes a hundred times as long as JSON, and fifty times the memory."""
_DEEPEST = 200
_MOST_REPEATED = 1_000_000
"""Characters and nodes that aliases may add: a few lines of them can stand for more than any memory holds."""
_LONGEST_NUMBER = 64
_LONGEST_COMPLAINT = 200
_TAG = "tag:yaml.org,2002:"
_MERGE = object()
"""Stands for the key `<<`, whose mappings provide the keys that are not given otherwise."""
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INT = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?")
_BEYOND = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((sign + word for sign in ("", "+") for word in (".inf", ".Inf", ".INF")), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}


def parse_documents(text: str, most: int = MOST_CHARACTERS, *, as_written: bool = False) -> Sequence[Any]:
    """Return every document of a YAML (or JSON) text that is not empty; `as_written` leaves all scalars texts.

    Times stay texts too. `ValueError` says what is wrong, and where: also for a key given twice, for what is nested
    deeper than 200, for aliases that repeat more than a megabyte, and for more characters than `most`.
    """
    if len(text) > most:
        raise ValueError(f"has {len(text):,} characters, more than {most:,}")
    try:
        parser = yaml.CSafeLoader(text)
        try:
            return [document for document in _Reader(parser, as_written).documents() if document is not None]
        finally:
            parser.dispose()
    except yaml.YAMLError as error:
        raise _complaint(getattr(error, "problem", None) or str(error), getattr(error, "problem_mark", None)) from error
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair") from None


def parse_yaml(text: str, most: int = MOST_CHARACTERS) -> Any:
    """Return the one document of a text; None for an empty text; `ValueError` as `parse_documents`."""
    documents = parse_documents(text, most)
    if len(documents) > 1:
        raise ValueError(f"holds {len(documents)} documents; write one")
    return documents[0] if documents else None


def read_document(path: str, decode: Callable[[Any], T]) -> T:
    """Decode the one document in a file with `decode`; a `Misconfigured` has the path before every line."""
    try:
        text = read_text(path)
    except ValueError as error:
        raise Misconfigured(f"{path}: {error}") from error
    try:
        documents = parse_documents(text)
    except ValueError as error:
        raise Misconfigured(f"{path}: is neither YAML nor JSON: {error}") from error
    if len(documents) != 1:
        raise Misconfigured(f"{path}: must hold one document, not {len(documents)}")
    try:
        return decode(documents[0])
    except Misconfigured as error:
        raise Misconfigured("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error


def _complaint(problem: str, mark: Any) -> ValueError:
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    return ValueError(f"{' '.join(problem[:_LONGEST_COMPLAINT].split())}{where}")


class _Open:
    """A list or mapping that is still open."""

    __slots__ = ("anchor", "key", "merged", "size", "value")

    def __init__(self, value: list[Any] | dict[Any, Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: Any = self
        """In a mapping, the key that waits for its value; itself if none does."""
        self.merged: list[Any] = []
        self.size = 1

    def finished(self) -> Any:
        if not self.merged:
            return self.value
        whole: dict[Any, Any] = {}
        for other in reversed(self.merged):
            whole.update(other)
        whole.update(self.value)
        return whole


class _Reader:
    """Builds data from the parser's events."""

    def __init__(self, parser: Any, as_written: bool) -> None:
        self._parser = parser
        self._as_written = as_written
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._repeated = 0

    def documents(self) -> Iterator[Any]:
        """Yield one document after the other."""
        self._done: Any = None
        while not isinstance(event := self._parser.get_event(), yaml.StreamEndEvent):
            match event:
                case yaml.ScalarEvent():
                    self._keep(event, self._scalar(event), 1 + len(event.value), event.anchor)
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self._begin(event)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    ended = self._open.pop()
                    self._keep(event, ended.finished(), ended.size, ended.anchor)
                case yaml.AliasEvent():
                    self._keep(event, *self._alias(event), None)
                case yaml.DocumentStartEvent():
                    self._anchors.clear()
                case yaml.DocumentEndEvent():
                    yield self._done

    def _begin(self, event: Any) -> None:
        sequence = isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in (None, "!", _TAG + ("seq" if sequence else "map")):
            raise _complaint(f"the tag {event.tag!r} is not JSON", event.start_mark)
        if len(self._open) == _DEEPEST:
            raise _complaint(f"is nested deeper than {_DEEPEST}", event.start_mark)
        self._open.append(_Open([] if sequence else {}, event.anchor))

    def _alias(self, event: Any) -> tuple[Any, int]:
        if event.anchor not in self._anchors:
            raise _complaint(f"the alias {event.anchor} has no anchor before it", event.start_mark)
        value, size = self._anchors[event.anchor]
        self._repeated += size
        if self._repeated > _MOST_REPEATED:
            raise _complaint("aliases repeat more than a megabyte of text", event.start_mark)
        return value, size

    def _keep(self, event: Any, value: Any, size: int, anchor: str | None) -> None:
        """Put a finished value where it belongs."""
        if anchor is not None:
            self._anchors[anchor] = value, size
        if not self._open:
            self._done = value
            return
        into = self._open[-1]
        into.size += size
        if isinstance(into.value, list):
            into.value.append(value)
        elif into.key is into:
            into.key = self._key(event, value, into.value)
        elif into.key is _MERGE:
            into.merged.extend(_mappings(event, value))
            into.key = into
        else:
            into.value[into.key] = value
            into.key = into

    def _scalar(self, event: Any) -> Any:
        tag, text = event.tag, event.value
        if tag is None and event.implicit[0] and not self._as_written:
            return _plain(text)
        if tag in (None, "!", f"{_TAG}str") or self._as_written:
            return text
        value = _plain(text)
        kind = {f"{_TAG}null": type(None), f"{_TAG}bool": bool, f"{_TAG}int": int, f"{_TAG}float": float}.get(tag)
        if kind is float and type(value) is int:
            value = float(value)
        if kind is None or type(value) is not kind:
            raise _complaint(f"{text[:_LONGEST_NUMBER]!r} with the tag {tag!r} is not JSON", event.start_mark)
        return value

    def _key(self, event: Any, value: Any, into: dict[Any, Any]) -> Any:
        if value == "<<" and not self._as_written and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            return _MERGE
        if not isinstance(value, Hashable):
            raise _complaint("a list or mapping cannot be a key", event.start_mark)
        if value in into:
            raise _complaint(f"key {str(value)[:_LONGEST_NUMBER]} is there twice", event.start_mark)
        return value


def _mappings(event: Any, value: Any) -> list[Any]:
    mappings = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) for item in mappings):
        raise _complaint("<< is for mappings", event.start_mark)
    return mappings


def _plain(text: str) -> Any:
    """Return what a scalar without quotes stands for; numbers beyond 64 bits are those of floating point, as in Go."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    if text in _BEYOND:
        return _BEYOND[text]
    if (match := _INT.fullmatch(text)) is not None and (digits := match[1].replace("_", "")) not in ("0b", "0o", "0x"):
        value = value_of(digits) * (-1 if text[0] == "-" else 1)
        return value if -(1 << 63) <= value < 1 << 64 else float(value)
    return float(text.replace("_", "")) if _FLOAT.fullmatch(text) else text
