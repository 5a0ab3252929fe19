"""Explains a node: why it stays or is removed, and what will change with time."""

from autoscaler.clock import Instant
from autoscaler.config.scaledown import ScaleDown
from autoscaler.config.tree import Config
from autoscaler.explain.answer import ExplainedReplacement, NodeExplanation, NodeVerdict
from autoscaler.explain.remedies.nodes import NodeCase
from autoscaler.explain.remedies.pods import shortlist
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.node import Node
from autoscaler.observe.node_summary import NodeFates, node_statuses
from autoscaler.observe.reason_table import TABLE
from autoscaler.reasons import ReplacementStage, ScaleDownResult, UnremovableNode, UnremovableReason
from autoscaler.registry.memory import LastActions
from autoscaler.scaledown.cooldown import group_in_cooldown, in_cooldown
from autoscaler.scaledown.deletions import wait_s
from autoscaler.scaledown.plan import Removal
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Group


def explain_node(target: str, node: Node, p: EndedPass, view: ClusterView, config: Config) -> NodeExplanation:
    """Explain one node of the view."""
    report, name = p.report, node.name
    removal = next((one for one in report.scale_down.unneeded if one.node.name == name), None)
    kept, owner = report.scale_down.unremovable.get(name), view.groups.of_node.get(name)
    group = None if owner is None else view.groups.get(owner)
    begun = any(one.node.name == name for one in report.scale_down.begun)
    verdict = _verdict(begun, removal, kept)
    since = unneeded_since(p, name) if removal is not None else None
    result = report.scale_down.result or ScaleDownResult.NOT_TRIED
    share = removal.utilization if removal is not None else None if kept is None else kept.utilization
    left_s = None if begun else time_left_s(p, config.scale_down, removal, kept, group, name)
    case = NodeCase(name, removal, kept, group, left_s, p, config)
    remedies = [] if verdict is NodeVerdict.REMOVED else shortlist(case.remedies())
    return NodeExplanation(
        target=target,
        verdict=verdict,
        message=_message(verdict, kept, result),
        group=owner,
        state="" if report.registry is None else _state(p, view, name),
        reason=None if kept is None else kept.reason,
        detail="" if kept is None else kept.detail,
        pod=None if kept is None else kept.pod,
        pod_reason=None if kept is None else kept.pod_reason,
        utilization=share,
        unneeded_since=None if since is None else rfc3339(report.now.wall - (report.now.mono - since.mono)),
        time_left_s=left_s,
        pods_to_move=[] if removal is None else sorted(pod.key for pod in removal.pods),
        replacement=_replacement(p, name),
        scale_down_result=result.value,
        remedy=remedies[0] if remedies else None,
        alternatives=remedies[1:],
    )


def _verdict(begun: bool, removal: Removal | None, kept: UnremovableNode | None) -> NodeVerdict:
    if begun or (kept is not None and kept.reason is UnremovableReason.BEING_DELETED):
        return NodeVerdict.REMOVED
    if removal is not None:
        return NodeVerdict.UNNEEDED
    return NodeVerdict.NOT_JUDGED if kept is None else NodeVerdict.STAYS


def _message(verdict: NodeVerdict, kept: UnremovableNode | None, result: ScaleDownResult) -> str:
    if verdict is NodeVerdict.REMOVED:
        return "is being removed"
    if kept is not None:
        return TABLE[UnremovableReason][kept.reason].text
    how = TABLE[ScaleDownResult][result].text
    return f"unneeded; {how}" if verdict is NodeVerdict.UNNEEDED else f"scale-down has not evaluated it; {how}"


def _state(p: EndedPass, view: ClusterView, name: str) -> str:
    statuses = node_statuses(view, p.registry, NodeFates())
    return next(one.state.value for one in statuses if one.name == name)


def unneeded_since(p: EndedPass, name: str) -> Instant | None:
    """Return since when nobody needs the node; None where it is needed, or was not judged."""
    memory = p.memory.scale_down
    return None if memory is None else memory.unneeded.get(name)


def _replacement(p: EndedPass, name: str) -> ExplainedReplacement | None:
    one = next((one for one in p.report.replacements.all if name in one.nodes), None)
    rest = p.report.replacements.held.get(name)
    if one is None:
        if rest is None:
            return None
        left_s = max(0.0, rest.until.mono - p.report.now.mono)
        return ExplainedReplacement(
            stage=ReplacementStage.PROPOSED, nodes=[name], hold=rest.hold, detail=rest.detail, left_s=left_s
        )
    return ExplainedReplacement(
        stage=one.stage,
        trigger=one.trigger,
        nodes=list(one.nodes),
        bought={purchase.group: purchase.count for purchase in one.bought},
        hold=one.hold,
        detail=one.detail,
        price_before=one.price_before,
        price_after=one.price_after,
    )


def time_left_s(
    p: EndedPass,
    options: ScaleDown,
    removal: Removal | None,
    kept: UnremovableNode | None,
    group: Group | None,
    name: str,
) -> float | None:
    """Return how long until the node may go, or is looked at again: the longest of what it waits for."""
    now, memory = p.report.now, p.memory.scale_down
    ends = [] if kept is None or kept.time_left_s is None else [now.mono + kept.time_left_s]
    if removal is not None and group is not None:
        since = unneeded_since(p, name)
        ends.append((now if since is None else since).mono + wait_s(removal, group, options))
        if p.report.scale_down.result is ScaleDownResult.IN_COOLDOWN:
            ends.append(_cooled_down(p.memory.registry.last, options, now))
    elif kept is not None and memory is not None and name in memory.unremovable:
        ends.append(memory.unremovable[name].until.mono)
    elif kept is not None and kept.reason is UnremovableReason.GROUP_COOLING_DOWN and group is not None:
        last = p.memory.registry.last_by_group.get(group.id)
        ends.append(now.mono if last is None else _cooled_down(last, options, now))
    left_s = max(ends, default=now.mono) - now.mono
    return round(left_s, 3) if left_s > 0 else None


def _cooled_down(last: LastActions, options: ScaleDown, now: Instant) -> float:
    """Return when (monotonic seconds) the delays after what happened last are over."""
    times = [time.mono for time in (last.scale_up, last.scale_down, last.scale_down_failure) if time is not None]
    delays = (
        options.scale_down_delay_after_add_s,
        options.scale_down_delay_after_delete_s,
        options.scale_down_delay_after_failure_s,
    )
    for end in sorted(time + delay_s for time in times for delay_s in delays):
        then = Instant(now.wall, end)
        if end >= now.mono and not (in_cooldown(last, options, then) or group_in_cooldown(last, options, then)):
            return end
    return now.mono
