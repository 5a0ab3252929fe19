"""Sections of the configuration file that are trees of their own, read field by field so that every problem is found.

A field of a structure is a nested structure, a tuple of them, a scalar with a `Syntax` (as flags have), or plain data
that is checked by its type. Keys are the field's name in camel case, without the unit of a duration, or what the
structure itself renames it to.
"""

from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from autoscaler.config.keys import camel_case, nearest
from autoscaler.config.syntax import Syntax

S = TypeVar("S", bound=msgspec.Struct)


def read_structure(kind: type[S], data: object, path: str, problems: list[str]) -> S | None:
    """Make a structure of YAML data; None, with a line for each problem added, where that is impossible."""
    before = len(problems)
    if not isinstance(data, dict):
        problems.append(f"{path}: is not a map of keys")
        return None
    hints = get_type_hints(kind, include_extras=True)
    renamed = {one.name: one.encode_name for one in msgspec.structs.fields(kind) if one.encode_name != one.name}
    fields = [field for field in kind.__struct_fields__ if field in hints]
    keys = {renamed.get(field) or key_of(field, hints[field]): field for field in fields}
    for key in data:
        if key not in keys:
            problems.append(f"{path}.{key}: unknown key{nearest(f'{key}', keys)}")
    given = {field: key for key, field in keys.items() if key in data}
    values = {field: _read(hints[field], data[key], f"{path}.{key}", problems) for field, key in given.items()}
    required = {one.name for one in msgspec.structs.fields(kind) if one.required}
    for key, field in keys.items():
        if field in required and key not in data:
            problems.append(f"{path}.{key}: is missing")
    return None if len(problems) > before else kind(**values)


def key_of(field: str, hint: object) -> str:
    """Return the key of a field in a file."""
    syntax = _syntax(hint)
    is_duration = syntax is not None and syntax.unit == "duration"
    return camel_case(field.removesuffix("_s") if is_duration else field)


def _read(hint: Any, data: object, path: str, problems: list[str]) -> Any:
    if (syntax := _syntax(hint)) is not None:
        return _scalar(hint, syntax, data, path, problems)
    if _is_structure(hint):
        return read_structure(hint, data, path, problems)
    item = get_args(hint)[0] if get_origin(hint) is tuple else None
    if _syntax(item) is not None or _is_structure(item):
        if not isinstance(data, list):
            problems.append(f"{path}: is not a list")
            return ()
        return tuple(_read(item, one, f"{path}[{number}]", problems) for number, one in enumerate(data))
    try:
        return msgspec.convert(data, hint)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        problems.append(f"{path}{where.rstrip('`')}: {reason[0].lower()}{reason[1:]}")
        return None


def _scalar(hint: Any, syntax: Syntax, data: object, path: str, problems: list[str]) -> Any:
    plain = isinstance(data, str) or (type(data) in syntax.types)
    if not plain:
        problems.append(f"{path}: {_shown(data)} is not {_wanted(syntax)}")
        return None
    text = data if isinstance(data, str) else str(data).lower() if isinstance(data, bool) else str(data)
    try:
        value = syntax.parse(text)
    except ValueError as error:
        problems.append(f'{path}: "{text}" {error}')
        return None
    for bound in (mark for mark in get_args(hint)[1:] if isinstance(mark, msgspec.Meta)):
        if bound.ge is not None and value < bound.ge:
            problems.append(f'{path}: "{text}" is too small; write {bound.ge} or more')
        if bound.le is not None and value > bound.le:
            problems.append(f'{path}: "{text}" is too large; write {bound.le} or less')
    return value


def _is_structure(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _syntax(hint: object) -> Syntax | None:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Syntax)), None)


def _shown(data: object) -> str:
    if isinstance(data, list | dict):
        return "a list" if isinstance(data, list) else "a map"
    return "null" if data is None else str(data).lower() if isinstance(data, bool) else str(data)


def _wanted(syntax: Syntax) -> str:
    if syntax.unit == "duration":
        return "a duration; write text with a unit, such as 90s, 10m or 1h30m"
    return f"of the form {syntax.unit}; write it in quotes" if not syntax.types else f"of the form {syntax.unit}"
