"""The tables of the status page: node groups, pending pods, nodes, decisions, events."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from autoscaler.observe.display import ago, count, cpus, duration, gib, lasting, percent, until
from autoscaler.observe.explaining import Given, meanings
from autoscaler.observe.markup import NOTHING, Html, html, joined
from autoscaler.observe.plots import share_bar, size_bar
from autoscaler.observe.reason_table import OF_GROUPS, OF_NODES, OF_PODS
from autoscaler.observe.status import (
    Decision,
    GroupReason,
    GroupStatus,
    Health,
    NodeState,
    NodeStatus,
    PodStatus,
    RecentEvent,
    ScaleUpActivity,
    TemplateSummary,
)

_MOST_NODES = 200
_MOST_POD_ROWS = 100
_MOST_DECISIONS = 15
_MOST_EVENTS = 15
_LONGEST_WORD = 40

_URGENCY = (
    NodeState.BEING_DELETED,
    NodeState.UNREADY,
    NodeState.NOT_STARTED,
    NodeState.UPCOMING,
    NodeState.SUSPENDED,
    NodeState.READY,
)
_TONES = {NodeState.READY: "good", NodeState.UNREADY: "bad", NodeState.BEING_DELETED: "warn"}


class Column(msgspec.Struct, frozen=True):
    """A column's heading and its style: `n` for numbers, `bars`, `brief`, `size`, `wide`."""

    title: str
    style: str = ""


