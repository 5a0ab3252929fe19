"""Tables, lists and legends of the status page."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from autoscaler.observe.figures import count
from autoscaler.observe.meanings import GivenReason, meanings
from autoscaler.observe.page.markup import NOTHING, Html, html, joined

_MAX_PILL = 40


class Column(msgspec.Struct, frozen=True):
    """A column's heading and its style: `n` for numbers, `bars`, `brief`, `size`, `wide`."""

    title: str
    style: str = ""


def table(caption: Html, columns: Sequence[Column], rows: Iterable[Sequence[Html]]) -> Html:
    """Return a table that turns into cards on narrow screens; its roles keep it a table for screen readers.

    Columns that are empty in all rows are left out.
    """
    filled_rows = list(rows)
    used = [index for index in range(len(columns)) if any(row[index] for row in filled_rows)]
    columns, filled_rows = [columns[index] for index in used], [[row[index] for index in used] for row in filled_rows]
    header_cells = joined(
        html('<th scope="col" role="columnheader" class="{}">{}</th>', column.style, column.title) for column in columns
    )
    body_rows = joined(
        html(
            '<tr role="row">{}</tr>',
            joined(_cell(index, column, cell) for index, (column, cell) in enumerate(zip(columns, row, strict=True))),
        )
        for row in filled_rows
    )
    return html(
        '<table role="table"><caption>{}</caption><thead role="rowgroup"><tr role="row">{}</tr></thead>'
        '<tbody role="rowgroup">{}</tbody></table>',
        caption,
        header_cells,
        body_rows,
    )


def _cell(index: int, column: Column, cell: Html) -> Html:
    if index == 0:
        template = '<th scope="row" role="rowheader" class="{}" data-label="{}"><div>{}</div></th>'
        return html(template, column.style, column.title, cell)
    styles = " ".join(style for style in (column.style, "" if cell else "empty") if style)
    return html('<td role="cell" class="{}" data-label="{}"><div>{}</div></td>', styles, column.title, cell)


def pill(text: str, tone: str = "") -> Html:
    """Return a highlighted word; `tone` is good, warn, bad or empty. A long word may be broken."""
    return html('<span class="pill {}{}">{}</span>', "long " if len(text) > _MAX_PILL else "", tone, text)


def chips(counts: Counter[str]) -> Html:
    """Return each word with its count."""
    chips = joined(html("<li>{}</li>", pill(f"{word} {number:,}")) for word, number in counts.most_common())
    return html('<ul class="chips" aria-label="By reason">{}</ul>', chips)


def row_count_text(noun: str, shown: int, total: int, all_link: str | None) -> Html:
    """Return the number of rows, with a link to those that are not shown."""
    if shown == total:
        return html("{}.", count(total, noun))
    return html('The {} most relevant of {}. <a href="{}">Show all</a>', shown, count(total, noun), all_link)


def and_others(row: Sequence[object]) -> str:
    """Return the number of further items in a row; empty if there are none."""
    return f" and {len(row) - 1:,} like it" if len(row) > 1 else ""


def glossary(reasons: Iterable[GivenReason]) -> Html:
    """Return the meanings of the reasons in a folded block; empty if there are none."""
    entries = joined(
        html("<dt>{}</dt><dd>{} <em>{}</em></dd>", meaning.reason, _with_code(meaning.text), _with_code(meaning.remedy))
        for meaning in meanings(reasons)
    )
    return (
        html("<details><summary>What the words mean, and what helps</summary><dl>{}</dl></details>", entries)
        if entries
        else NOTHING
    )


def _with_code(text: str) -> Html:
    """Return text in which parts between backticks are code."""
    return joined(html("<code>{}</code>" if index % 2 else "{}", part) for index, part in enumerate(text.split("`")))
