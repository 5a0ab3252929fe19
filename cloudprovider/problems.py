"""Collects all problems of a document."""

from collections.abc import Iterable, Mapping
from typing import Any

from cloudprovider.interface import Misconfigured


class Problems:
    """The problems of a document, one line each."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def add(self, path: str, text: str) -> None:
        """Note one problem with the field at `path`. A repeated problem counts once."""
        self._lines.setdefault(f"{path}: {text}" if path else text)

    def extend(self, lines: Iterable[str]) -> None:
        """Note problems that were found elsewhere."""
        self._lines.update(dict.fromkeys(lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The noted problems, in order."""
        return tuple(self._lines)

    def raise_if_any(self) -> None:
        """Raise one `Misconfigured` whose message holds every line."""
        if self._lines:
            raise Misconfigured("\n".join(self._lines))


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
