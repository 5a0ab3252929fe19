"""Strict reading of configuration: a struct defines the allowed content, and every problem is reported with its path.

A field holds another struct, a list, a mapping, one of an enum, a text, number or boolean, or what a `Syntax` reads;
anything else, an object of the API for example, is read as `msgspec` reads it. A field that is null counts as left out.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from cloudprovider.duration import parse_duration_s, show_duration
from cloudprovider.nearest import nearest
from cloudprovider.problems import Problems, kind_of
from cloudprovider.quantity import parse_quantity
from cloudprovider.quoted import quoted

S = TypeVar("S", bound="Lenient")
_UNREAD: Any = object()
_LONGEST_SHOWN = 300
_PLAIN: Mapping[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}
"""The input types and the name of each type."""


class Syntax(msgspec.Struct, frozen=True):
    """How the values of one kind of option are read, joined and shown."""

    unit: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str]
    repeated: bool = False
    """Occurrences add up (each parses to a tuple) instead of the last one winning."""
    types: tuple[type, ...] = ()
    """Python types that a file may hold for it beside text."""
    choices: Callable[[], Iterable[str]] = tuple
    """Returns the words that a text may be, or that a list may hold; none if it may be any."""
    from_map: Callable[[Mapping[str, Any]], str] | None = None
    """Makes the text of an entry that a file has as a map; `ValueError` says what is wrong with it."""

    def read(self, text: str, bounds: msgspec.Meta | None = None) -> Any:
        """Read a text; `ValueError` says what is wrong with it."""
        value = self.parse(text)
        low, high = (None, None) if bounds is None else (bounds.ge, bounds.le)
        if low is not None and high is not None and not low <= value <= high:
            raise ValueError(f"is out of range; write a number from {low} to {high}")
        if low is not None and value < low:
            raise ValueError(f"is too small; write {low} or more")
        return value

    def text_of(self, value: object) -> str:
        """Return the text that a value of a file stands for; `ValueError` if it stands for none."""
        if isinstance(value, str):
            return value
        if isinstance(value, bool) and bool in self.types:
            return str(value).lower()
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.types and isinstance(value, self.types):
                return str(value)
            if self.unit == "duration":
                if value == 0:
                    return "0"
            elif not self.types:
                return str(value)
        raise ValueError(f"{_shown(value)} is not {self._wanted()}")

    def _wanted(self) -> str:
        if bool in self.types:
            return "a boolean; write true or false"
        if self.unit == "duration":
            return "a duration; write text with a unit, such as 90s, 10m or 1h30m"
        if self.types:
            return "a number" if float in self.types else "a whole number"
        return f"text of the form {self.unit}"


def _quantity(text: str) -> str:
    try:
        if parse_quantity(text) < 0:
            raise ValueError("is negative")
    except ValueError as error:
        raise ValueError(str(error).removeprefix(f"{quoted(text)} ")) from None
    return text


def key_of(field: str) -> str:
    """Return the key of a field in a file: in camel case, without the unit of a duration."""
    first, *rest = field.removesuffix("_s").split("_")
    return first + "".join(word.capitalize() for word in rest)


class Lenient(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Base of structs for files or objects that others share. Unknown keys are ignored."""


class Strict(Lenient, frozen=True, kw_only=True, rename=key_of, forbid_unknown_fields=True):
    """Base of structs for our own files. Unknown keys are errors."""


Count = Annotated[int, msgspec.Meta(ge=0)]
FromOne = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, Syntax("duration", parse_duration_s, show_duration), msgspec.Meta(ge=0)]
Quantity = Annotated[str, Syntax("quantity", _quantity, str, types=(int, float))]


