"""The pending pods on the status page."""

from collections import Counter
from collections.abc import Sequence

from autoscaler.observe.figures import count, duration
from autoscaler.observe.meanings import GivenReason
from autoscaler.observe.page.format import lasting
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.table import Column, and_others, chips, glossary, pill, table
from autoscaler.observe.reason_table import OF_GROUPS, OF_PODS
from autoscaler.observe.status import GroupReason, PodStatus

_MAX_ROWS = 100


def pods_table(pods: Sequence[PodStatus], now_wall: float, all_link: str | None) -> Html:
    """Return the pending pods; replicas with the same outcome share a row.

    `all_link` leads to the page with all rows; None if this is that page.
    """
    all_rows = all_link is None
    grouped = [[pod] for pod in pods] if all_rows else _grouped_by_owner(pods)
    shown = grouped if all_rows else grouped[:_MAX_ROWS]
    columns = (
        Column("Pod"),
        Column("Waiting", "n"),
        Column("Why", "wide"),
        Column("Plan"),
        Column("Ready in about", "n"),
    )
    rows = (_pod_row(row, now_wall) for row in shown)
    hidden = sum(len(row) for row in grouped[len(shown) :])
    caption = html(
        "{} without a node{}. {}",
        count(len(pods), "pod"),
        f", {hidden:,} of them not shown" if hidden else "",
        html('<a href="{}">Show each</a>', all_link) if len(shown) < len(pods) else NOTHING,
    )
    reasons: list[GivenReason] = [(pod.verdict, OF_PODS) for row in shown for pod in row[:1]]
    reasons += [(reason.reason, OF_GROUPS) for row in shown for reason in row[0].reasons]
    return joined((chips(Counter(pod.verdict for pod in pods)), table(caption, columns, rows), glossary(reasons)))


def _grouped_by_owner(pods: Sequence[PodStatus]) -> list[list[PodStatus]]:
    rows: dict[tuple[object, ...], list[PodStatus]] = {}
    for pod in sorted(pods, key=lambda pod: pod.pending_since_at):
        owner_or_name = pod.owner if pod.owner is not None else pod.name
        rows.setdefault(
            (pod.namespace, owner_or_name, pod.verdict, pod.detail, pod.planned_group, pod.reasons), []
        ).append(pod)
    return list(rows.values())


def _pod_row(row: Sequence[PodStatus], now_wall: float) -> list[Html]:
    first = row[0]
    plan = NOTHING if first.planned_group is None else html("grows <code>{}</code>", first.planned_group)
    return [_pod_names(row), lasting(first.pending_since_at, now_wall), _pod_why(first), plan, _ready_in(row)]


def _ready_in(row: Sequence[PodStatus]) -> Html:
    known = [pod.eta_s for pod in row if pod.eta_s is not None]
    if not known:
        return NOTHING
    soonest, latest = duration(min(known)), duration(max(known))
    return html("{}", soonest if soonest == latest else f"{soonest} to {latest}")


def _pod_names(row: Sequence[PodStatus]) -> Html:
    first = row[0]
    owner = html('<span class="sub">{}</span>', first.owner) if first.owner is not None else NOTHING
    more = html('<span class="sub">{}</span>', and_others(row)) if len(row) > 1 else NOTHING
    return html("<code>{}/{}</code>{}{}", first.namespace, first.name, more, owner)


def _pod_why(pod: PodStatus) -> Html:
    parts = [pill(pod.verdict)]
    if pod.detail:
        parts.append(html("{}", pod.detail))
    if pod.reasons:
        parts.append(_group_reasons(pod.reasons))
    return joined(parts, " ")


def _group_reasons(reasons: Sequence[GroupReason]) -> Html:
    counts = Counter(reason.reason for reason in reasons)
    summary = ", ".join(f"{reason} ({number})" if number > 1 else reason for reason, number in counts.most_common())
    lines = joined(
        html(
            "<li><code>{}</code>: {}{}</li>",
            reason.group,
            reason.reason,
            f" ({reason.detail})" if reason.detail else "",
        )
        for reason in reasons
    )
    return html("<details><summary>{}</summary><ul>{}</ul></details>", summary, lines)
