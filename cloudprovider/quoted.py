"""Texts of others in messages: quoted, with control characters spelled out, and never long."""

_LONGEST = 100


def quoted(text: str) -> str:
    """Return a text as Python writes it; of a long one the beginning, and how long it is."""
    return repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}... ({len(text)} characters)"
