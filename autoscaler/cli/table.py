"""Lays out text and tables for people, within the width of a terminal and with a few colours.

`printable` makes text from outside safe here, before colours are added.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import zip_longest

import msgspec

from autoscaler.printable import in_one_line

_GAP = "  "
_LEAST_TEXT = 24
"""Minimum width of a column of sentences."""
_LEAST_NAME = 14
"""Names up to this length are never cut."""
_NEVER_CUT = re.compile(r"[A-Za-z]{1,32}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
"""Reasons, which people look up, and times."""
_SEPARATOR = re.compile(r"[-./:=_,]")
_TALLEST = 8
"""A row with more lines becomes a list of facts, which is easier to read."""
_CUT = "…"


class Style(StrEnum):
    """How a text stands out on a terminal; the value is the parameter of its escape sequence."""

    BOLD = "1"
    BAD = "31"
    """Red: a person has to act."""
    WARNING = "33"
    """Yellow."""
    FINE = "32"
    """Green."""


class Styled(msgspec.Struct, frozen=True):
    """Text with a style that a terminal with colours shows."""

    text: str
    style: Style

    def __str__(self) -> str:
        """Return the text alone."""
        return self.text


class Terminal(msgspec.Struct, frozen=True):
    """The properties of the reader's screen."""

    width: int | None = None
    """Width in columns. None means any width: nothing is wrapped or cut."""
    coloured: bool = False

    def styled(self, text: str, style: Style | None) -> str:
        """Return a text in a style, if the screen has colours."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.coloured and style is not None and text else text


class Table(msgspec.Struct, frozen=True):
    """Rows of cells under headings. A table without headings is a list of facts: a name and a value in each row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""


Block = str | Styled | Table
"""A line, or a table. Lines of text are indented by leading spaces."""


def laid_out(block: Block, terminal: Terminal) -> Iterator[str]:
    """Yield the lines of a block; they are safe to print.

    A table that is too wide wraps its sentences and cuts its names in the middle. If it is still too wide, each row
    becomes a list of facts.
    """
    if not isinstance(block, Table):
        yield from _paragraph(block, terminal)
        return
    if block.title:
        yield from _paragraph(Styled(block.title, Style.BOLD), terminal)
    lines = [block.heads, *block.rows] if block.heads else block.rows
    texts = [[in_one_line(str(cell)) for cell in line] for line in lines]
    widths = _widths(texts, terminal.width)
    cells = [
        [_wrapped(text, width, cut=number > 0 or not block.heads) for text, width in zip(line, widths, strict=True)]
        for number, line in enumerate(texts)
    ]
    if block.heads and not _readable(cells, widths, terminal.width):
        yield from laid_out(_facts(block), terminal)
        return
    for number, row in enumerate(cells):
        head = bool(block.heads) and number == 0
        styles = [Style.BOLD if head else _style(cell) for cell in lines[number]]
        yield from _row(row, styles, widths, terminal)


def _paragraph(text: str | Styled, terminal: Terminal) -> Iterator[str]:
    safe = in_one_line(str(text))
    for line in [safe] if terminal.width is None else _wrapped(safe, terminal.width):
        yield terminal.styled(line, _style(text))


def _facts(table: Table) -> Table:
    """Return the cells of each row, one row below the other; a row without a first cell continues the row above."""
    facts: list[tuple[object, object]] = []
    for row in table.rows:
        if facts and str(row[0]):
            facts.append(("", ""))
        facts.extend((Styled(head, Style.BOLD), cell) for head, cell in zip(table.heads, row, strict=True) if str(cell))
    return Table((), facts)


def _row(
    cells: Sequence[Sequence[str]], styles: Sequence[Style | None], widths: Sequence[int], terminal: Terminal
) -> Iterator[str]:
    for parts in zip_longest(*cells, fillvalue=""):
        last = max((index for index, part in enumerate(parts) if part), default=-1)
        yield _GAP.join(
            terminal.styled(part, style) + " " * ((width - _width(part)) if index < last else 0)
            for index, (part, style, width) in enumerate(zip(parts[: last + 1], styles, widths, strict=False))
        )


def _readable(cells: Sequence[Sequence[Sequence[str]]], widths: Sequence[int], room: int | None) -> bool:
    fits = room is None or sum(widths) + len(_GAP) * (len(widths) - 1) <= room
    return fits and all(len(cell) <= _TALLEST for row in cells for cell in row)


def _style(cell: object) -> Style | None:
    return cell.style if isinstance(cell, Styled) else None


def _widths(lines: Sequence[Sequence[str]], room: int | None) -> list[int]:
    """Return the width of each column. The widest columns shrink first, as far as possible, sentences before names."""
    columns = list(zip(*lines, strict=True))
    natural = [max(map(_width, column)) for column in columns]
    if room is None:
        return natural
    room -= len(_GAP) * (len(columns) - 1)
    least = [min(width, _least(column)) for column, width in zip(columns, natural, strict=True)]
    whole = [max(low, _longest_name(column)) for column, low in zip(columns, least, strict=True)]
    lows = whole if sum(whole) <= room else least
    widths, level = natural, max(natural, default=0)
    while sum(widths) > room and level > 0:
        level -= 1
        widths = [min(width, max(low, level)) for width, low in zip(natural, lows, strict=True)]
    return widths


def _least(column: Sequence[str]) -> int:
    """Return the minimum readable width of a column."""
    uncut = max((len(cell) for cell in column if _NEVER_CUT.fullmatch(cell)), default=0)
    return max(uncut, _LEAST_TEXT if any(" " in cell for cell in column[1:]) else _LEAST_NAME)


def _longest_name(column: Sequence[str]) -> int:
    """Return the width of the longest one-word cell; such a cell would be cut, while sentences wrap."""
    return max((_width(cell) for cell in column if " " not in cell), default=0)


def _wrapped(text: str, width: int, *, cut: bool = True) -> list[str]:
    """Return the lines of a text. A single word is cut in the middle; overlong words of a sentence are broken.

    With `cut` false, even a single word is broken.
    """
    if _width(text) <= width:
        return [text]
    words = text.split(" ")
    if len(words) == 1 and cut:
        return [_cut(text, width)]
    indent = text[: len(text) - len(text.lstrip(" "))]
    room = max(width - len(indent), 1)
    lines: list[str] = []
    for word in filter(None, words):
        for piece in _pieces(word, room):
            if lines and _width(lines[-1]) + 1 + _width(piece) <= room:
                lines[-1] += f" {piece}"
            else:
                lines.append(piece)
    return [indent + line for line in lines]


def _pieces(word: str, width: int) -> Iterator[str]:
    """Yield parts of a word that fit, each up to a separator in its second half if there is one."""
    while _width(word) > width:
        start = _start(word, width)
        ends = [match.end() for match in _SEPARATOR.finditer(start) if match.end() > len(start) // 2]
        start = start[: ends[-1]] if ends else start
        yield start
        word = word[len(start) :]
    yield word


def _cut(name: str, width: int) -> str:
    """Shorten a name to its first two thirds and its end, because names of one kind often have the same end."""
    if width <= 2:
        return _start(name, width)
    kept = width - 1
    end = _start(name[::-1], kept // 3)[::-1]
    return _start(name, kept - _width(end)) + _CUT + end


def _start(text: str, width: int) -> str:
    """Return the part of a text that fits in a width, at least one character."""
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > width:
            return text[: max(index, 1)]
    return text


def _width(text: str) -> int:
    """Return the number of columns of a text: East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
