"""Reads bytes into the file's structs, or reports all errors of their form.

A good file is decoded in one go. Only where that fails is it taken apart, entry by entry: what is well-formed is kept,
so that the checks of `scenario.codec` can find their problems in it as well and all are reported together.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from autoscaler.errors import ConfigError
from autoscaler.scenario.format import ScenarioFile, Strict
from cloudprovider.document import parse_yaml
from cloudprovider.file import MOST_BYTES, read_file, text_of

_YAML_ENDINGS = {".yaml", ".yml"}
_NOT_READ = object()
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
    data = plain(body, name)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        shape = Shape(ScenarioFile(now=_UNDATED))
        if isinstance(data, Mapping):
            _fields(data, kind, "", shape)
        problems = shape.problems or [f"must be a mapping of keys: {error}"]
        raise ConfigError(f"{name}: {problem}" for problem in problems) from error


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
    found = re.search(r" \(byte (\d+)\)$", text)
    if found is None:  # the end came too early
        offset = len(body)
    else:
        offset, text = int(found[1]), text[: found.start()]
    line = body.count(b"\n", 0, offset) + 1
    column = offset - body.rfind(b"\n", 0, offset)
    text = text[:1].lower() + text[1:]
    return f"{text} (line {line}, column {column}, byte {offset + 1})"


def _take_apart(data: Any) -> Shape:
    problems: list[str] = []
    if not isinstance(data, Mapping):
        return Shape(ScenarioFile(now=_UNDATED), ["must be a mapping of keys such as now, nodes and pods"])
    shape = Shape(ScenarioFile(now=_UNDATED), problems)
    fields = _fields(data, ScenarioFile, "", shape)
    fields.setdefault("now", _UNDATED)
    return msgspec.structs.replace(shape, file=ScenarioFile(**fields))


def _fields(data: Mapping[Any, Any], kind: type[Strict], path: str, shape: Shape) -> dict[str, Any]:
    """Return the fields of a strict struct that can be read."""
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key in data:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            shape.problems.append(f"{_join(path, str(key))}: unknown key{hint}")
    found: dict[str, Any] = {}
    for key, field in known.items():
        if key in data:
            value = _value(data[key], field.type, _join(path, key), shape)
            if value is not _NOT_READ:
                found[field.name] = value
        elif field.required:
            shape.problems.append(f"{_join(path, key)}: is required")
    return found


def _value(data: Any, kind: Any, path: str, shape: Shape) -> Any:
    if isinstance(kind, type) and issubclass(kind, Strict) and isinstance(data, Mapping):
        fields = _fields(data, kind, path, shape)
        missing = [field.name for field in msgspec.structs.fields(kind) if field.required and field.name not in fields]
        return _NOT_READ if missing else kind(**fields)
    if get_origin(kind) is list and isinstance(data, list):
        return _entries(data, get_args(kind)[0], path, shape)
    if get_origin(kind) is dict and isinstance(data, Mapping):
        item = get_args(kind)[1]
        read = {f"{key}": _value(value, item, _join(path, f"{key}"), shape) for key, value in data.items()}
        return {key: value for key, value in read.items() if value is not _NOT_READ}
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        shape.problems.append(worded(str(error), path))
        return _NOT_READ


def _entries(data: list[Any], kind: Any, path: str, shape: Shape) -> list[Any]:
    kept: list[Any] = []
    places: list[str] = []
    for index, item in enumerate(data):
        place = f"{path}[{index}]"
        value = _value(item, kind, place, shape)
        if value is not _NOT_READ:
            kept.append(value)
            places.append(place)
    if len(kept) < len(data):
        shape.places[path] = places
    return kept


def worded(message: str, path: str) -> str:
    """Turn the decoder's message about a part into a line about the file."""
    text, at, place = message.rpartition(" - at ")
    place = place.removeprefix("`key` in ")
    if not (at and place.startswith("`$") and place.endswith("`")):
        text, place = message, "`$`"
    return f"{path}{place[2:-1]}: {text[:1].lower()}{text[1:]}"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
