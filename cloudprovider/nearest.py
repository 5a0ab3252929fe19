"""Hints at the word that a misspelling may stand for."""

from collections.abc import Iterable

_LETTERS_PER_EDIT = 3
_MOST_EDITS = 3


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a hint that names the nearest of `words`; empty if none is near."""
    near = nearest_word(word, words)
    return "" if near is None else f"; did you mean {near}?"


def nearest_word(word: str, words: Iterable[str]) -> str | None:
    """Return the nearest of `words`, if one is near.

    A word is near if one edit for every three letters, and at most three, turn one into the other: a letter inserted,
    deleted, replaced, or swapped with its neighbour. Otherwise it is near if no other word continues this one after a
    dash. Leading dashes and upper case do not count.
    """
    typed, known = _bare(word), list(words)
    edits = {candidate: _edits(typed, _bare(candidate)) for candidate in known}
    near = [candidate for candidate in known if edits[candidate] <= _allowed(typed, _bare(candidate))]
    longer = [candidate for candidate in known if typed and _bare(candidate).startswith(f"{typed}-")]
    if near:
        return min(near, key=edits.__getitem__)
    return longer[0] if len(longer) == 1 else None


def _bare(word: str) -> str:
    return word.lstrip("-").lower()


def _allowed(one: str, other: str) -> int:
    return min(_MOST_EDITS, max(len(one), len(other)) // _LETTERS_PER_EDIT)


def _edits(one: str, other: str) -> int:
    """Return the number of edits between two words, or more than are allowed if their lengths differ by too much."""
    if abs(len(one) - len(other)) > _MOST_EDITS:
        return _MOST_EDITS + 1
    row = before = list(range(len(other) + 1))
    for line, letter in enumerate(one, 1):
        earlier, before, row = before, row, [line]
        for column, against in enumerate(other, 1):
            edits = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != against))
            if line > 1 and column > 1 and letter == other[column - 2] and one[line - 2] == against:
                edits = min(edits, earlier[column - 2] + 1)
            row.append(edits)
    return row[-1]