def table(caption: Html, columns: Sequence[Column], rows: Iterable[Sequence[Html]]) -> Html:
    """Return a table that turns into cards on narrow screens; its roles keep it a table for screen readers then."""
    heads = joined(
        html('<th scope="col" role="columnheader" class="{}">{}</th>', column.style, column.title) for column in columns
    )
    lines = joined(
        html(
            '<tr role="row">{}</tr>',
            joined(_cell(at, column, cell) for at, (column, cell) in enumerate(zip(columns, row, strict=True))),
        )
        for row in rows
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


def groups_table(groups: Sequence[GroupStatus], now_wall: float) -> Html:
    """Return one row for each node group."""
    columns = (
        Column("Node group"),
        Column("State"),
        Column("Size", "size"),
        Column("Ready", "n"),
        Column("Upcoming", "n"),
        Column("Unregistered", "n"),
        Column("Price per hour", "n"),
    )
    rows = (
        (
            html("<code>{}</code>{}", group.id, _template(group.template)),
            _group_state(group, now_wall),
            html(
                '{}<span class="small muted">min {} · target {} · max {}</span>',
                size_bar(group.min_size, group.scope.counts.ready, group.target_size, group.max_size),
                f"{group.min_size:,}",
                f"{group.target_size:,}",
                f"{group.max_size:,}",
            ),
            html("{}", f"{group.scope.counts.ready:,}"),
            html("{}", f"{group.upcoming:,}"),
            html("{}", f"{group.scope.counts.unregistered + group.scope.counts.long_unregistered:,}"),
            NOTHING if group.node_price is None else html("{}", f"{group.node_price:.4g}"),
        )
        for group in groups
    )
    return table(html("{}", count(len(groups), "node group")), columns, rows)


def _template(template: TemplateSummary | None) -> Html:
    if template is None:
        return NOTHING
    gpus = f"{template.gpus} GPU" if template.gpus else None
    size = f"{cpus(template.cpu_milli)} CPU, {gib(template.memory_bytes)} GiB"
    parts = [part for part in (template.instance_type, template.zone, size, gpus) if part]
    return html('<span class="sub">{}</span>', " · ".join(parts))


def _group_state(group: GroupStatus, now_wall: float) -> Html:
    health = group.scope.health.status
    parts = [pill(health, "good" if health == Health.HEALTHY else "bad")]
    if group.scope.scale_up.status == ScaleUpActivity.IN_PROGRESS:
        parts.append(pill("Scaling up", "warn"))
    if group.backoff is not None:
        parts.append(pill("Backed off", "bad"))
        parts.append(
            html(
                '<span class="sub">{} for another {}{}</span>',
                group.backoff.code or "unknown error",
                until(group.backoff.until_at, now_wall),
                f": {group.backoff.message}" if group.backoff.message else "",
            )
        )
    return joined(parts, " ")


def pods_table(pods: Sequence[PodStatus], now_wall: float, all_link: str | None) -> Html:
    """Return the pending pods; replicas with the same fate share a row.

    `all_link` leads to every row of its own; None: this is that page.
    """
    all_rows = all_link is None
    alike = [[pod] for pod in pods] if all_rows else _alike(pods)
    shown = alike if all_rows else alike[:_MOST_POD_ROWS]
    has_estimates = any(pod.eta_s is not None for pod in pods)
    columns = [Column("Pod"), Column("Waiting", "n"), Column("Why", "wide"), Column("Plan")]
    columns += [Column("Ready in about", "n")] if has_estimates else []
    rows = (_pod_row(row, now_wall, has_estimates) for row in shown)
    hidden = sum(len(row) for row in alike[len(shown) :])
    caption = html(
        "{} without a node{}. {}",
        count(len(pods), "pod"),
        f", {hidden:,} of them not shown" if hidden else "",
        html('<a href="{}">Show each</a>', all_link) if len(shown) < len(pods) else NOTHING,
    )
    given: list[Given] = [(pod.verdict, OF_PODS) for row in shown for pod in row[:1]]
    given += [(one.reason, OF_GROUPS) for row in shown for one in row[0].reasons]
    return joined((_chips(Counter(pod.verdict for pod in pods)), table(caption, columns, rows), _glossary(given)))


def _alike(pods: Sequence[PodStatus]) -> list[list[PodStatus]]:
    rows: dict[tuple[object, ...], list[PodStatus]] = {}
    for pod in sorted(pods, key=lambda one: one.pending_since_at):
        same = pod.owner if pod.owner is not None else pod.name
        rows.setdefault((pod.namespace, same, pod.verdict, pod.detail, pod.planned_group, pod.reasons), []).append(pod)
    return list(rows.values())


def _pod_row(row: Sequence[PodStatus], now_wall: float, has_estimates: bool) -> list[Html]:
    first = row[0]
    plan = NOTHING if first.planned_group is None else html("grows <code>{}</code>", first.planned_group)
    cells = [_pod_names(row), lasting(first.pending_since_at, now_wall), _pod_why(first), plan]
    return [*cells, _ready_in(row)] if has_estimates else cells


def _ready_in(row: Sequence[PodStatus]) -> Html:
    known = [pod.eta_s for pod in row if pod.eta_s is not None]
    if not known:
        return NOTHING
    soonest, latest = duration(min(known)), duration(max(known))
    return html("{}", soonest if soonest == latest else f"{soonest} to {latest}")


def _pod_names(row: Sequence[PodStatus]) -> Html:
    first = row[0]
    owner = html('<span class="sub">{}</span>', first.owner) if first.owner is not None else NOTHING
    more = html('<span class="sub">{}</span>', _like_it(row)) if len(row) > 1 else NOTHING
    return html("<code>{}/{}</code>{}{}", first.namespace, first.name, more, owner)


def _pod_why(pod: PodStatus) -> Html:
    parts = [pill(pod.verdict)]
    if pod.detail:
        parts.append(html("{}", pod.detail))
    if pod.reasons:
        parts.append(_group_reasons(pod.reasons))
    return joined(parts, " ")


def _group_reasons(reasons: Sequence[GroupReason]) -> Html:
    counts = Counter(one.reason for one in reasons)
    summary = ", ".join(f"{reason} ({number})" if number > 1 else reason for reason, number in counts.most_common())
    lines = joined(
        html("<li><code>{}</code>: {}{}</li>", one.group, one.reason, f" ({one.detail})" if one.detail else "")
        for one in reasons
    )
    return html("<details><summary>{}</summary><ul>{}</ul></details>", summary, lines)


def nodes_table(nodes: Sequence[NodeStatus], now_wall: float, all_link: str | None) -> Html:
    """Return the nodes, those first that are about to change; many are cut to the most relevant.

    `all_link` leads to all of them; None: this is that page.
    """
    ordered = sorted(nodes, key=_relevance)
    shown = ordered if all_link is None else ordered[:_MOST_NODES]
    has_gpus = any(node.gpu_utilization is not None for node in shown)
    columns = [Column("Node"), Column("Node group"), Column("State"), Column("CPU", "bars"), Column("Memory", "bars")]
    columns += [Column("GPU", "bars")] if has_gpus else []
    columns.append(Column("Why it stays", "wide"))
    rows = (_node_row(node, now_wall, has_gpus) for node in shown)
    caption = html(
        "{}. {}",
        count(len(nodes), "node")
        if len(shown) == len(nodes)
        else f"The {len(shown)} most relevant of {len(nodes):,} nodes",
        html('<a href="{}">Show all</a>', all_link) if len(shown) < len(nodes) else NOTHING,
    )
    given: list[Given] = [(node.stays.reason, OF_NODES) for node in nodes if node.stays is not None]
    return joined((_chips(Counter(_fate(node) for node in nodes)), table(caption, columns, rows), _glossary(given)))


def _relevance(node: NodeStatus) -> tuple[int, int, float, str]:
    routine = node.unneeded_since_at is None
    return _URGENCY.index(node.state), routine, max(node.cpu_utilization or 0, node.memory_utilization or 0), node.name


def _fate(node: NodeStatus) -> str:
    if node.unneeded_since_at is not None:
        return "unneeded"
    if node.stays is not None:
        return node.stays.reason
    return "no reason given" if node.state is NodeState.READY else node.state


def _node_row(node: NodeStatus, now_wall: float, has_gpus: bool) -> list[Html]:
    row = [
        html("<code>{}</code>", node.name),
        html("<code>{}</code>", node.group) if node.group is not None else Html('<span class="muted">none</span>'),
        pill(node.state, _TONES.get(node.state, "")),
        _utilization(node.cpu_utilization, "CPU"),
        _utilization(node.memory_utilization, "Memory"),
    ]
    if has_gpus:
        row.append(_utilization(node.gpu_utilization, "GPU"))
    parts = []
    if node.unneeded_since_at is not None:
        parts.append(html('<span class="pill warn">unneeded for {}</span>', lasting(node.unneeded_since_at, now_wall)))
    if node.stays is not None:
        parts.append(pill(node.stays.reason))
        parts.append(html("{}", node.stays.detail))
    row.append(joined(parts, " "))
    return row


def _utilization(share: float | None, label: str) -> Html:
    if share is None:
        return NOTHING
    return html(
        '<div class="meter">{}<span class="small muted">{}</span></div>', share_bar(share, label), percent(share)
    )


def decisions_table(history: Sequence[Decision], now_wall: float) -> Html:
    """Return the newest decisions, newest first."""
    shown = history[::-1][:_MOST_DECISIONS]
    columns = (
        Column("When", "brief"),
        Column("Nodes", "n"),
        Column("Node group"),
        Column("Pods", "n"),
        Column("Result"),
        Column("Detail", "wide"),
    )
    rows = (
        (
            ago(one.at, now_wall),
            html("{}", f"{one.delta:+d}".replace("-", "\N{MINUS SIGN}")),
            html("<code>{}</code>", one.group),
            html("{}", one.pods),
            pill(one.result, "bad") if one.failed else html("{}", one.result),
            html("{}", one.detail),
        )
        for one in shown
    )
    caption = html("The newest {} of {}", len(shown), f"{len(history):,}") if len(shown) < len(history) else NOTHING
    return table(caption or html("{}", count(len(history), "decision")), columns, rows)


def events_table(events: Sequence[RecentEvent], now_wall: float) -> Html:
    """Return the newest events, newest first; those that say the same of several objects share a row."""
    alike: dict[tuple[str, str, str], list[RecentEvent]] = {}
    for one in reversed(events):
        alike.setdefault((one.kind, one.reason, one.message), []).append(one)
    shown = list(alike.values())[:_MOST_EVENTS]
    columns = (Column("When", "brief"), Column("Reason", "brief"), Column("Message"))
    rows = (
        (
            ago(row[0].at, now_wall),
            pill(row[0].reason, "warn" if row[0].kind == "Warning" else ""),
            html('{}<span class="sub">{}{}</span>', row[0].message, row[0].about, _like_it(row)),
        )
        for row in shown
    )
    return table(html("The newest {}", count(sum(len(row) for row in shown), "event")), columns, rows)


def _like_it(row: Sequence[object]) -> str:
    return f" and {len(row) - 1:,} like it" if len(row) > 1 else ""


def _prose(text: str) -> Html:
    """Return text with what stands between backticks as code."""
    return joined(html("<code>{}</code>" if at % 2 else "{}", part) for at, part in enumerate(text.split("`")))


def _glossary(given: Iterable[Given]) -> Html:
    lines = joined(
        html("<dt>{}</dt><dd>{} <em>{}</em></dd>", one.reason, _prose(one.text), _prose(one.remedy))
        for one in meanings(given)
    )
    return (
        html("<details><summary>What the words mean, and what helps</summary><dl>{}</dl></details>", lines)
        if lines
        else NOTHING
    )


def _chips(counts: Counter[str]) -> Html:
    chips = joined(html("<li>{}</li>", pill(f"{word} {number:,}")) for word, number in counts.most_common())
    return html('<ul class="chips" aria-label="By reason">{}</ul>', chips)
