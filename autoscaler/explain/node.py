"""Explains a node: why it stays or is removed, and what time will change."""

import msgspec

from autoscaler.explain.answer import ExplainedReplacement, NodeExplanation, NodeVerdict
from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.effort import shortlist
from autoscaler.explain.remedies.nodes import NodeCase, node_remedies
from autoscaler.explain.time_left import time_left_s, unneeded_since
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.node import Node
from autoscaler.observe.node_summary import NodeVerdicts, node_statuses
from autoscaler.observe.reason_table import TABLE
from autoscaler.reasons import ReplacementStage, ScaleDownResult, UnremovableNode, UnremovableReason
from autoscaler.scaledown.plan import Removal


def explain_node(target: str, node: Node, ended: ExplainedPass) -> NodeExplanation:
    """Explain one node of the view."""
    report, view, name = ended.report, ended.view, node.name
    removal = next((removal for removal in report.scale_down.unneeded if removal.node.name == name), None)
    unremovable, owner = report.scale_down.unremovable.get(name), view.groups.of_node.get(name)
    group = None if owner is None else view.groups.get(owner)
    begun = any(removal.node.name == name for removal in report.scale_down.begun)
    verdict = _verdict(begun, removal, unremovable)
    since = unneeded_since(ended, name) if removal is not None else None
    result = report.scale_down.result or ScaleDownResult.NOT_TRIED
    left_s = None if begun else time_left_s(ended, removal, unremovable, group, name)
    case = NodeCase(name=name, removal=removal, unremovable=unremovable, group=group, time_left_s=left_s, ended=ended)
    remedies = [] if verdict is NodeVerdict.REMOVED else shortlist(node_remedies(case))
    answer = NodeExplanation(
        target=target,
        verdict=verdict,
        message=_message(verdict, unremovable, result),
        group=owner,
        state="" if report.registry is None else _state(ended, name),
        utilization=None if removal is None else removal.utilization,
        unneeded_since=None if since is None else rfc3339(report.now.wall - (report.now.mono - since.mono)),
        time_left_s=left_s,
        pods_to_move=[] if removal is None else sorted(pod.key for pod in removal.pods),
        replacement=_replacement(ended, name),
        scale_down_result=result.value,
        remedy=remedies[0] if remedies else None,
        alternatives=remedies[1:],
    )
    if unremovable is None:
        return answer
    return msgspec.structs.replace(
        answer,
        reason=unremovable.reason,
        detail=unremovable.detail,
        pod=unremovable.pod,
        pod_reason=unremovable.pod_reason,
        utilization=unremovable.utilization if answer.utilization is None else answer.utilization,
    )


def _verdict(begun: bool, removal: Removal | None, unremovable: UnremovableNode | None) -> NodeVerdict:
    if begun or (unremovable is not None and unremovable.reason is UnremovableReason.BEING_DELETED):
        return NodeVerdict.REMOVED
    if removal is not None:
        return NodeVerdict.UNNEEDED
    return NodeVerdict.NOT_JUDGED if unremovable is None else NodeVerdict.STAYS


def _message(verdict: NodeVerdict, unremovable: UnremovableNode | None, result: ScaleDownResult) -> str:
    if verdict is NodeVerdict.REMOVED:
        return "is being removed"
    if unremovable is not None:
        return TABLE[UnremovableReason][unremovable.reason].text
    how = TABLE[ScaleDownResult][result].text
    return f"Unneeded. {how}" if verdict is NodeVerdict.UNNEEDED else f"Scale-down has not evaluated it. {how}"


def _state(ended: ExplainedPass, name: str) -> str:
    statuses = node_statuses(ended.view, ended.registry, NodeVerdicts())
    return next(status.state.value for status in statuses if status.name == name)


def _replacement(ended: ExplainedPass, name: str) -> ExplainedReplacement | None:
    report = ended.report
    replacement = next((replacement for replacement in report.replacements.all if name in replacement.nodes), None)
    if replacement is not None:
        return ExplainedReplacement(
            stage=replacement.stage,
            trigger=replacement.trigger,
            nodes=list(replacement.nodes),
            bought={purchase.group: purchase.count for purchase in replacement.bought},
            hold=replacement.hold,
            detail=replacement.detail,
            price_before=replacement.price_before,
            price_after=replacement.price_after,
        )
    backoff = report.replacements.held.get(name)
    if backoff is None:
        return None
    left_s = max(0.0, backoff.until.mono - report.now.mono)
    return ExplainedReplacement(
        stage=ReplacementStage.PROPOSED, nodes=[name], hold=backoff.hold, detail=backoff.detail, left_s=left_s
    )
