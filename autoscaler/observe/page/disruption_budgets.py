"""The disruption budgets on the status page."""

from collections.abc import Iterable

from autoscaler.observe.figures import count
from autoscaler.observe.page.markup import NOTHING, Html, html
from autoscaler.observe.page.table import Column, pill, table
from autoscaler.scaledown.disruption_limits import DisruptionUse

_COLUMNS = (Column("Budget", "wide"), Column("Nodes disrupted", "n"), Column("Applies"))


def disruption_budgets_table(uses: Iterable[DisruptionUse]) -> Html:
    """Return the table of budgets; nothing if none is configured."""
    rows = [
        (
            html("<code>{}</code>", use.budget),
            html("{} of {} used", use.used, use.limit),
            pill("now", "warn" if use.used >= use.limit else "good") if use.applies else pill("outside its window"),
        )
        for use in uses
    ]
    return table(html("{}", count(len(rows), "budget")), _COLUMNS, rows) if rows else NOTHING
