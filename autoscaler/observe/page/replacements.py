"""The replacements of nodes on the status page."""

from collections.abc import Sequence

from autoscaler.observe.figures import count
from autoscaler.observe.page.markup import NOTHING, Html, html
from autoscaler.observe.page.table import Column, pill, table
from autoscaler.observe.status import ReplacementStatus

_COLUMNS = (Column("Nodes", "wide"), Column("Why"), Column("Stage"), Column("Waits for", "wide"))
_MOST_ROWS = 50


def replacements_table(replacements: Sequence[ReplacementStatus]) -> Html:
    """Return the table of the first replacements; nothing if there are none."""
    rows = [
        (
            html("<code>{}</code>", ", ".join(one.nodes)),
            html("{}", one.trigger),
            pill(one.stage, "good" if not one.hold else ""),
            html("<b>{}</b> {}", one.hold, one.detail) if one.hold else NOTHING,
        )
        for one in replacements[:_MOST_ROWS]
    ]
    return table(html("{}", count(len(replacements), "replacement")), _COLUMNS, rows) if rows else NOTHING
