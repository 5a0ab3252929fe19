"""Capacity and cost on the status page: the requests of pods, drawn beside the capacity."""

from collections.abc import Callable, Iterable

from autoscaler.observe.figures import cpus, gib
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.plots import demand_bars
from autoscaler.observe.status import Capacity, ClusterStatus, GroupStatus


def capacity_bars(cluster: ClusterStatus | None, groups: Iterable[GroupStatus]) -> Html:
    """Return demand and supply by resource; empty if unknown."""
    if cluster is None:
        return NOTHING
    known = [(group.template, group.upcoming) for group in groups if group.template is not None]
    lines = []
    if cluster.cpu_milli is not None:
        coming = sum(template.cpu_milli * number for template, number in known)
        lines.append(_resource("CPU", "", cpus, cluster.cpu_milli, coming))
    if cluster.memory_bytes is not None:
        coming = sum(template.memory_bytes * number for template, number in known)
        lines.append(_resource("Memory", " GiB", gib, cluster.memory_bytes, coming))
    return html('<div class="capacity">{}</div>', joined(lines)) if lines else NOTHING


def _resource(name: str, unit: str, shown: Callable[[int], str], capacity: Capacity, coming: int) -> Html:
    segments = (
        ("run", capacity.running, "running"),
        ("pending", capacity.pending, "pending"),
        ("supply", capacity.total, "on nodes"),
        ("coming", coming, "coming"),
    )
    keys = [(style, f"{shown(amount)}{unit} {what}") for style, amount, what in segments if amount]
    bars = demand_bars(
        f"{name}: {', '.join(text for _, text in keys)}", (capacity.running, capacity.pending), (capacity.total, coming)
    )
    legend = joined(html('<span class="key {}"></span>{} ', style, text) for style, text in keys)
    return html('<div><p><strong>{}</strong></p>{}<p class="small">{}</p></div>', name, bars, legend)


def cpu_line(cpu: Capacity) -> str:
    """Return the sentence about CPU; amounts are in millicores."""
    running, pending, total = cpus(cpu.running), cpus(cpu.pending), cpus(cpu.total)
    return f"{running} CPUs running, {pending} CPUs pending, {total} total CPUs in cluster"


def memory_line(memory: Capacity) -> str:
    """Return the sentence about memory; amounts are in bytes."""
    running, pending, total = gib(memory.running), gib(memory.pending), gib(memory.total)
    return f"{running} GiB running, {pending} GiB pending, {total} total GiB in cluster"
