"""Hints at the word that a misspelling may stand for."""

import difflib
from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a hint that names the most similar word; empty if none is similar."""
    close = difflib.get_close_matches(word, list(words), n=1)
    return f"; did you mean {close[0]}?" if close else ""
