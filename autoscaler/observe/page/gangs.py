"""Gangs of pods that wait, on the status page."""

from collections.abc import Sequence

from autoscaler.observe.cost import money
from autoscaler.observe.figures import duration
from autoscaler.observe.page.markup import NOTHING, Html, html
from autoscaler.observe.page.table import Column, pill, row_count_text, table
from autoscaler.observe.status import GangStatus, PodState

_MOST = 50
_COLUMNS = (
    Column("Gang"),
    Column("State"),
    Column("Figures", "wide"),
    Column("New nodes", "wide"),
    Column("Price per hour", "n"),
    Column("Starts in about", "n"),
)
_PILLS = {
    PodState.ON_ITS_WAY: ("On its way", "good"),
    PodState.WAITING: ("Waiting", "warn"),
    PodState.STUCK: ("Stuck", "bad"),
}


def gangs_table(gangs: Sequence[GangStatus], currency: str, all_link: str | None) -> Html:
    """Return the gangs, the stuck ones first; empty if none waits. `all_link`: see `row_count_text`."""
    if not gangs:
        return NOTHING
    order = (PodState.STUCK, PodState.WAITING, PodState.ON_ITS_WAY)
    shown = sorted(gangs, key=lambda gang: order.index(gang.state))
    shown = shown if all_link is None else shown[:_MOST]
    caption = row_count_text("gang", len(shown), len(gangs), all_link)
    return table(caption, _COLUMNS, [_cells(gang, currency) for gang in shown])


def _cells(gang: GangStatus, currency: str) -> Sequence[Html]:
    nodes = ", ".join(f"{count} of {group}" for group, count in gang.nodes.items())
    price = "" if gang.node_price is None else f"{money(gang.node_price)} {currency}".strip()
    return (
        html("<code>{}</code>", gang.gang),
        pill(*_PILLS[gang.state]),
        html("{}", gang.detail),
        html("{}", nodes),
        html("{}", price),
        html("{}", "" if gang.eta_s is None else duration(gang.eta_s)),
    )
