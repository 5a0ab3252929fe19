"""The resizes in place that wait for room, on the status page."""

from collections.abc import Iterable
from itertools import islice

from autoscaler.observe.figures import count
from autoscaler.observe.page.markup import NOTHING, Html, html
from autoscaler.observe.page.table import Column, table
from autoscaler.observe.status import ResizeStatus

_COLUMNS = (Column("Pod", "wide"), Column("Node", "wide"), Column("The node lacks"))
_MOST_ROWS = 50


def deferred_resizes_table(resizes: Iterable[ResizeStatus]) -> Html:
    """Return the first pods that wait; nothing if none does."""
    waiting = tuple(resizes)
    rows = (
        (
            html("<code>{}</code>", one.pod),
            html("<code>{}</code>", one.node),
            html("{}", one.lacks or "nothing any more"),
        )
        for one in islice(waiting, _MOST_ROWS)
    )
    return table(html("{}", count(len(waiting), "pod")), _COLUMNS, rows) if waiting else NOTHING
