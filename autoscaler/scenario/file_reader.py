"""Reads bytes into the file's structs, or reports all errors of their form.

A good file is decoded in one go. Only where that fails is it taken apart, entry by entry: what is well-formed is kept,
so that the checks of `scenario.codec` can find their problems in it as well and all are reported together.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from autoscaler.errors import ConfigError
from autoscaler.scenario.format import ScenarioFile
from cloudprovider.document import parse_yaml
from cloudprovider.file import MOST_BYTES, read_file, text_of
from cloudprovider.problems import Problems
from cloudprovider.structure import Strict, StructReader

_YAML_ENDINGS = {".yaml", ".yml"}
S = TypeVar("S", bound=Strict)
_UNDATED = "2000-01-01T00:00:00Z"
"""Stands for a `now` that could not be read while the rest is checked."""


class Shape(msgspec.Struct):
    """A file whose well-formed parts are at hand, and what is wrong with the rest."""

    file: ScenarioFile
    problems: list[str] = []
    places: dict[str, Sequence[str]] = {}
    """Where the entries of a list stand, by the list's path, if not one after the other under that path."""

    def path(self, of_list: str, index: int) -> str:
        """Return where entry `index` of a list stands."""
        return self.places[of_list][index] if of_list in self.places else f"{of_list}[{index}]"


def read_bytes(path: str) -> bytes:
    """Return what a file holds; `ConfigError` with one line where it cannot be read."""
    try:
        return read_file(path, MOST_BYTES)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse(body: bytes, name: str) -> Shape:
    """Decode a scenario file; `name` tells its format by its ending, else the first character does.

    Raises `ConfigError` with one line, naming the place, for what is neither JSON nor YAML.
    """
    if not _is_yaml(body, name):
        try:
            return Shape(msgspec.json.decode(body, type=ScenarioFile))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # read again, and taken apart below
    data = plain(body, name)
    try:
        return Shape(msgspec.convert(data, ScenarioFile))
    except msgspec.ValidationError:
        return _take_apart(data)


def decode_strict(body: bytes, name: str, kind: type[S]) -> S:
    """Decode another strict file, otherwise as `parse`; raises `ConfigError` with a line for everything wrong in it."""
    problems = Problems()
    content = StructReader(problems).read(kind, plain(body, name))
    if content is None:
        raise ConfigError(f"{name}: {problem}" for problem in problems.lines)
    return content


def _is_yaml(body: bytes, name: str) -> bool:
    suffix = Path(name).suffix.lower()
    return suffix in _YAML_ENDINGS or (suffix != ".json" and not body.lstrip().startswith(b"{"))


def plain(body: bytes, name: str) -> Any:
    """Return the data of a file, JSON or YAML; raises `ConfigError` with one line, naming the place."""
    try:
        return _plain_yaml(body, name) if _is_yaml(body, name) else msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: is not JSON: {place_in(error, body)}") from error
    except RecursionError:
        raise ConfigError(f"{name}: is nested too deeply") from None


def _plain_yaml(body: bytes, name: str) -> Any:
    try:
        return parse_yaml(text_of(body))
    except ValueError as error:
        raise ConfigError(f"{name}: is not YAML: {error}") from error


def place_in(error: Exception, body: bytes) -> str:
    """Say what is wrong with a JSON text, and where: line, column and byte, counted from one."""
    if isinstance(error, UnicodeDecodeError):
        return "holds bytes that are not UTF-8"
    text = str(error).removeprefix("JSON is malformed: ")
    offset_text = re.search(r" \(byte (\d+)\)$", text)
    if offset_text is None:  # the end came too early
        offset = len(body)
    else:
        offset, text = int(offset_text[1]), text[: offset_text.start()]
    line = body.count(b"\n", 0, offset) + 1
    column = offset - body.rfind(b"\n", 0, offset)
    text = text[:1].lower() + text[1:]
    return f"{text} (line {line}, column {column}, byte {offset + 1})"


def _take_apart(data: Any) -> Shape:
    reader = StructReader(Problems())
    fields = {"now": _UNDATED, **reader.fields(ScenarioFile, data)}
    return Shape(ScenarioFile(**fields), list(reader.problems.lines), reader.places)
