"""Operators' regular expressions in Go's syntax. Their time is bounded by the text's length times the expression's.

Python's engine backtracks, which may take exponential time. It is used only for expressions with few choices. All
others run as an automaton that follows every way at once (Thompson 1968).
"""

import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_LONGEST = 1000
_MOST_STEPS = 4000
"""Of a program: a repetition that is counted is written out."""
_FEW = 2
"""Repetitions and alternatives of which Python's engine tries all combinations."""
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT)
_SINGLE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)


class Expression:
    """A regular expression; raises `ValueError` with what is wrong with it."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise ValueError(f"has {len(text)} characters, more than {_LONGEST}")
        try:
            spelled = _spelled_for_python(text)
            self._pattern = re.compile(spelled, re.ASCII)
            items = list(parser.parse(spelled, re.ASCII))
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from error
        self._program = None if _has_few_choices(items) else _Program(items, self._pattern.flags)

    def found_in(self, text: str) -> bool:
        """Whether some part of the text matches."""
        if self._program is None:
            return self._pattern.search(text) is not None
        return self._program.matches(text, whole=False)

    def is_all_of(self, text: str) -> bool:
        """Whether the whole text matches."""
        if self._program is None:
            return self._pattern.fullmatch(text) is not None
        return self._program.matches(text, whole=True)


def _spelled_for_python(expression: str) -> str:
    """Translate the syntax that differs in Go: POSIX classes and the end of the text."""
    expression = re.sub(r"\[:([a-z]{1,6}):\]", lambda match: _POSIX.get(match[1], match[0]), expression)
    return re.sub(r"(?<!\\)((?:\\\\)*+)\\z", r"\1\\Z", expression)


def _has_few_choices(items: Any) -> bool:
    inner = list(_within(items))
    return sum(kind in (*_REPEATS, op.BRANCH) for kind, _ in inner) <= _FEW and all(
        len(of[2]) == 1 and of[2][0][0] in _SINGLE for kind, of in inner if kind in _REPEATS
    )


def _within(items: Any) -> Iterator[tuple[Any, Any]]:
    for kind, of in items:
        yield kind, of
        if kind in _REPEATS:
            yield from _within(of[2])
        elif kind is op.SUBPATTERN:
            yield from _within(of[3])
        elif kind is op.BRANCH:
            for way in of[1]:
                yield from _within(way)
        elif kind not in (*_SINGLE, op.AT):
            raise ValueError("has a part that Go does not know, such as a look ahead or a reference")


class _Step(NamedTuple):
    """A step that takes a character, requires a place, or leads on to other steps."""

    takes: Callable[[str], object] | None = None
    place: Any = None
    to: tuple[int, ...] = ()


class _Program:
    """An expression as a list of steps. The last step is the end."""

    def __init__(self, items: Any, flags: int) -> None:
        self._steps: list[_Step] = []
        self._sequence(items, flags)
        self._steps.append(_Step())

    def matches(self, text: str, whole: bool) -> bool:
        """Whether the text, or without `whole` a part of it, matches."""
        end, here = len(self._steps) - 1, set[int]()
        for position in range(len(text) + 1):
            starts = [*here, 0] if position == 0 or not whole else list(here)
            standing = self._reached(starts, text, position)
            if end in standing and (not whole or position == len(text)):
                return True
            if position < len(text):
                steps = ((number, self._steps[number].takes) for number in standing)
                here = {number + 1 for number, takes in steps if takes is not None and takes(text[position])}
        return False

    def _reached(self, starts: list[int], text: str, position: int) -> set[int]:
        reached: set[int] = set()
        while starts:
            number = starts.pop()
            if number in reached:
                continue
            reached.add(number)
            step = self._steps[number]
            if step.place is None:
                starts.extend(step.to)
            elif _stands(step.place, text, position):
                starts.append(number + 1)
        return reached

    def _add(self, step: _Step) -> int:
        if len(self._steps) == _MOST_STEPS:
            raise ValueError("is too large once its repetitions are written out")
        self._steps.append(step)
        return len(self._steps) - 1

    def _sequence(self, items: Any, flags: int) -> None:
        for kind, of in items:
            if kind in _REPEATS:
                self._repeat(of, flags)
            elif kind is op.SUBPATTERN:
                self._sequence(of[3], (flags | of[1]) & ~of[2])
            elif kind is op.BRANCH:
                self._branch(of[1], flags)
            elif kind is op.AT:
                self._add(_Step(place=_place(of, flags)))
            else:
                self._add(_Step(takes=_taker(kind, of, flags)))

    def _repeat(self, of: Any, flags: int) -> None:
        least, most, inner = of
        for _ in range(least):
            before = len(self._steps)
            self._sequence(inner, flags)
            if len(self._steps) == before:
                break  # nothing, however often
        forks = []
        for _ in range(1 if most is op.MAXREPEAT else most - least):
            forks.append(self._add(_Step()))
            self._sequence(inner, flags)
        if most is op.MAXREPEAT:
            self._add(_Step(to=(forks[0],)))
        for fork in forks:
            self._steps[fork] = _Step(to=(fork + 1, len(self._steps)))

    def _branch(self, ways: Any, flags: int) -> None:
        fork = self._add(_Step())
        starts, ends = [], []
        for way in ways:
            starts.append(len(self._steps))
            self._sequence(way, flags)
            ends.append(self._add(_Step()))
        self._steps[fork] = _Step(to=tuple(starts))
        for end in ends:
            self._steps[end] = _Step(to=(len(self._steps),))


def _place(where: Any, flags: int) -> Any:
    if flags & re.MULTILINE:
        return {op.AT_BEGINNING: op.AT_BEGINNING_LINE, op.AT_END: op.AT_END_LINE}.get(where, where)
    return where


def _stands(where: Any, text: str, position: int) -> bool:
    if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
        return position == 0
    if where in (op.AT_END, op.AT_END_STRING):
        return position == len(text)
    if where is op.AT_BEGINNING_LINE:
        return position == 0 or text[position - 1] == "\n"
    if where is op.AT_END_LINE:
        return position == len(text) or text[position] == "\n"
    before, after = (
        re.match(r"\w", piece, re.ASCII) is not None
        for piece in (text[position - 1 : position], text[position : position + 1])
    )
    return (before != after) is (where is op.AT_BOUNDARY)


def _taker(kind: Any, of: Any, flags: int) -> Callable[[str], object]:
    """Return the predicate that matches a character against an expression of one character."""
    if kind is op.ANY:
        spelled = "."
    elif kind is op.IN:
        spelled = f"[{''.join(map(_member, of))}]"
    else:
        spelled = f"[{'^' * (kind is op.NOT_LITERAL)}{_member((op.LITERAL, of))}]"
    return re.compile(spelled, flags & (re.IGNORECASE | re.DOTALL) | re.ASCII).fullmatch


def _member(item: tuple[Any, Any]) -> str:
    kind, of = item
    if kind is op.LITERAL:
        return f"\\U{of:08x}"
    if kind is op.RANGE:
        return f"\\U{of[0]:08x}-\\U{of[1]:08x}"
    return "^" if kind is op.NEGATE else _CATEGORIES[of]


_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
