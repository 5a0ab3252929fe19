"""Keeps secrets out of log lines: by the name of the field, and by the shape of the text."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

REDACTED = "[redacted]"

_SECRET_NAME = re.compile(
    r"token|passw|secret|authori[sz]ation|credential|cookie|api[-_]?key|private[-_]?key|signature|kubeconfig", re.I
)
_SECRET_TEXTS = (
    (re.compile(r"\b(bearer|basic)\s+[^\s\"',;]+", re.I), rf"\1 {REDACTED}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(\.[\w-]*)?"), REDACTED),  # a JSON web token
    (re.compile(r"(://[^\s/:@]*):[^\s/@]+@"), rf"\1:{REDACTED}@"),
    (
        re.compile(
            r"\b([\w.-]*(?:token|passw(?:or)?d|secret|api[-_]?key|signature))(\"?\s*[=:]\s*)\"?[^\s\"',;&}]+", re.I
        ),
        rf"\1\2{REDACTED}",
    ),
)


def redacted_text(text: str) -> str:
    """Return the text without what looks like a credential."""
    for shape, instead in _SECRET_TEXTS:
        text = shape.sub(instead, text)
    return text


def redacted(name: str, value: Any) -> Any:
    """Return the value of a field without secrets, looking into mappings and sequences."""
    if _SECRET_NAME.search(name) and not isinstance(value, bool | int | float | None):
        return REDACTED
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Mapping):
        return {str(key): redacted(str(key), inner) for key, inner in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [redacted("", inner) for inner in value]
    return value
