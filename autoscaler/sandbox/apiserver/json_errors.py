"""The messages of Go's JSON decoder for invalid JSON, which clients show."""

import json

_SHOWN_BYTES = 30
_PLACES = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Extra data": "after top-level value",
}


def json_problem(data: bytes) -> str:
    """Why the text is no JSON, in Go's words."""
    text = data.decode("utf-8", "replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        place = _PLACES.get(error.msg, "looking for beginning of value")
        return f"invalid character '{text[error.pos]}' {place}"
    except RecursionError:
        return "exceeded max depth"
    return "not an object"


def summary(data: bytes) -> str:
    """The beginning of a body, as the server quotes it."""
    if not data:
        return "<empty>"
    more = " ..." if len(data) > _SHOWN_BYTES else ""
    head = data[:_SHOWN_BYTES]
    return (head.decode("utf-8", "replace") if head.startswith(b"{") else head.hex()) + more
