"""Names of options: their spelling in files, and suggestions for misspelt ones."""

import difflib
from collections.abc import Iterable


def camel_case(name: str) -> str:
    """Turn `scan-interval` or `scan_interval` into `scanInterval`."""
    first, *rest = name.replace("_", "-").split("-")
    return first + "".join(word.capitalize() for word in rest)


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a hint that names the most similar word, or nothing."""
    close = difflib.get_close_matches(word, list(words), n=1)
    return f"; did you mean {close[0]}?" if close else ""
