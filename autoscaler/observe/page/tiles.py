"""The tiles of the status page: the most important figures."""

from autoscaler.observe.cost import ClusterCost, money
from autoscaler.observe.figures import count, duration
from autoscaler.observe.page.format import ago
from autoscaler.observe.page.markup import Html, html, joined
from autoscaler.observe.status import PassStatus, PodState, PublishedStatus


def tiles(status: PublishedStatus, last: PassStatus, cost: ClusterCost, now_wall: float) -> Html:
    """Return the tiles with the figures."""
    unneeded = sum(node.unneeded_since_at is not None for node in status.nodes)
    cooldown = "scale-down is in cool-down" if last.scale_down_in_cooldown else "scale-down may act"
    shown = [
        _tile("Pending pods", f"{len(status.pods):,}", _pending_note(status)),
        _nodes_tile(status),
        _tile("Unneeded nodes", f"{unneeded:,}", cooldown),
        _tile("Last pass", duration(last.duration_s), _pass_note(last, now_wall)),
    ]
    if cost.per_hour is not None:
        title = f"Cost per hour, {cost.currency}" if cost.currency else "Cost per hour"
        left_out = f"{count(cost.unpriced_groups, 'group')} without a price" if cost.unpriced_groups else "all machines"
        shown.insert(2, _tile(title, money(cost.per_hour), left_out))
    return html('<div class="tiles">{}</div>', joined(shown))


def _tile(title: str, value: str, note: str | Html) -> Html:
    return html('<dl class="tile"><dt>{}</dt><dd>{}</dd><dd class="note">{}</dd></dl>', title, value, note)


def _pending_note(status: PublishedStatus) -> str:
    names = {PodState.STUCK: "stuck", PodState.ON_ITS_WAY: "on their way", PodState.WAITING: "waiting"}
    numbers = {state: sum(pod.state is state for pod in status.pods) for state in names}
    return ", ".join(f"{number:,} {names[state]}" for state, number in numbers.items() if number) or "none"


def _nodes_tile(status: PublishedStatus) -> Html:
    if status.cluster is None:
        return _tile("Nodes ready", "0", "not known yet")
    counts, upcoming = status.cluster.scope.counts, status.cluster.upcoming
    note = f"of {counts.total:,}" + (f", {count(upcoming, 'machine')} coming" if upcoming else "")
    return _tile("Nodes ready", f"{counts.ready:,}", note)


def _pass_note(last: PassStatus, now_wall: float) -> Html:
    note = html("{}, number {}", ago(last.started_at, now_wall), f"{last.number:,}")
    if not last.phases:
        return note
    lines = joined(html("<li>{}: {}</li>", phase.name, duration(phase.seconds)) for phase in last.phases)
    return html("{}<details><summary>Time by phase</summary><ul>{}</ul></details>", note, lines)
