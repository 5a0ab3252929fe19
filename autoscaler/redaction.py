"""Keeps secrets out of log lines: by the name of the field, and by the shape of the text.

Every expression is linear, and finds a secret whose end has been cut off too: messages are shortened on their way.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

REDACTED = "[redacted]"

_LONGEST = 1 << 16
_SECRET_NAME = re.compile(
    r"token|passw|secret|authori[sz]ation|credential|cookie|api[-_]?key|private[-_]?key|signature|kubeconfig", re.I
)
_SECRET_TEXTS = (
    (re.compile(r"\b(bearer|basic)\s++[^\s\"',;]++", re.I), rf"\1 {REDACTED}"),
    (re.compile(r"\beyJ[\w-]{8,}+(?:\.[\w-]*+)*+"), REDACTED),  # a JSON web token
    # What ends a text may be the port of an address, or a password that was cut.
    (re.compile(r"(://[^\s/:@]*+):(?![0-9]{1,5}\Z)[^\s/@]++(?:@|\Z)"), rf"\1:{REDACTED}@"),
    (
        re.compile(
            r"(?<![\w.-])([\w.-]*?(?:token|passw(?:or)?d|secret|api[-_]?key|signature))"
            r"(\"?\s*+[=:]\s*+)\"?[^\s\"',;&}]++",
            re.I,
        ),
        rf"\1\2{REDACTED}",
    ),
)


def redacted_text(text: str) -> str:
    """Return the text without what looks like a credential; of a very long one the beginning, and how long it is."""
    length, text = len(text), text[:_LONGEST]
    for shape, instead in _SECRET_TEXTS:
        text = shape.sub(instead, text)
    return text if length <= _LONGEST else f"{text}...({length} characters)"


def redacted(name: str, value: Any) -> Any:
    """Return the value of a field without secrets, looking into mappings and sequences."""
    if _SECRET_NAME.search(name[:_LONGEST]) and not isinstance(value, bool | int | float | None):
        return REDACTED
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Mapping):
        return {str(key): redacted(str(key), inner) for key, inner in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [redacted("", inner) for inner in value]
    return value
