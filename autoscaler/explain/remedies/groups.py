"""What would let a node group grow: bounds, limits of the cluster, its state, and the expander's choice."""

import re
from collections.abc import Iterator, Mapping, Sequence

from autoscaler.config.scaleup import TieBreak
from autoscaler.config.tree import Config
from autoscaler.explain.remedies.changes import AnyChange, RankFirst, ResizeGroup, SetFlag, Wait, spelled
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy
from autoscaler.loop.buying import counted_nodes
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.reasons import Skip, Skipped
from autoscaler.registry.backoff import backed_off
from autoscaler.scaleup.expander import ExpanderInputs, build_chain
from autoscaler.scaleup.limits import Uncountable, need_of, usage
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.contribution import CORES, MEMORY, bounds
from autoscaler.snapshot.groups import Group
from autoscaler.tie_break import dice

_GIB = 1024**3
_BY_FIGURES = ("least-waste", "most-pods", "least-nodes")
"""Expanders that need nothing but the options."""
MAX_NODES = "max-nodes-total"


def held_group(skipped: Skipped, p: EndedPass, config: Config) -> Remedy:
    """Return what would let a group grow that was not considered."""
    group = p.view.groups.by_id[skipped.group]
    match skipped.reason:
        case Skip.BACKED_OFF:
            return paused(Obstacle.BACKED_OFF, group.id, p, skipped.detail)
        case Skip.MAX_SIZE:
            changes: list[AnyChange] = [ResizeGroup(group=group.id, max=_target(group, p) + 1)]
            return remedy(Obstacle.MAX_SIZE, CulpritKind.GROUP, group.id, f"it grows once {spelled(changes)}", changes)
        case Skip.LIMIT:
            return _limited(group, p, config)
        case Skip.ATOMIC_LIMIT:
            return more_nodes(group.room, p, config, Obstacle.ATOMIC_LIMIT)
        case Skip.NOT_READY:
            return _unhealthy(group, p)
        case Skip.NO_TEMPLATE:
            text = "it grows once the provider describes its nodes, or it has one"
            return remedy(Obstacle.NO_TEMPLATE, CulpritKind.GROUP, group.id, text)


def paused(code: Obstacle, group_id: str, p: EndedPass, error: str) -> Remedy:
    """Return how long a group that failed is left alone."""
    pause = backed_off(p.memory.registry.backoffs, group_id, p.report.now)
    error = error or (pause.error.code if pause is not None else "no reason given")
    if pause is None:
        return remedy(code, CulpritKind.GROUP, group_id, f"it grows once the cloud delivers: {error}")
    changes = [Wait(seconds=max(0.0, pause.until.mono - p.report.now.mono))]
    return remedy(
        code,
        CulpritKind.GROUP,
        group_id,
        f"it is tried again {spelled(changes)}, if the cloud delivers: {error}",
        changes,
    )


def _target(group: Group, p: EndedPass) -> int:
    return p.registry.targets.get(group.id, group.target_size)


def more_nodes(wanted: int, p: EndedPass, config: Config, code: Obstacle = Obstacle.MAX_NODES_TOTAL) -> Remedy:
    """Return the limit on nodes that leaves room for so many more."""
    upcoming = sum(p.registry.upcoming.values())
    present = max(
        len(counted_nodes(p.view, p.registry, config.rules)) + upcoming, sum(1 for _ in p.registry.readings.ready())
    )
    changes = [SetFlag(flag=MAX_NODES, value=str(present + wanted))]
    count = f"{present} of {config.limits.max_nodes_total} nodes exist or are upcoming"
    text = f"{count}; more may come with {spelled(changes)}"
    return remedy(code, CulpritKind.FLAG, MAX_NODES, text, changes)


def _limited(group: Group, p: EndedPass, config: Config) -> Remedy:
    sized = p.view.groups.sized(p.registry.targets)
    nodes, templates = counted_nodes(p.view, p.registry, config.rules), p.report.templates
    used = usage(config.limits, config.rules, sized, templates, nodes, p.registry.upcoming)
    if isinstance(used, Uncountable):
        text = f"nothing may grow until the provider describes nodes of group {used.group}, which limits have to count"
        return remedy(Obstacle.LIMIT, CulpritKind.GROUP, used.group, text)
    wanted = group.room if group.settings.zero_or_max_node_scaling else 1
    need = need_of(group, templates[group.id], sized, config.rules)
    changes = list(_raised(dict(need.shares()), wanted, used, config))
    name = changes[0].flag if changes else "gpu-total"
    text = f"it grows with {spelled(changes)}" if changes else "the number of GPUs is unknown"
    return remedy(Obstacle.LIMIT, CulpritKind.FLAG, name, text, changes)


def _raised(
    need: Mapping[str, int | None], wanted: int, used: Mapping[str, int | None], config: Config
) -> Iterator[SetFlag]:
    """Yield the flags that have to be raised for so many more nodes."""
    raised: dict[str, int] = {}
    limits = bounds(config.limits)
    for name, each in need.items():
        before = used.get(name)
        if before is not None and each is not None and before + each * wanted > limits[name].max:
            raised[name] = before + each * wanted
    if CORES in raised:
        yield SetFlag(flag="cores-total", value=f"{config.limits.cores_total.min}:{raised[CORES]}")
    if MEMORY in raised:
        gib = -(-raised[MEMORY] // _GIB)
        yield SetFlag(flag="memory-total", value=f"{config.limits.memory_total.min}:{gib}")
    gpus = config.limits.gpu_total
    if any(one.gpu_type in raised for one in gpus):
        values = [f"{one.gpu_type}:{one.min}:{raised.get(one.gpu_type, one.max)}" for one in gpus]
        yield SetFlag(flag="gpu-total", value=values)


def _unhealthy(group: Group, p: EndedPass) -> Remedy:
    state = p.registry.groups[group.id]
    buckets = state.buckets
    missing = max(0, state.acceptable.min_nodes - len(buckets.ready) - len(buckets.suspended))
    if buckets.empty:
        text = f"none of the {state.acceptable.target} requested nodes has registered; it grows once one does"
        return remedy(Obstacle.GROUP_NOT_READY, CulpritKind.GROUP, group.id, text)
    changes = [SetFlag(flag="ok-total-unready-count", value=str(missing))]
    text = f"{missing} of its nodes are missing or not ready; it grows once fewer are, or with {spelled(changes)}"
    return remedy(Obstacle.GROUP_NOT_READY, CulpritKind.GROUP, group.id, text, changes)


def chosen_instead(group_id: str, options: Sequence[Option], config: Config) -> Remedy:
    """Return which expander would have taken the group, by figures if any would, else by rank."""
    names = list(config.scale_up.expander)
    supplies = ExpanderInputs(dice=dice(0), tie_break=TieBreak.STABLE, rules=config.rules)
    for name in _BY_FIGURES:
        if [name] == names:
            continue
        taken = build_chain((name,), supplies).choose(options).option
        if taken is not None and taken.group.id == group_id:
            changes: list[AnyChange] = [SetFlag(flag="expander", value=name)]
            break
    else:
        changes = [RankFirst(group=group_id)]
        if names[0] != "priority":
            changes.insert(0, SetFlag(flag="expander", value="priority"))
    text = f"its option was not chosen; it is chosen with {spelled(changes)}"
    return remedy(Obstacle.NOT_CHOSEN, CulpritKind.FLAG, "expander", text, changes)


def ranked_first(group_id: str) -> str:
    """Return the entry of the priority expander's ConfigMap that ranks a group above all others."""
    return f"100:\n  - ^{re.escape(group_id)}$\n1:\n  - .*\n"
