"""Adds to the reasons of a pass what would help pods that get no node."""

from msgspec.structs import replace

from autoscaler.explain.answer import PodExplanation
from autoscaler.explain.explained_pass import explained_pass
from autoscaler.explain.pod import explain_pending
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.simulator.answer import HeldPods, Reasons, StuckPods
from autoscaler.simulator.answer_forms import reasons

_MOST = 20
"""So many workloads of each kind get advice: it takes some 10 ms for each in a cluster of 200 nodes."""


def advised(ended: EndedPass) -> Reasons:
    """Return the typed reasons of a pass, with advice for the first pod of each workload.

    The simulated cluster must be as the pass left it.
    """
    plain = reasons(ended)
    if ended.report.view is None or not (plain.unschedulable or plain.held):
        return plain
    passed = explained_pass(ended)
    pending = {pod.key: pod for pod in ended.report.view.pending}

    def explained(part: StuckPods | HeldPods) -> PodExplanation | None:
        pod = pending.get(part.pods[0])
        return None if pod is None else explain_pending(f"pod/{pod.key}", pod, passed)

    first = {part.owner or part.pods[0]: part for part in reversed(plain.unschedulable)}
    chosen = {part.pods[0] for part in list(reversed(first.values()))[:_MOST]}
    stuck = [_stuck(part, explained(part)) if part.pods[0] in chosen else part for part in plain.unschedulable]
    held = [_held(part, explained(part)) for part in plain.held[:_MOST]]
    return replace(plain, unschedulable=stuck, held=held + plain.held[_MOST:])


def _stuck(part: StuckPods, explanation: PodExplanation | None) -> StuckPods:
    if explanation is None:
        return part
    return replace(part, nearest=next(iter(explanation.groups), None), remedy=explanation.remedy)


def _held(part: HeldPods, explanation: PodExplanation | None) -> HeldPods:
    return part if explanation is None else replace(part, remedy=explanation.remedy)
