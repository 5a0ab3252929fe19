"""Strict decoding of configuration documents: every problem with its path, all of them at once."""

import difflib
import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from cloudprovider.duration import parse_duration_s
from cloudprovider.interface import Misconfigured
from cloudprovider.quantity import parse_quantity
from cloudprovider.quoted import quoted

E = TypeVar("E", bound=StrEnum)


class Problems:
    """Collects what is wrong with a document, one line per problem."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def add(self, path: str, text: str) -> None:
        """Note one problem with the field at `path`; said twice, it counts once."""
        self._lines.setdefault(f"{path}: {text}" if path else text)

    @property
    def lines(self) -> tuple[str, ...]:
        """What was noted, in order."""
        return tuple(self._lines)

    def raise_if_any(self) -> None:
        """Raise one `Misconfigured` whose message holds every line."""
        if self._lines:
            raise Misconfigured("\n".join(self._lines))


class Fields:
    """A mapping being decoded. Reading a field marks it as known; `close` reports the rest.

    Every reader returns None both for an absent (or null) field and for one it had to complain about, so decoding
    goes on and finds the other problems; whoever called must look at `Problems` before using the result.
    """

    def __init__(self, data: Any, path: str, problems: Problems) -> None:
        self._data: Mapping[Any, Any] = data if isinstance(data, Mapping) else {}
        self._path = path
        self._known: set[str] = set()
        self.problems = problems
        self._decodable = isinstance(data, Mapping)
        if not self._decodable:
            problems.add(path, f"must be a mapping, not {kind_of(data)}")

    def at(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self._path}.{key}" if self._path else key

    def has(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self._data.get(key) is not None

    def complain(self, key: str, text: str) -> None:
        """Note a problem with a field."""
        self.problems.add(self.at(key), text)

    def raw(self, key: str, required: bool = False) -> Any:
        """Return a field as it is."""
        self._known.add(key)
        value = self._data.get(key)
        if value is None and required and self._decodable:
            self.complain(key, "is required")
        return value

    def text(self, key: str, required: bool = False) -> str | None:
        """Return a string."""
        value = self.raw(key, required)
        if value is None or isinstance(value, str):
            return value
        self.complain(key, f"must be a string, not {kind_of(value)}")
        return None

    def flag(self, key: str) -> bool | None:
        """Return true or false."""
        value = self.raw(key)
        if value is None or isinstance(value, bool):
            return value
        self.complain(key, f"must be true or false, not {kind_of(value)}")
        return None

    def integer(self, key: str, least: int, required: bool = False) -> int | None:
        """Return a whole number, at least `least`."""
        value = self.raw(key, required)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.complain(key, f"must be a whole number, not {kind_of(value)}")
            return None
        if value < least:
            self.complain(key, f"{value} is below {least}")
            return None
        return value

    def number(self, key: str, most: float = math.inf) -> float | None:
        """Return a number that is not negative, at most `most`."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.complain(key, f"must be a number, not {kind_of(value)}")
            return None
        if not (0 <= value <= most and math.isfinite(value)):
            self.complain(key, f"{value} is not {'a number from 0' if most == math.inf else f'within 0 and {most:g}'}")
            return None
        return float(value)

    def duration_s(self, key: str) -> float | None:
        """Return the seconds of a Go duration that is not negative."""
        value = self.text(key)
        if value is None:
            return None
        try:
            seconds = parse_duration_s(value)
        except ValueError as error:
            self.complain(key, f"{quoted(value)} {error}")
            return None
        if seconds < 0:
            self.complain(key, f"{value} is negative")
            return None
        return seconds

    def choice(self, key: str, options: type[E], required: bool = False) -> E | None:
        """Return a member of `options` by its value."""
        value = self.text(key, required)
        if value is None:
            return None
        if value not in [member.value for member in options]:
            self.complain(key, f"{quoted(value)} is none of {', '.join(member.value for member in options)}")
            return None
        return options(value)

    def entries(self, key: str) -> Iterator[tuple[str, Any]]:
        """Yield path and value of each element of a list."""
        value = self.raw(key)
        if value is None:
            return
        if not isinstance(value, list | tuple):
            self.complain(key, f"must be a list, not {kind_of(value)}")
            return
        for index, item in enumerate(value):
            yield f"{self.at(key)}[{index}]", item

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        result: list[str] = []
        for path, item in self.entries(key):
            if isinstance(item, str):
                result.append(item)
            else:
                self.problems.add(path, f"must be a string, not {kind_of(item)}")
        return tuple(result)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return a mapping with string keys, empty where it is absent."""
        value = self.raw(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.complain(key, f"must be a mapping, not {kind_of(value)}")
            return {}
        for name in value:
            if not isinstance(name, str):
                self.complain(key, f"has the key {name!r}, which is not a string")
        return {name: item for name, item in value.items() if isinstance(name, str)}

    def string_map(self, key: str) -> dict[str, str]:
        """Return a mapping of strings, such as labels."""
        result: dict[str, str] = {}
        for name, item in self.mapping(key).items():
            if isinstance(item, str):
                result[name] = item
            else:
                self.complain(f"{key}[{name}]", f"must be a string, not {kind_of(item)}")
        return result

    def quantities(self, key: str) -> dict[str, str]:
        """Return resources: quantity strings by name. Plain numbers are taken as Kubernetes takes them."""
        result: dict[str, str] = {}
        for name, item in self.mapping(key).items():
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                self.complain(f"{key}[{name}]", f"must be a quantity, not {kind_of(item)}")
                continue
            text = str(item)
            try:
                negative = parse_quantity(text) < 0
            except ValueError as error:
                self.complain(f"{key}[{name}]", str(error))
                continue
            if negative:
                self.complain(f"{key}[{name}]", f"{text} is negative")
            else:
                result[name] = text
        return result

    def close(self) -> None:
        """Report every field that nobody read."""
        for key in self._data:
            if key in self._known:
                continue
            near = difflib.get_close_matches(str(key), sorted(self._known), n=1)
            self.complain(str(key), f"is not a known field{f'; did you mean {near[0]}?' if near else ''}")


def kind_of(value: Any) -> str:
    """Return the document's word for a value's type."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "a mapping"
        case _:
            return f"a {type(value).__name__}"
