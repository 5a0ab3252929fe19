"""Selects the unneeded nodes to remove now.

Behaviour as Cluster Autoscaler's `core/scaledown/unneeded` and `processors/nodes`: long enough unneeded, group above
its minimum, resources above theirs, groups that go as a whole complete, and all of it within the budgets. Maintenance
windows, pauses and limits on the rate of removals are ours.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from autoscaler.config.disruption_budgets import EMPTY, UNNEEDED
from autoscaler.config.scaledown import ScaleDown
from autoscaler.reasons import PauseScope, UnremovableNode, UnremovableReason
from autoscaler.scaledown.deletion_budget import within_budgets
from autoscaler.scaledown.disruption_limits import DisruptionLimits
from autoscaler.scaledown.maintenance_windows import closed_for_s, windows_of
from autoscaler.scaledown.pause import kept_by_pause
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.plan import NodesToDelete, Removal, ScaleDownContext, UnneededNodes
from autoscaler.scaledown.removal_rank import removal_rank, same_rank
from autoscaler.scaledown.removal_rates import Rates
from autoscaler.scaledown.resource_minimums import Reserve
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.overlay import Trial
from cloudprovider.duration import show_duration


def plan_deletions(
    update: UnneededNodes, trial: Trial, situation: ScaleDownContext, replaced: Sequence[Removal] = ()
) -> NodesToDelete:
    """Return which replaced and which unneeded nodes go now, in this order, and why all other nodes stay.

    `trial` is the one of the update: it has the nodes of the cluster, upcoming ones included.
    """
    kept = dict(update.kept)
    choice = _Choice(update, trial, situation)
    due: list[Removal] = []
    lost = [removal for removal in replaced if removal.leave_by is not None]
    for removal in lost:
        choice.take(removal)
    for removal in (*(removal for removal in replaced if removal.leave_by is None), *choice.in_order()):
        reason = choice.reason_to_stay(removal)
        if reason is None:
            due.append(removal)
        else:
            kept[removal.node.name] = reason
    complete = []
    for removal, reason in choice.without_incomplete(due):
        if reason is None:
            complete.append(removal)
        elif situation.rules.reason_for_every_node or reason.reason is not UnremovableReason.ATOMIC:
            kept[removal.node.name] = reason
    empty = [removal for removal in complete if not removal.drained]
    drained = [removal for removal in complete if removal.drained]
    if not situation.rules.costly_nodes_go_first:
        empty, drained = _by_group(empty), _by_group(drained)
    options = situation.options
    rates = Rates(options.max_node_deletions_per_minute, update.memory, situation.now)
    disruptions = _disruptions_left(trial, situation)
    started = within_budgets(empty, drained, options, situation.under_way, rates, disruptions, choice.is_atomic)
    for name, unremovable in started.kept.items():
        if situation.rules.reason_for_every_node or unremovable.reason is not UnremovableReason.MAX_DELETIONS:
            kept[name] = unremovable
    return NodesToDelete(
        empty=(*(removal for removal in lost if not removal.drained), *started.empty),
        drained=(*(removal for removal in lost if removal.drained), *started.drained),
        kept=kept,
    )


def _disruptions_left(trial: Trial, situation: ScaleDownContext) -> RemainingPdbTracker:
    """Return what disruption budgets leave once the pods on nodes being removed are evicted."""
    if not situation.rules.drains_are_independent:
        return RemainingPdbTracker()
    left = RemainingPdbTracker(trial.view.related.budgets.values())
    for name in sorted(situation.under_way.nodes):
        pods = (pod for pod in trial.view.pods_on(name) if pod.deleted is None)
        left.take([pod for pod in pods if not (pod.cls.daemonset or pod.cls.mirror)])
    return left


def wait_s(removal: Removal, group: Group, options: ScaleDown) -> float:
    """Return how long the node has to be unneeded: the flag's time, unless its group has one of its own."""
    own = group.settings
    flag_s, own_s = (
        (options.scale_down_unneeded_time_s, own.scale_down_unneeded_time_s)
        if removal.ready
        else (options.scale_down_unready_time_s, own.scale_down_unready_time_s)
    )
    return flag_s if own_s is None else own_s


DeletionRule = Callable[[Removal, Group], UnremovableNode | None]
"""None: nothing keeps the node."""


