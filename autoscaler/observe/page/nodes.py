"""The nodes on the status page."""

from collections import Counter
from collections.abc import Sequence

from autoscaler.observe.figures import percent
from autoscaler.observe.meanings import GivenReason
from autoscaler.observe.page.format import lasting
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.plots import share_bar
from autoscaler.observe.page.table import Column, chips, glossary, pill, row_count_text, table
from autoscaler.observe.reason_table import OF_NODES
from autoscaler.observe.status import NodeState, NodeStatus

_MAX_NODES = 200
_STATES_BY_URGENCY = (
    NodeState.BEING_DELETED,
    NodeState.UNREADY,
    NodeState.NOT_STARTED,
    NodeState.UPCOMING,
    NodeState.SUSPENDED,
    NodeState.READY,
)
_TONES = {NodeState.READY: "good", NodeState.UNREADY: "bad", NodeState.BEING_DELETED: "warn"}


def nodes_table(nodes: Sequence[NodeStatus], now_wall: float, all_link: str | None) -> Html:
    """Return the nodes, those about to change first; a long table is cut to the most relevant rows.

    `all_link` leads to the page with all rows; None if this is that page.
    """
    ordered = sorted(nodes, key=_relevance)
    shown = ordered if all_link is None else ordered[:_MAX_NODES]
    columns = (
        Column("Node"),
        Column("Node group"),
        Column("State"),
        Column("CPU", "bars"),
        Column("Memory", "bars"),
        Column("GPU", "bars"),
        Column("Why it stays", "wide"),
    )
    rows = (_node_row(node, now_wall) for node in shown)
    caption = row_count_text("node", len(shown), len(nodes), all_link)
    reasons: list[GivenReason] = [(node.stays.reason, OF_NODES) for node in nodes if node.stays is not None]
    return joined((chips(Counter(_verdict(node) for node in nodes)), table(caption, columns, rows), glossary(reasons)))


def _relevance(node: NodeStatus) -> tuple[int, int, float, str]:
    not_unneeded = node.unneeded_since_at is None
    return (
        _STATES_BY_URGENCY.index(node.state),
        not_unneeded,
        max(node.cpu_utilization or 0, node.memory_utilization or 0),
        node.name,
    )


def _verdict(node: NodeStatus) -> str:
    if node.unneeded_since_at is not None:
        return "unneeded"
    if node.stays is not None:
        return node.stays.reason
    return "no reason given" if node.state is NodeState.READY else node.state


def _node_row(node: NodeStatus, now_wall: float) -> list[Html]:
    return [
        html("<code>{}</code>", node.name),
        html("<code>{}</code>", node.group) if node.group is not None else Html('<span class="muted">none</span>'),
        pill(node.state, _TONES.get(node.state, "")),
        _utilization(node.cpu_utilization, "CPU"),
        _utilization(node.memory_utilization, "Memory"),
        _utilization(node.gpu_utilization, "GPU"),
        _why_it_stays(node, now_wall),
    ]


def _why_it_stays(node: NodeStatus, now_wall: float) -> Html:
    parts = []
    if node.unneeded_since_at is not None:
        parts.append(html('<span class="pill warn">unneeded for {}</span>', lasting(node.unneeded_since_at, now_wall)))
    if node.stays is not None:
        parts.append(pill(node.stays.reason))
        parts.append(html("{}", node.stays.detail))
    return joined(parts, " ")


def _utilization(share: float | None, label: str) -> Html:
    if share is None:
        return NOTHING
    return html(
        '<div class="meter">{}<span class="small muted">{}</span></div>', share_bar(share, label), percent(share)
    )
