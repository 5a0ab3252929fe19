"""Option values from any source, before they are put into the tree."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from autoscaler.config.flags import Flag, flags
from cloudprovider.structure import shown_text


class Settings(msgspec.Struct, frozen=True):
    """Values by flag name from one source, the place of each for messages, and what could not be read."""

    values: Mapping[str, Any] = {}
    places: Mapping[str, str] = {}
    """Where a flag was set, such as `--expander` or `options.expander`."""
    problems: tuple[str, ...] = ()
    sections: Mapping[str, Any] = {}
    """Sections of a file that are trees of their own, not flags, as YAML has them."""


def merge(sources: Iterable[Settings]) -> Settings:
    """Combine sources, later ones winning flag by flag; the problems of all are kept."""
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    problems: list[str] = []
    sections: dict[str, Any] = {}
    for source in sources:
        values |= source.values
        places |= source.places
        problems += source.problems
        sections |= source.sections
    return Settings(values, places, tuple(problems), sections)


class SettingsReader:
    """Collects the values and the problems of one source."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._places: dict[str, str] = {}
        self._problems: list[str] = []
        self._sections: dict[str, Any] = {}

    def section(self, name: str, content: object) -> None:
        """Note a section that is a tree of its own."""
        self._sections[name] = content

    def problem(self, line: str) -> None:
        """Note a problem, one line that names the place."""
        self._problems.append(line)

    def texts(self, flag: Flag, place: str, texts: Iterable[str]) -> None:
        """Read the occurrences of a flag: a repeated one collects them, any other keeps the last."""
        self._places[flag.name] = place
        read = []
        for text in texts:
            try:
                read.append(flag.read(text))
            except ValueError as error:
                self.problem(f"{place}: {shown_text(text)} {error}")
        if flag.syntax.repeated:
            self._values[flag.name] = tuple(item for items in read for item in items)
        elif read:
            self._values[flag.name] = read[-1]

    def data(self, flag: Flag, place: str, value: object) -> None:
        """Read a value as JSON and YAML have them: text in the flag's syntax, a number, a boolean, or a list."""
        is_list_flag = isinstance(flag.default, tuple)
        if isinstance(value, list) and is_list_flag:
            try:
                texts = [_entry(flag, item) for item in value]
            except ValueError as error:
                self.problem(f"{place}: holds an entry that {error}")
                return
            self.texts(flag, place, texts if flag.syntax.repeated else [",".join(texts)])
            return
        try:
            text = flag.syntax.text_of(value)
        except ValueError as error:
            self.problem(f"{place}: {error}")
            return
        self.texts(flag, place, [text])

    def settings(self) -> Settings:
        """Return what was collected."""
        return Settings(self._values, self._places, tuple(self._problems), self._sections)


def _entry(flag: Flag, item: object) -> str:
    """Return the text of one entry of a list."""
    if isinstance(item, dict) and flag.syntax.from_map is not None:
        return flag.syntax.from_map(item)
    if not isinstance(item, str | int | float) or isinstance(item, bool):
        raise ValueError("is neither text nor a number")
    return str(item)


def find_flag(name: str) -> Flag | None:
    """Return the flag of that name; `_` stands for `-` too, as in klog's flags."""
    return flags().get(name.replace("_", "-"))
