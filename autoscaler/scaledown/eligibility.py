"""Which nodes to simulate, in which order, and why the others stay.

All nodes are judged at once, from columns; only exceptional ones are examined one by one. The order of the rules is
Cluster Autoscaler's (`processors/nodes`, `core/scaledown/eligibility`).
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from autoscaler.config.rules import Rules
from autoscaler.objects.meta import UNDECODED
from autoscaler.objects.node import TO_BE_DELETED, Node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import BlockingReason, UnremovableNode, UnremovableReason
from autoscaler.scaledown.arrivals import Arrivals, arrived
from autoscaler.scaledown.cooldown import group_in_cooldown
from autoscaler.scaledown.drain import DrainContext, DrainOutcome, lingers
from autoscaler.scaledown.maintenance_windows import closed_for_s, windows_of
from autoscaler.scaledown.memory import ScaleDownMemory
from autoscaler.scaledown.plan import ScaleDownContext
from autoscaler.scaledown.protection import protected_node
from autoscaler.scaledown.removal_rank import removal_rank, same_rank
from autoscaler.scaledown.taints import being_deleted
from autoscaler.scaledown.utilization import UncountedPods, Utilization, utilization
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.contribution import gpu_resources
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.overlay import Trial
from cloudprovider.duration import show_duration

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


class Eligible(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to simulate, by position, in order; and why each other node stays."""

    order: tuple[int, ...]
    kept: dict[str, UnremovableNode]
    used: Utilization
    candidates: int
    arrivals: Arrivals
    """What the trial had placed on nodes of the view."""


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the groups say, by node; -1 in `codes` is no group."""

    codes: NDArray[np.int32]
    at_minimum: Mask
    cooling_down: Mask
    held: Mask
    threshold: NDArray[np.float64]
    gpu_threshold: NDArray[np.float64]
    ignores_daemonsets: Mask


def eligible(trial: Trial, situation: ScaleDownContext, memory: ScaleDownMemory, leaving: Mask) -> Eligible:
    """Sort the nodes of the view into those to simulate and those that stay; `leaving` are being removed."""
    facts = _facts(trial, situation)
    arrivals = arrived(trial)
    candidate, kept = _candidates(trial, situation, facts, leaving)
    count = int(np.count_nonzero(candidate))
    left_out = UncountedPods(
        facts.ignores_daemonsets,
        situation.options.ignore_mirror_pods_utilization,
        headroom=not situation.options.count_headroom_in_utilization,
    )
    gpus = gpu_resources(situation.rules)
    used = utilization(trial, arrivals, situation.now.wall, left_out, situation.groups.gpu_label, gpus)
    for position, unremovable in _single_reasons(trial, situation, memory, used, candidate):
        if candidate[position]:
            candidate[position] = False
            kept[unremovable.node] = unremovable
    _keep_used(trial, situation, facts, used, candidate, kept)
    return Eligible(
        order=_ordered(trial, situation, memory, candidate, arrivals),
        kept=kept,
        used=used,
        candidates=count,
        arrivals=arrivals,
    )


def _facts(trial: Trial, situation: ScaleDownContext) -> _Facts:
    groups, options = situation.groups, situation.options
    index = {group.id: number for number, group in enumerate(groups.all)}
    owner_of = groups.of_node
    codes = np.fromiter(
        (index.get(owner_of.get(node.name, ""), -1) for node in trial.view.nodes), dtype=np.int32, count=trial.base
    )

    def spread(values: Iterable[float]) -> NDArray[np.float64]:
        """Give each node its group's value; nodes of no group get the last one, which nothing reads."""
        return np.fromiter((*values, 0.0), dtype=np.float64)[codes]

    def own_or_flag(own: float | None, flag: float) -> float:
        return flag if own is None else own

    every, settings = groups.all, [group.settings for group in groups.all]
    return _Facts(
        codes=codes,
        at_minimum=spread(float(group.target_size <= group.min_size) for group in every) > 0,
        cooling_down=spread(float(_cooling_down(group, situation)) for group in every) > 0,
        held=spread(float(own.scale_down_enabled is False) for own in settings) > 0,
        threshold=spread(
            own_or_flag(own.scale_down_utilization_threshold, options.scale_down_utilization_threshold)
            for own in settings
        ),
        gpu_threshold=spread(
            own_or_flag(own.scale_down_gpu_utilization_threshold, options.scale_down_gpu_utilization_threshold)
            for own in settings
        ),
        ignores_daemonsets=spread(
            own_or_flag(own.ignore_daemonsets_utilization, options.ignore_daemonsets_utilization) for own in settings
        )
        > 0,
    )


def _cooling_down(group: Group, situation: ScaleDownContext) -> bool:
    return group_in_cooldown(situation.last_by_group.get(group.id), situation.options, situation.now)


