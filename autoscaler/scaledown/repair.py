"""Which nodes are unhealthy, for how long, and whether so few of them are that replacing them helps.

Many unhealthy nodes at once have a cause that new nodes would share: a network, a zone, a broken image, or a control
plane that no longer hears from kubelets. The guard counts every node that has an unhealthy condition, however short,
and lets no repair begin or go on while it finds too many in the cluster, in the node's group, or in its zone.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from autoscaler.clock import Instant
from autoscaler.config.repair import CLOUD_HEALTH, IMPAIRED, RepairPolicy
from autoscaler.objects.meta import unix_seconds
from autoscaler.objects.node import Node, NodeCondition
from autoscaler.reasons import ReplacementHold, ReplacementTrigger
from autoscaler.scaledown.replacement import HeldBack, ReplacementMemory
from autoscaler.scaledown.replacement_cause import Cause, CauseContext
from autoscaler.snapshot.groups import Groups
from cloudprovider.duration import show_duration


class Ailment(NamedTuple):
    """An unhealthy condition of a node."""

    node: Node
    group: str
    policy: RepairPolicy
    condition: NodeCondition

    @property
    def key(self) -> str:
        """What it is remembered by if it does not tell its time."""
        return f"{self.node.uid or self.node.name}/{self.policy.condition}={self.policy.status}"


def unhealthy(context: CauseContext) -> Iterator[Cause]:
    """Yield the nodes that have been unhealthy for longer than tolerated, the longest overdue first."""
    found = list(ailments(context))
    if not found:
        return
    guard = _Guard(context, {ailment.node.name for ailment in found})
    overdue = []
    for ailment in found:
        since = _since(ailment, context.now, context.memory)
        over_s = context.now.wall - since.wall - ailment.policy.tolerated_s
        if over_s > 0:
            overdue.append((-over_s, ailment.node.name, ailment, since.later(ailment.policy.tolerated_s)))
    for _, _, ailment, due in sorted(overdue, key=lambda entry: entry[:2]):
        yield Cause(
            trigger=ReplacementTrigger.UNHEALTHY,
            node=ailment.node,
            detail=_told(ailment),
            since=due,
            limit=context.config.repair.max_node_repairs,
            forced=True,
            held=guard.held(ailment),
        )


def sightings(context: CauseContext) -> Mapping[str, Instant]:
    """Return since when unhealthy conditions that do not tell their time have been seen, for the next pass."""
    return {
        ailment.key: context.memory.first_seen.get(ailment.key, context.now)
        for ailment in ailments(context)
        if ailment.condition.last_transition_time is None
    }


def ailments(context: CauseContext) -> Iterator[Ailment]:
    """Yield every unhealthy condition of the autoscaled nodes, however short."""
    options, groups = context.config.repair, context.view.groups
    if not options.node_repair_policy:
        return
    policies = {group.id: options.policies_of(group.id) for group in groups.all}
    impaired = _impaired(groups) if any(p.condition == CLOUD_HEALTH for p in options.node_repair_policy) else {}
    for node in context.view.nodes:
        group = groups.of_node.get(node.name, "")
        for policy in policies.get(group, ()):
            condition = (
                impaired.get(node.provider_id) if policy.condition == CLOUD_HEALTH else node.condition(policy.condition)
            )
            if condition is not None and condition.status == policy.status:
                yield Ailment(node, group, policy, condition)


def _impaired(groups: Groups) -> dict[str, NodeCondition]:
    """Return what the cloud says of machines that it holds for unhealthy, as conditions, by provider id."""
    return {
        instance.provider_id: NodeCondition(CLOUD_HEALTH, IMPAIRED, instance.impaired)
        for group in groups.all
        for instance in group.instances
        if instance.impaired
    }


def _since(ailment: Ailment, now: Instant, memory: ReplacementMemory) -> Instant:
    time = ailment.condition.last_transition_time
    if time is None:
        return memory.first_seen.get(ailment.key, now)
    return now.later(min(0.0, unix_seconds(time) - now.wall))


def _told(ailment: Ailment) -> str:
    reason = f" ({ailment.condition.reason})" if ailment.condition.reason else ""
    policy = ailment.policy
    return f"{policy.condition}={policy.status}{reason} for more than {show_duration(policy.tolerated_s)}"


class _Guard:
    """How many nodes are unhealthy in the cluster, in each group, and in each zone."""

    def __init__(self, context: CauseContext, sick: set[str]) -> None:
        groups, nodes = context.view.groups, context.view.nodes
        self._share = context.config.repair.node_repair_max_unhealthy_percentage / 100.0
        self._silent = context.silent_s
        self._all = Counter(scope for node in nodes for scope in _scopes(node, groups))
        self._sick = Counter(scope for node in nodes if node.name in sick for scope in _scopes(node, groups))
        self._lost = Counter(scope for node in nodes if _unreachable(node) for scope in _scopes(node, groups))
        self._groups = groups

    def held(self, ailment: Ailment) -> HeldBack | None:
        """Return why the node must not be repaired now."""
        if self._silent:
            path = max(self._silent, key=lambda path: self._silent[path])
            return HeldBack(ReplacementHold.API_SILENT, f"the API server has not mentioned {path} for too long")
        for scope in _scopes(ailment.node, self._groups):
            count, sick = self._all[scope], self._sick[scope]
            if count > 1 and self._lost[scope] == count:
                return HeldBack(ReplacementHold.ALL_UNREACHABLE, f"all {count} nodes of {scope}")
            if sick > math.ceil(self._share * count):
                detail = f"{sick} of {count} nodes of {scope} are unhealthy, more than {self._share:.0%}"
                return HeldBack(ReplacementHold.TOO_MANY_UNHEALTHY, detail)
        return None


def _scopes(node: Node, groups: Groups) -> Iterator[str]:
    yield "the cluster"
    if node.name in groups.of_node:
        yield f"group {groups.of_node[node.name]}"
    if node.zone is not None:
        yield f"zone {node.zone}"


def _unreachable(node: Node) -> bool:
    ready = node.condition("Ready")
    return ready is not None and ready.status == "Unknown"
