"""The tiles of the status page: the most important figures, and the cluster's utilisation."""

from autoscaler.observe.figures import cpus, duration, gib
from autoscaler.observe.page.format import ago
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.plots import share_bar
from autoscaler.observe.status import Capacity, ClusterStatus, PassStatus, PublishedStatus, ScaleUpActivity


def tiles(status: PublishedStatus, last: PassStatus, now_wall: float) -> Html:
    """Return the tiles with the figures."""
    unneeded = sum(node.unneeded_since_at is not None for node in status.nodes)
    planned = sum(pod.planned_group is not None for pod in status.pods)
    ready, total, upcoming = _node_totals(status.cluster)
    cooldown = "in cool-down" if last.scale_down_in_cooldown else "ready to act"
    tile_texts = (
        _tile("Nodes ready", f"{ready:,}", f"of {total:,}" + (f", {upcoming:,} upcoming" if upcoming else "")),
        _tile("Node groups", f"{len(status.groups):,}", _backed_off(status)),
        _tile("Pending pods", f"{len(status.pods):,}", f"{planned:,} with a plan" if status.pods else "none"),
        _tile("Unneeded nodes", f"{unneeded:,}", f"scale-down {cooldown}"),
        _tile("Last pass", duration(last.duration_s), _pass_note(last, now_wall)),
        _tile("Scale-up", str(last.scale_up or "not reached"), _scale_up_note(status.cluster)),
    )
    return html('<div class="tiles">{}</div>', joined(tile_texts))


def _tile(title: str, value: str, note: str | Html) -> Html:
    return html('<dl class="tile"><dt>{}</dt><dd>{}</dd><dd class="note">{}</dd></dl>', title, value, note)


def _node_totals(cluster: ClusterStatus | None) -> tuple[int, int, int]:
    if cluster is None:
        return 0, 0, 0
    return cluster.scope.counts.ready, cluster.scope.counts.total, cluster.upcoming


def _backed_off(status: PublishedStatus) -> str:
    number = sum(group.backoff is not None for group in status.groups)
    return f"{number} backed off" if number else "none in backoff"


def _pass_note(last: PassStatus, now_wall: float) -> Html:
    note = html("{}, number {}", ago(last.started_at, now_wall), last.number)
    if not last.phases:
        return note
    lines = joined(html("<li>{}: {}</li>", phase.name, duration(phase.seconds)) for phase in last.phases)
    return html("{}<details><summary>Time by phase</summary><ul>{}</ul></details>", note, lines)


def _scale_up_note(cluster: ClusterStatus | None) -> str:
    activity = None if cluster is None else cluster.scope.scale_up.status
    return "upcoming machines" if activity == ScaleUpActivity.IN_PROGRESS else "none upcoming"


def capacity_bars(cluster: ClusterStatus | None) -> Html:
    """Return requested versus available amounts by resource; empty if unknown."""
    if cluster is None:
        return NOTHING
    lines = []
    if cluster.cpu_milli is not None:
        cpu = cluster.cpu_milli
        lines.append(_capacity_line(cpu_line(cpu), cpu, "CPU"))
    if cluster.memory_bytes is not None:
        memory = cluster.memory_bytes
        lines.append(_capacity_line(memory_line(memory), memory, "Memory"))
    return html('<div class="capacity">{}</div>', joined(lines)) if lines else NOTHING


def cpu_line(cpu: Capacity) -> str:
    """Return the sentence about CPU; amounts are in millicores."""
    running, pending, total = cpus(cpu.running), cpus(cpu.pending), cpus(cpu.total)
    return f"{running} CPUs running, {pending} CPUs pending, {total} total CPUs in cluster"


def memory_line(memory: Capacity) -> str:
    """Return the sentence about memory; amounts are in bytes."""
    running, pending, total = gib(memory.running), gib(memory.pending), gib(memory.total)
    return f"{running} GiB running, {pending} GiB pending, {total} total GiB in cluster"


def _capacity_line(text: str, capacity: Capacity, label: str) -> Html:
    return html(
        '<div>{}<p class="small">{}</p></div>', share_bar(capacity.running / max(1, capacity.total), label), text
    )