def _candidates(
    trial: Trial, situation: ScaleDownContext, facts: _Facts, leaving: Mask
) -> tuple[Mask, dict[str, UnremovableNode]]:
    """Return the nodes of groups that may shrink, and why others stay, where rules want a reason for those too."""
    present: Mask = trial.alive[: trial.base]
    managed = facts.codes >= 0
    going = (UnremovableReason.BEING_DELETED, leaving)
    rejected = (
        (UnremovableReason.NOT_STARTED, ~present),
        (UnremovableReason.NOT_AUTOSCALED, ~managed),
        (UnremovableReason.MIN_SIZE, facts.at_minimum),
        (UnremovableReason.GROUP_COOLING_DOWN, facts.cooling_down),
        (UnremovableReason.GROUP_HELD, facts.held),
    )
    candidate = np.ones(trial.base, dtype=np.bool_)
    kept: dict[str, UnremovableNode] = {}
    always = situation.rules.reason_for_every_node
    for reason, mask in (going, *rejected) if always else (*rejected, going):
        if always or reason is UnremovableReason.BEING_DELETED:
            for position in np.flatnonzero(candidate & mask).tolist():
                name = trial.view.nodes[position].name
                kept[name] = UnremovableNode(name, reason)
        candidate &= ~mask
    positions = trial.view.positions
    for name, unremovable in situation.reserved_nodes.items():
        if name in positions:
            candidate[positions[name]] = False
            kept[name] = unremovable
    return candidate, kept


def _ordered_to_stay(node: Node, rules: Rules, *, urgent: bool = False) -> UnremovableNode | None:
    """Return why a node stays by an annotation of its own."""
    if UNDECODED in node.annotations:
        return UnremovableNode(node.name, UnremovableReason.UNDECODED)
    if node.annotations.get(SCALE_DOWN_DISABLED) == "true":
        return UnremovableNode(node.name, UnremovableReason.DISABLED)
    return protected_node(node) if rules.do_not_disrupt_counts and not urgent else None


def _undecoded_pods(trial: Trial) -> Iterator[tuple[int, UnremovableNode]]:
    """Yield why nodes with pods that cannot be decoded stay: what these request is unknown."""
    view = trial.view
    classes = [number for number, cls in enumerate(view.classes) if cls.undecoded]
    for position in np.unique(view.pod_nodes[np.isin(view.pod_classes, classes)]).tolist() if classes else ():
        key = next(pod.key for pod in view.pods[position] if pod.cls.undecoded)
        yield (
            position,
            UnremovableNode(
                view.nodes[position].name, UnremovableReason.BLOCKED_BY_POD, "", key, BlockingReason.UNDECODED
            ),
        )


def gone_blocker(trial: Trial, situation: ScaleDownContext, position: int) -> UnremovableNode | None:
    """Return why a node is not for this autoscaler to remove, even if its machine leaves."""
    node = trial.view.nodes[position]
    if node.name in situation.under_way.nodes or being_deleted(node, situation.now.wall):
        return UnremovableNode(node.name, UnremovableReason.BEING_DELETED)
    if not trial.alive[position]:
        return UnremovableNode(node.name, UnremovableReason.NOT_STARTED)
    if situation.groups.get(situation.groups.of_node.get(node.name, "")) is None:
        return UnremovableNode(node.name, UnremovableReason.NOT_AUTOSCALED)
    return None


def replacement_blocker(
    trial: Trial, situation: ScaleDownContext, position: int, *, urgent: bool = False
) -> UnremovableNode | None:
    """Return why a node may not go even if others come in its place: what does not depend on whether it is needed.

    `urgent`: its machine is failing.
    """
    node, reading = trial.view.nodes[position], situation.readings.items[position]
    if (gone := gone_blocker(trial, situation, position)) is not None:
        return gone
    group = situation.groups.by_id[situation.groups.of_node[node.name]]
    if (stays := _ordered_to_stay(node, situation.rules, urgent=urgent)) is not None:
        return stays
    if group.settings.scale_down_enabled is False:
        return UnremovableNode(node.name, UnremovableReason.GROUP_HELD)
    if group.settings.zero_or_max_node_scaling:
        return UnremovableNode(node.name, UnremovableReason.ATOMIC, "its group goes as a whole or not at all")
    closed_s = closed_for_s(windows_of(situation.options.scale_down_window, group.id), situation.now.wall)
    if closed_s > 0:
        return UnremovableNode(
            node.name, UnremovableReason.OUTSIDE_WINDOW, f"the next window opens in {show_duration(round(closed_s))}"
        )
    if not reading.readiness.ready and not situation.options.scale_down_unready_enabled:
        return UnremovableNode(node.name, UnremovableReason.UNREADY_DISABLED)
    return None


def _single_reasons(
    trial: Trial, situation: ScaleDownContext, memory: ScaleDownMemory, used: Utilization, candidate: Mask
) -> Iterator[tuple[int, UnremovableNode]]:
    """Yield why single nodes stay, more important reasons first."""
    nodes = trial.view.nodes
    yield from _remembered_reasons(trial, situation, memory)
    for position in _tainted(trial, TO_BE_DELETED):
        if being_deleted(nodes[position], situation.now.wall):
            yield position, UnremovableNode(nodes[position].name, UnremovableReason.BEING_DELETED)
    for position, node in enumerate(nodes):
        if (stays := _ordered_to_stay(node, situation.rules)) is not None:
            yield position, stays
    yield from _undecoded_pods(trial)
    yield from _unmeasured(trial, situation, used, candidate)
    if not situation.options.scale_down_unready_enabled:
        for position, reading in enumerate(situation.readings.items):
            if not reading.readiness.ready:
                yield position, UnremovableNode(reading.node.name, UnremovableReason.UNREADY_DISABLED)