class _Choice:
    """Rules that keep nodes, asked in order, and what shrinks as nodes are accepted: sizes and resources."""

    def __init__(self, update: UnneededNodes, trial: Trial, situation: ScaleDownContext) -> None:
        self._update = update
        self._situation = situation
        self._groups = situation.groups.by_id
        self._sizes = {group.id: group.target_size for group in situation.groups.all}
        self._reserve = Reserve(trial, situation)
        self._trial = trial
        self._closed_for_s: dict[str, float] = {}
        self._disruptions = DisruptionLimits(
            situation.disruption_budgets, trial.view, situation.disrupted, situation.now.wall
        )
        self._rules: tuple[DeletionRule, ...] = (
            self._too_early,
            self._paused,
            self._outside_windows,
            self._at_minimum,
            self._scarce,
            self._over_budget,
        )

    def in_order(self) -> Sequence[Removal]:
        """Return empty nodes, then those to drain, those that budgets let go at once first.

        Among these, costly nodes go first, and then the longest unneeded.
        """
        since = self._update.memory.unneeded
        situation = self._situation
        rank = removal_rank(self._groups, situation.now.wall) if situation.rules.costly_nodes_go_first else same_rank

        def key(removal: Removal) -> tuple[Any, ...]:
            costly = rank(removal.node, removal.group, removal.ready, len(removal.pods))
            return removal.drained, removal.drained and removal.risky, *costly, since[removal.node.name].mono

        return sorted(self._update.unneeded, key=key)

    def reason_to_stay(self, removal: Removal) -> UnremovableNode | None:
        """Accept a node, or return why it stays."""
        group = self._groups[removal.group]
        for rule in self._rules:
            kept = rule(removal, group)
            if kept is not None:
                return kept
        self.take(removal)
        return None

    def take(self, removal: Removal) -> None:
        """Accept a node without asking the rules: its machine leaves anyway."""
        group = self._groups[removal.group]
        self._reserve.take(removal.node, group)
        self._sizes[group.id] -= 1
        if not removal.replaced:
            self._disruptions.take((removal.node.name,), UNNEEDED if removal.drained else EMPTY)

    def _too_early(self, removal: Removal, group: Group) -> UnremovableNode | None:
        if removal.replaced:
            return None
        waited_s = self._situation.now.mono - self._update.memory.unneeded[removal.node.name].mono
        due_s = wait_s(removal, group, self._situation.options)
        if waited_s > due_s:
            return None
        reason = (
            UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH if removal.ready else UnremovableReason.NOT_UNREADY_LONG_ENOUGH
        )
        return _kept(removal, reason, f"unneeded for {waited_s:.0f}s of {due_s:.0f}s", due_s - waited_s)

    def _paused(self, removal: Removal, group: Group) -> UnremovableNode | None:
        if removal.replaced:  # its replacement has asked, for its own reason
            return None
        scope = PauseScope.DISRUPTION if removal.drained else PauseScope.SCALE_DOWN
        now = self._situation.now
        kept = kept_by_pause(self._situation.pauses, scope, removal.node, group.id, now.wall)
        return None if kept is None else replace(kept, utilization=removal.utilization)

    def _outside_windows(self, removal: Removal, group: Group) -> UnremovableNode | None:
        left_s = self._closed_for_s.get(group.id)
        if left_s is None:
            windows = windows_of(self._situation.options.scale_down_window, group.id)
            left_s = self._closed_for_s[group.id] = closed_for_s(windows, self._situation.now.wall)
        if left_s <= 0:
            return None
        return _kept(
            removal,
            UnremovableReason.OUTSIDE_WINDOW,
            f"the next window opens in {show_duration(round(left_s))}",
            left_s,
        )

    def _at_minimum(self, removal: Removal, group: Group) -> UnremovableNode | None:
        if self._sizes[group.id] - self._situation.under_way.count_in(group.id) > group.min_size:
            return None
        return _kept(
            removal, UnremovableReason.MIN_SIZE, f"group {group.id} would have fewer than {group.min_size} nodes"
        )

    def _scarce(self, removal: Removal, group: Group) -> UnremovableNode | None:
        scarce = self._reserve.scarce_without(removal.node, group)
        if scarce is None:
            return None
        return _kept(removal, UnremovableReason.MINIMAL_RESOURCES, f"too little {scarce} would remain")

    def _over_budget(self, removal: Removal, group: Group) -> UnremovableNode | None:
        if removal.replaced:
            return None
        blocker = self._disruptions.blocker((removal.node.name,), UNNEEDED if removal.drained else EMPTY)
        return _kept(removal, UnremovableReason.DISRUPTION_BUDGET, blocker) if blocker else None

    def without_incomplete(self, due: Sequence[Removal]) -> Iterator[tuple[Removal, UnremovableNode | None]]:
        """Yield nodes with why they stay after all: part of a group that goes as a whole, or pods to wait for.

        Single nodes come first.
        """
        together: dict[str, list[Removal]] = {}
        for removal in due:
            if removal.atomic:
                together.setdefault(removal.group, []).append(removal)
            else:
                yield removal, _waiting(removal)
        for group, members in together.items():
            whole = self.is_atomic(group, len(members))
            detail = f"all of group {group} must go at once, {len(members)} of its nodes can"
            for member in members:
                yield member, _waiting(member) if whole else _kept(member, UnremovableReason.ATOMIC, detail)

    def is_atomic(self, group_id: str, count: int) -> bool:
        """Whether this many nodes are all that were requested for a group or, by a rule, all that have registered."""
        if count == self._groups[group_id].target_size:
            return True
        if not self._situation.rules.atomic_scale_down_registered_size:
            return False
        owner_of = self._situation.groups.of_node
        nodes = self._trial.view.nodes
        present = np.flatnonzero(self._trial.alive[: self._trial.base]).tolist()
        return count == sum(1 for position in present if owner_of.get(nodes[position].name) == group_id)


def _kept(
    removal: Removal, reason: UnremovableReason, detail: str, time_left_s: float | None = None
) -> UnremovableNode:
    return UnremovableNode(removal.node.name, reason, detail, None, None, removal.utilization, time_left_s)


def _waiting(removal: Removal) -> UnremovableNode | None:
    if not removal.wait_for:
        return None
    pod = removal.wait_for[0]
    detail = f"{len(removal.wait_for)} pods have to run to their end first"
    return UnremovableNode(
        removal.node.name, UnremovableReason.ON_COMPLETION, detail, pod.key, None, removal.utilization
    )


def _by_group(removals: Iterable[Removal]) -> list[Removal]:
    """Return removals group after group, groups in order of their first node."""
    groups: dict[str, list[Removal]] = {}
    for removal in removals:
        groups.setdefault(removal.group, []).append(removal)
    return [member for members in groups.values() for member in members]