class StructReader:
    """Reads structs from the plain data of one document; errors go to `problems`."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.places: dict[str, Sequence[str]] = {}
        """The places of the readable entries, by the path of their list, if some entries were unreadable."""

    def read(self, kind: type[S], data: object, path: str = "") -> S | None:
        """Return a struct; None if anything in it is wrong."""
        before = len(self.problems.lines)
        fields = self.fields(kind, data, path)
        return None if len(self.problems.lines) > before else kind(**fields)

    def fields(self, kind: type[Lenient], data: object, path: str = "") -> dict[str, Any]:
        """Return the readable fields of a struct."""
        if not isinstance(data, Mapping):
            self.problems.add(path, f"must be a mapping, not {kind_of(data)}")
            return {}
        known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        for key in data if kind.__struct_config__.forbid_unknown_fields else ():
            if key not in known:
                self.problems.add(_join(path, f"{key}"), f"unknown key{nearest(f'{key}', known)}")
        values: dict[str, Any] = {}
        for key, field in known.items():
            if data.get(key) is not None:
                values[field.name] = self._value(field.type, data[key], _join(path, key))
            elif field.required:
                self.problems.add(_join(path, key), "is required")
        return {name: value for name, value in values.items() if value is not _UNREAD}

    def value(self, hint: Any, data: object, path: str, default: Any) -> Any:
        """Return a value of a type; the default if it cannot be read."""
        value = self._value(hint, data, path)
        return default if value is _UNREAD else value

    def _value(self, hint: Any, data: object, path: str) -> Any:
        kind, marks = _bare(hint)
        bounds = next((mark for mark in marks if isinstance(mark, msgspec.Meta)), None)
        syntax = next((mark for mark in marks if isinstance(mark, Syntax)), None)
        if syntax is not None:
            return self._text(syntax, bounds, data, path)
        if isinstance(kind, type) and issubclass(kind, Lenient):
            return self._struct(kind, data, path)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._choice(kind, data, path)
        if kind in _PLAIN:
            return self._plain(kind, bounds, data, path)
        container, items = get_origin(kind), get_args(kind)
        if container in (list, tuple, Sequence):
            return self._entries(container, items[0], data, path)
        if container in (dict, Mapping):
            return self._mapping(items[1], data, path)
        try:
            return msgspec.convert(data, hint)
        except msgspec.ValidationError as error:
            self.problems.extend((worded(str(error), path),))
            return _UNREAD

    def _struct(self, kind: type[Lenient], data: object, path: str) -> Any:
        fields = self.fields(kind, data, path)
        whole = all(field.name in fields for field in msgspec.structs.fields(kind) if field.required)
        return kind(**fields) if whole else _UNREAD

    def _text(self, syntax: Syntax, bounds: msgspec.Meta | None, data: object, path: str) -> Any:
        try:
            text = syntax.text_of(data)
        except ValueError as error:
            return self._wrong(path, str(error))
        try:
            return syntax.read(text, bounds)
        except ValueError as error:
            return self._wrong(path, f"{shown_text(text)} {error}")

    def _choice(self, kind: type[Enum], data: object, path: str) -> Any:
        options = [member.value for member in kind]
        if not isinstance(data, str):
            return self._wrong(path, f"must be a string, not {kind_of(data)}")
        return kind(data) if data in options else self._wrong(path, f"{quoted(data)} is none of {', '.join(options)}")

    def _plain(self, kind: type, bounds: msgspec.Meta | None, data: object, path: str) -> Any:
        types, name = _PLAIN[kind]
        if not isinstance(data, types) or (isinstance(data, bool) and kind is not bool):
            return self._wrong(path, f"must be {name}, not {kind_of(data)}")
        if not isinstance(data, int | float) or kind is bool:
            return data
        if not math.isfinite(data):
            return self._wrong(path, f"{data} is not a finite number")
        low, high = (None, None) if bounds is None else (bounds.ge, bounds.le)
        if low is not None and high is not None and not low <= data <= high:
            return self._wrong(path, f"{data} is not within {low} and {high}")
        if low is not None and data < low:
            return self._wrong(path, f"{data} is below {low}")
        return kind(data)

    def _entries(self, container: Any, item: Any, data: object, path: str) -> Any:
        if not isinstance(data, list | tuple):
            return self._wrong(path, f"must be a list, not {kind_of(data)}")
        places = [f"{path}[{index}]" for index in range(len(data))]
        read = [self._value(item, entry, place) for entry, place in zip(data, places, strict=True)]
        kept = [entry for entry in read if entry is not _UNREAD]
        if len(kept) < len(read):
            self.places[path] = [place for entry, place in zip(read, places, strict=True) if entry is not _UNREAD]
        return kept if container is list else tuple(kept)

    def _mapping(self, item: Any, data: object, path: str) -> Any:
        if not isinstance(data, Mapping):
            return self._wrong(path, f"must be a mapping, not {kind_of(data)}")
        for name in data:
            if not isinstance(name, str):
                self.problems.add(path, f"has the key {name!r}, which is not a string")
        read = {f"{name}": self._value(item, entry, f"{path}[{name}]") for name, entry in data.items()}
        return {name: entry for name, entry in read.items() if entry is not _UNREAD}

    def _wrong(self, path: str, text: str) -> Any:
        self.problems.add(path, text)
        return _UNREAD


def worded(message: str, path: str) -> str:
    """Turn msgspec's message about a part of a document into a line about the document."""
    text, separator, place = message.rpartition(" - at ")
    place = place.removeprefix("`key` in ")
    if not (separator and place.startswith("`$") and place.endswith("`")):
        text, place = message, "`$`"
    return f"{path}{place[2:-1]}: {text[:1].lower()}{text[1:]}"


def shown_text(text: str) -> str:
    """Return a text of an option as messages quote it."""
    return f'"{text}"' if text.isprintable() and len(text) <= _LONGEST_SHOWN else quoted(text)


def _bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without its annotations and without None, and the annotations."""
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        return _bare(kind)[0], tuple(marks)
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return _bare(kinds[0]) if len(kinds) == 1 else (hint, ())
    return hint, ()


def _shown(value: object) -> str:
    if isinstance(value, list | dict | set):
        return "a list" if isinstance(value, list) else "a map"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
