"""Pending pods on the status page: those that need a person, and those that get room."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from autoscaler.observe.figures import count, duration
from autoscaler.observe.meanings import GivenReason
from autoscaler.observe.page.format import lasting, until
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.table import Column, and_others, glossary, pill, row_count_text, table
from autoscaler.observe.reason_table import OF_GROUPS, OF_PODS
from autoscaler.observe.status import GroupReason, GroupStatus, Health, PodState, PodStatus, PublishedStatus

_MAX_ROWS = 50


def attention(status: PublishedStatus, now_wall: float, all_link: str | None) -> Html:
    """Return what needs a person: stuck workloads, then groups in trouble. `all_link`: see `row_count_text`."""
    stuck = [pod for pod in status.pods if pod.state is PodState.STUCK]
    troubled = [group for group in status.groups if group.backoff is not None or _unhealthy(group)]
    if not (stuck or troubled):
        return html('<p class="calm">{}</p>', "Nothing needs you.")
    groups = joined(html("<li>{}</li>", _trouble(group, now_wall)) for group in troubled)
    return joined(
        (
            _stuck_table(stuck, now_wall, all_link) if stuck else NOTHING,
            html('<ul class="troubles">{}</ul>', groups) if groups else NOTHING,
        )
    )


def _stuck_table(pods: Sequence[PodStatus], now_wall: float, all_link: str | None) -> Html:
    rows = _rows(pods, all_link)
    shown = rows if all_link is None else rows[:_MAX_ROWS]
    columns = (Column("Workload"), Column("Waiting", "n"), Column("Why", "wide"), Column("What helps", "wide"))
    cells = ((_name(row), lasting(row[0].pending_since_at, now_wall), _why(row[0]), _fix(row[0])) for row in shown)
    given: list[GivenReason] = [(row[0].verdict, OF_PODS) for row in shown]
    given += [(reason.reason, OF_GROUPS) for row in shown for reason in row[0].reasons]
    caption = row_count_text("workload", len(shown), len(rows), all_link)
    return joined((table(caption, columns, cells), glossary(given)))


def coming(status: PublishedStatus, now_wall: float, all_link: str | None) -> Html:
    """Return the pods that have or will have room, and those that wait for something else; empty if there are none."""
    pods = [pod for pod in status.pods if pod.state is not PodState.STUCK]
    rows = sorted(_rows(pods, all_link), key=lambda row: row[0].state is PodState.WAITING)
    if not rows:
        return NOTHING
    shown = rows if all_link is None else rows[:_MAX_ROWS]
    machines = {group.id: group.upcoming for group in status.groups}
    columns = (Column("Workload"), Column("Waiting", "n"), Column("For", "wide"), Column("Ready in about", "n"))
    cells = (
        (_name(row), lasting(row[0].pending_since_at, now_wall), _waits_for(row[0], machines), _ready_in(row))
        for row in shown
    )
    given: list[GivenReason] = [(row[0].verdict, OF_PODS) for row in shown if row[0].planned_group is None]
    return joined((table(row_count_text("workload", len(shown), len(rows), all_link), columns, cells), glossary(given)))


def _rows(pods: Iterable[PodStatus], all_link: str | None) -> list[list[PodStatus]]:
    """Group the pods of one workload with the same outcome, longest waiting first; the page of all rows shows each."""
    if all_link is None:
        return [[pod] for pod in pods]
    rows: dict[tuple[object, ...], list[PodStatus]] = {}
    for pod in sorted(pods, key=lambda pod: pod.pending_since_at):
        key = (pod.namespace, pod.workload or pod.name, pod.verdict, pod.detail, pod.planned_group, pod.reasons)
        rows.setdefault(key, []).append(pod)
    return list(rows.values())


def _name(row: Sequence[PodStatus]) -> Html:
    first = row[0]
    kind, _, name = (first.workload or "").rpartition(" ")
    shown = html("<code>{}/{}</code>", first.namespace, name or first.name)
    pods = f"{count(len(row), 'pod')}, such as {first.name}" if name and len(row) > 1 else first.name if name else "Pod"
    return html('{}<span class="sub">{}</span>', shown, f"{kind}, {pods}" if kind else f"{pods}{and_others(row)}")


def _why(pod: PodStatus) -> Html:
    cause = pod.detail if pod.advice is None else _capitalised(pod.advice.cause)
    parts = [html("{}", cause) if cause else pill(pod.verdict)]
    if pod.reasons:
        parts.append(_group_reasons(pod.reasons))
    return joined(parts, " ")


def _fix(pod: PodStatus) -> Html:
    if pod.advice is None:
        return html('<span class="muted">{}</span>', "not known yet")
    return html("{}", _capitalised(pod.advice.fix)) if pod.advice.fix else NOTHING


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _group_reasons(reasons: Sequence[GroupReason]) -> Html:
    counts = Counter(reason.reason for reason in reasons)
    summary = f"{count(len(reasons), 'node group')}: " + ", ".join(
        f"{reason} ({number})" if number > 1 else reason for reason, number in counts.most_common()
    )
    lines = joined(
        html("<li><code>{}</code>: {}</li>", reason.group, reason.detail or reason.reason) for reason in reasons
    )
    return html("<details><summary>{}</summary><ul>{}</ul></details>", summary, lines)


def _waits_for(pod: PodStatus, machines: dict[str, int]) -> Html:
    if pod.planned_group is not None:
        number = machines.get(pod.planned_group, 0)
        return html("{} of <code>{}</code>", count(number, "machine") if number else "a machine", pod.planned_group)
    fix = NOTHING if pod.advice is None else html(" {}", _capitalised(pod.advice.fix))
    return html("{}{}{}", pill(pod.verdict), html(" {}", pod.detail) if pod.detail else NOTHING, fix)


def _ready_in(row: Sequence[PodStatus]) -> Html:
    known = [pod.eta_s for pod in row if pod.eta_s is not None]
    if not known:
        return NOTHING
    soonest, latest = duration(min(known)), duration(max(known))
    return html("{}", soonest if soonest == latest else f"{soonest} to {latest}")


def _unhealthy(group: GroupStatus) -> bool:
    return group.scope.health.status is Health.UNHEALTHY


def _trouble(group: GroupStatus, now_wall: float) -> Html:
    return joined(_troubles(group, now_wall), " ")


def _troubles(group: GroupStatus, now_wall: float) -> Iterator[Html]:
    counts = group.scope.counts
    if _unhealthy(group):
        yield html(
            "Group <code>{}</code> is unhealthy: {} of {} ready.", group.id, counts.ready, count(counts.total, "node")
        )
    if group.backoff is not None:
        yield html(
            "The cloud refused to grow <code>{}</code>: {}{}. The autoscaler tries again in {}.",
            group.id,
            group.backoff.code or "unknown error",
            f" ({group.backoff.message})" if group.backoff.message else "",
            until(group.backoff.until_at, now_wall),
        )
