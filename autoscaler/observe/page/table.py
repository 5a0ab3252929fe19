"""Tables, lists and legends of the status page."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from autoscaler.observe.meanings import GivenReason, meanings
from autoscaler.observe.page.format import count
from autoscaler.observe.page.markup import NOTHING, Html, html, joined

_LONGEST_WORD = 40


class Column(msgspec.Struct, frozen=True):
    """A column's heading and its style: `n` for numbers, `bars`, `brief`, `size`, `wide`."""

    title: str
    style: str = ""


def table(caption: Html, columns: Sequence[Column], rows: Iterable[Sequence[Html]]) -> Html:
    """Return a table that turns into cards on narrow screens; its roles keep it a table for screen readers then.

    A column that has nothing in any row is left out.
    """
    every = list(rows)
    used = [at for at in range(len(columns)) if any(row[at] for row in every)]
    columns, every = [columns[at] for at in used], [[row[at] for at in used] for row in every]
    heads = joined(
        html('<th scope="col" role="columnheader" class="{}">{}</th>', column.style, column.title) for column in columns
    )
    lines = joined(
        html(
            '<tr role="row">{}</tr>',
            joined(_cell(at, column, cell) for at, (column, cell) in enumerate(zip(columns, row, strict=True))),
        )
        for row in every
    )
    return html(
        '<table role="table"><caption>{}</caption><thead role="rowgroup"><tr role="row">{}</tr></thead>'
        '<tbody role="rowgroup">{}</tbody></table>',
        caption,
        heads,
        lines,
    )


def _cell(at: int, column: Column, cell: Html) -> Html:
    if at == 0:
        template = '<th scope="row" role="rowheader" class="{}" data-label="{}"><div>{}</div></th>'
        return html(template, column.style, column.title, cell)
    styles = " ".join(style for style in (column.style, "" if cell else "empty") if style)
    return html('<td role="cell" class="{}" data-label="{}"><div>{}</div></td>', styles, column.title, cell)


def pill(text: str, tone: str = "") -> Html:
    """Return a short word that stands out; `tone` is good, warn, bad or nothing. One that is long may be broken."""
    return html('<span class="pill {}{}">{}</span>', "long " if len(text) > _LONGEST_WORD else "", tone, text)


def chips(counts: Counter[str]) -> Html:
    """Return how often each word applies."""
    chips = joined(html("<li>{}</li>", pill(f"{word} {number:,}")) for word, number in counts.most_common())
    return html('<ul class="chips" aria-label="By reason">{}</ul>', chips)


def extent(what: str, shown: int, of: int, all_link: str | None) -> Html:
    """Return how many rows there are, and the way to those that are not shown."""
    if shown == of:
        return html("{}.", count(of, what))
    return html('The {} most relevant of {}. <a href="{}">Show all</a>', shown, count(of, what), all_link)


def like_it(row: Sequence[object]) -> str:
    """Return how many besides the first stand in one row; nothing where there are none."""
    return f" and {len(row) - 1:,} like it" if len(row) > 1 else ""


def glossary(given: Iterable[GivenReason]) -> Html:
    """Return what the reasons mean, folded away; nothing where there are none."""
    lines = joined(
        html("<dt>{}</dt><dd>{} <em>{}</em></dd>", one.reason, _prose(one.text), _prose(one.remedy))
        for one in meanings(given)
    )
    return (
        html("<details><summary>What the words mean, and what helps</summary><dl>{}</dl></details>", lines)
        if lines
        else NOTHING
    )


def _prose(text: str) -> Html:
    """Return text with what stands between backticks as code."""
    return joined(html("<code>{}</code>" if at % 2 else "{}", part) for at, part in enumerate(text.split("`")))
