"""Reads JSON that a fast decoder refuses: nulls, broken text, extreme numbers and depths."""

import json
import re
from typing import Any

import msgspec

UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""What decoding an object may raise: `OverflowError` comes from times at the ends of the calendar."""
_DEEPEST = 100
"""Levels of nesting that are read; the objects of the API have about twenty."""
_LONGEST_INTEGER = 20
_LONGEST_REASON = 200
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def loads(body: bytes) -> Any:
    """Return plain JSON data without nulls. Raises `msgspec.DecodeError` for what is no JSON.

    As in Go, U+FFFD replaces what is no text. What is nested deeper than any object of the API is left out, and
    integers beyond 64 bits are given as text.
    """
    try:
        try:
            return _plain(body)
        except RecursionError:
            return _plain(_shallow(body))
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(f"no JSON: {words(error)}") from error


def _plain(body: bytes) -> Any:
    return without_nulls(json.loads(body.decode(errors="replace"), parse_int=_integer))


def without_nulls(value: Any) -> Any:
    """Return plain JSON data without the entries that are null, and without half characters."""
    if isinstance(value, dict):
        return {_whole(key): without_nulls(held) for key, held in value.items() if held is not None}
    if isinstance(value, list):
        return [without_nulls(held) for held in value if held is not None]
    return _whole(value) if isinstance(value, str) else value


def words(error: Exception) -> str:
    """Return why something cannot be decoded, without any of its content."""
    if isinstance(error, msgspec.ValidationError) and error.__cause__ is not None:  # of a check of ours
        _, at, path = str(error).rpartition(" - at ")
        return f"a quantity or a time cannot be read{at}{path if at else ''}"[:_LONGEST_REASON]
    if isinstance(error, msgspec.MsgspecError):
        return str(error)[:_LONGEST_REASON]
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (character {error.pos})"
    return "a quantity or a time cannot be read"


def _whole(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= _LONGEST_INTEGER else text


def _shallow(body: bytes) -> bytes:
    """Return JSON with null for what is nested too deeply."""
    kept: list[bytes] = []
    depth = start = 0
    for match in _STRUCTURE.finditer(body):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
            if depth == _DEEPEST:
                kept.append(body[start : match.start()])
        elif token in (b"}", b"]"):
            if depth == _DEEPEST:
                kept.append(b"null")
                start = match.end()
            depth -= 1
    return b"".join((*kept, body[start:]))