def _remembered_reasons(
    trial: Trial, situation: ScaleDownContext, memory: ScaleDownMemory
) -> Iterator[tuple[int, UnremovableNode]]:
    """Yield why earlier passes found single nodes unremovable."""
    for name, recent in memory.unremovable.items():
        position = trial.view.positions.get(name)
        if position is None:
            continue
        if recent.reason is UnremovableReason.REFUSED:
            left_s = recent.until.mono - situation.now.mono
            yield position, UnremovableNode(name, UnremovableReason.REFUSED, recent.detail, time_left_s=left_s)
            continue
        detail = f"{recent.reason}: {recent.detail}" if recent.detail else recent.reason.value
        pod, pod_reason = recent.pod, recent.pod_reason
        yield position, UnremovableNode(name, UnremovableReason.RECENTLY_UNREMOVABLE, detail, pod, pod_reason)


def _unmeasured(
    trial: Trial, situation: ScaleDownContext, used: Utilization, candidate: Mask
) -> Iterator[tuple[int, UnremovableNode]]:
    """Yield the nodes whose utilization cannot be computed."""
    nodes = trial.view.nodes
    if not situation.rules.unmeasured_node_is_unused:
        detail = "the node does not say how much CPU or memory it has"
        for position in np.flatnonzero(candidate & used.unknown).tolist():
            yield position, UnremovableNode(nodes[position].name, UnremovableReason.UNEXPECTED, detail)
    for position, use in used.devices.items():
        if use.unreadable:
            yield position, UnremovableNode(nodes[position].name, UnremovableReason.UNEXPECTED, use.unreadable)


def _tainted(trial: Trial, key: str) -> list[int]:
    """Return the nodes with a hard taint of this key."""
    per_code = np.array([any(taint.key == key for taint in taints) for taints in trial.vocabulary.taints])
    if not per_code.any():
        return []
    positions: list[int] = np.flatnonzero(per_code[trial.view.columns.taint_codes]).tolist()
    return positions


def _keep_used(
    trial: Trial,
    situation: ScaleDownContext,
    facts: _Facts,
    used: Utilization,
    candidate: Mask,
    kept: dict[str, UnremovableNode],
) -> None:
    """Take nodes that are used above their threshold off the candidates."""
    threshold = np.where(used.gpu, facts.gpu_threshold, facts.threshold)
    over = used.share >= threshold if situation.rules.node_at_threshold_is_needed else used.share > threshold
    used_nodes = np.flatnonzero(candidate & over)
    details: dict[tuple[str, int, float], str] = {}
    for position, share, limit in zip(
        used_nodes.tolist(), used.share[used_nodes].tolist(), threshold[used_nodes].tolist(), strict=True
    ):
        figures = used.resource(position), round(share * 100), limit
        detail = details.get(figures)
        if detail is None:
            resource, percent, _ = figures
            detail = details[figures] = f"{percent}% of its {resource} is requested, the threshold is {limit:.0%}"
        name = trial.view.nodes[position].name
        kept[name] = UnremovableNode(name, UnremovableReason.NOT_UNDERUTILIZED, detail, None, None, share)
    candidate &= ~over


def _ordered(
    trial: Trial, situation: ScaleDownContext, memory: ScaleDownMemory, candidate: Mask, arrivals: Arrivals
) -> tuple[int, ...]:
    """Return the candidates: empty nodes first, then those that were unneeded before, then costly ones, else as listed.

    Among empty nodes, those with pods that must run to their end come last.
    """
    nodes, before = trial.view.nodes, memory.unneeded
    terms = DrainContext(options=situation.drain, rules=situation.rules, wall=situation.now.wall)
    groups, items = situation.groups, situation.readings.items
    rank = removal_rank(groups.by_id, situation.now.wall) if situation.rules.costly_nodes_go_first else same_rank
    ranked = []
    for position in np.flatnonzero(candidate).tolist():
        node, pods = nodes[position], arrivals.together(position, trial.view.pods[position])
        occupied, waiting = _weight(pods, terms)
        costly = rank(node, groups.of_node[node.name], items[position].readiness.ready, len(pods) if occupied else 0)
        ranked.append((occupied, waiting, node.name not in before, *costly, position))
    return tuple(int(key[-1]) for key in sorted(ranked))


def _weight(pods: Sequence[Pod], terms: DrainContext) -> tuple[bool, bool]:
    """Return whether pods would have to move, or keep the node, and whether some would be waited for."""
    waiting = False
    for pod in pods:
        verdict = lingers(pod, terms)
        if verdict is None:
            return True, False
        waiting = waiting or verdict.outcome is DrainOutcome.WAIT
    return False, waiting
