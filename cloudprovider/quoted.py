"""Quotes foreign text in messages: escapes control characters and limits the length."""

_LONGEST = 100


def quoted(text: str) -> str:
    """Return a text as Python writes it. A long text is cut, and its length is given."""
    return repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}... ({len(text)} characters)"
