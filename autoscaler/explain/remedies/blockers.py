"""Finds what would let pods leave their node: one change for each drain rule, and room elsewhere."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.causes import cause_of
from autoscaler.explain.remedies.changes import (
    AddBudget,
    AllowDisruptions,
    AnnotatableKind,
    Annotate,
    AnyChange,
    DeletePod,
    Scale,
    SetFlag,
    sentence,
    told,
)
from autoscaler.explain.remedies.filters import changes_to_fit, told_for_node
from autoscaler.explain.remedies.groups import by_change
from autoscaler.explain.remedies.remedy import Culprit, CulpritKind, Remedy, remedy
from autoscaler.explain.remedies.spot import Spot
from autoscaler.objects.node import TO_BE_DELETED
from autoscaler.objects.pod import COMMON_SAFE_TO_EVICT, DO_NOT_DISRUPT, SAFE_LOCAL_VOLUMES, SAFE_TO_EVICT, Pod
from autoscaler.reasons import BlockingReason, UnremovableReason
from autoscaler.scaledown.arrivals import arrived
from autoscaler.scaledown.drain import DrainContext, DrainOutcome, DrainVerdict, blocks, judge, local_volumes
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.running_gangs import RunningGangs, SpareMembers, running_gangs
from autoscaler.scheduling.misses import near_misses
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.hints import Hints

_NEAREST = 5


def to_drain(name: str, ended: ExplainedPass) -> tuple[list[Remedy], list[Remedy]]:
    """Return what would let all pods leave a node and find room elsewhere.

    All remedies of the first list are needed; the others are alternatives. Empty lists mean that nothing blocks the
    pods.
    """
    context = _drain_context(ended)
    needed: list[Remedy] = []
    others: list[Remedy] = []
    for pod in _pods_on(name, ended):
        ended.check()
        codes: set[str] = set()
        for option in _unblock(pod, context):
            (others if option.code in codes else needed).append(option)
            codes.add(option.code)
    return [*needed, *_without_place(name, ended, context)], others


def _pods_on(name: str, ended: ExplainedPass) -> Sequence[Pod]:
    """Return the pods of a node, and the pending pods that are to get a place on it."""
    trial = ended.simulated.trial
    position = trial.view.positions[name]
    return arrived(trial).together(position, trial.view.pods[position])


def _drain_context(ended: ExplainedPass) -> DrainContext:
    """Return the input of the drain rules; removals that the pass has planned have already used their part of the
    budgets.
    """
    config, related = ended.config, ended.view.related
    leaving = {node.name for node in ended.view.nodes if node.taint(TO_BE_DELETED) is not None}
    context = DrainContext(
        options=config.drain,
        rules=config.rules,
        wall=ended.report.now.wall,
        related=related,
        budgets=RemainingPdbTracker(related.budgets.values()),
        gangs=SpareMembers(running_gangs(ended.view, leaving) if config.gangs_count else RunningGangs()),
    )
    for removal in ended.report.scale_down.unneeded:
        context.take(removal.pods)
    return context


def _unblock(pod: Pod, context: DrainContext) -> Iterator[Remedy]:
    """Yield what would let a pod leave, one remedy for each rule that blocks it."""
    for verdict in blocks(pod, context):
        assert verdict.reason is not None
        yield from _unblock_rule(verdict.reason, verdict.detail, pod, context)
        if verdict.reason in (BlockingReason.NOT_REPLICATED, BlockingReason.CONTROLLER_NOT_FOUND):
            return  # once it is marked as safe to evict, or deleted, no later rule blocks it


class _Unblocking(msgspec.Struct, frozen=True):
    """A change that lets a pod leave, and what has to change."""

    change: AnyChange
    culprit: Culprit


def _unblock_rule(reason: BlockingReason, detail: str, pod: Pod, context: DrainContext) -> Iterator[Remedy]:
    unblock, cause = _UNBLOCK.get(reason), f"is kept by pod {pod.key}: {detail}"
    if unblock is None:
        text = f"Correct pod {pod.key}, or move it by hand."
        yield remedy(reason, (CulpritKind.POD, pod.key), text, cause=cause)
        return
    unblocking = unblock(pod, context)
    culprit = unblocking.culprit.kind, unblocking.culprit.name
    text = sentence(told([unblocking.change]) + _LOSSES.get(reason, ""))
    yield remedy(reason, culprit, text, [unblocking.change], cause)
    flag = _FLAGS.get(reason)
    if flag is not None and not (reason is BlockingReason.NOT_REPLICATED and pod.cls.owner is None):
        yield by_change(reason, culprit, flag, cause)


def _own(pod: Pod, change: AnyChange) -> _Unblocking:
    return _Unblocking(change, Culprit(kind=CulpritKind.POD, name=pod.key))


def _annotated(pod: Pod, key: str, value: str | None) -> _Unblocking:
    return _own(pod, Annotate(kind=AnnotatableKind.POD, name=pod.key, key=key, value=value))


def _disruptable(pod: Pod, _: DrainContext) -> _Unblocking:
    if pod.cls.annotations.get(COMMON_SAFE_TO_EVICT) == "false":
        return _annotated(pod, COMMON_SAFE_TO_EVICT, None)
    return _annotated(pod, DO_NOT_DISRUPT, "false")  # it may be its namespace that protects it


def _more_replicas(pod: Pod, context: DrainContext) -> _Unblocking:
    owner = pod.cls.owner
    assert owner is not None
    name = f"{pod.namespace}/{owner.name}"
    change = Scale(kind=owner.kind, name=name, replicas=context.options.min_replica_count)
    return _Unblocking(change, Culprit(kind=CulpritKind.CONTROLLER, name=f"{owner.kind} {name}"))


def _wider_budget(pod: Pod, context: DrainContext) -> _Unblocking:
    spent = context.budgets.spent(pod.cls)
    assert spent is not None
    allowed = spent.status.disruptions_allowed - context.budgets.left()[spent.key] + 1
    change = AllowDisruptions(budget=spent.key, allowed=allowed)
    return _Unblocking(change, Culprit(kind=CulpritKind.BUDGET, name=spent.key))


_UNBLOCK: Mapping[BlockingReason, Callable[[Pod, DrainContext], _Unblocking]] = {
    BlockingReason.CONTROLLER_NOT_FOUND: lambda pod, _: _own(pod, DeletePod(pod=pod.key)),
    BlockingReason.MIN_REPLICAS: _more_replicas,
    BlockingReason.NOT_REPLICATED: lambda pod, _: _annotated(pod, SAFE_TO_EVICT, "true"),
    BlockingReason.GANG: lambda pod, _: _annotated(pod, SAFE_TO_EVICT, "true"),
    BlockingReason.LOCAL_STORAGE: lambda pod, _: _annotated(pod, SAFE_LOCAL_VOLUMES, ",".join(local_volumes(pod.cls))),
    BlockingReason.NOT_SAFE_TO_EVICT: lambda pod, _: _annotated(pod, SAFE_TO_EVICT, None),
    BlockingReason.DO_NOT_DISRUPT: _disruptable,
    BlockingReason.SYSTEM: lambda pod, _: _own(pod, AddBudget(pod=pod.key)),
    BlockingReason.BUDGET: _wider_budget,
}
"""The change for each reason. A pod that cannot be decoded has none: nobody knows what would let it leave."""

_LOSSES = {
    BlockingReason.GANG: " if its gang may stop",
    BlockingReason.NOT_REPLICATED: ", or run it under a controller; without one it does not come back",
    BlockingReason.LOCAL_STORAGE: " if the data may be lost",
}
"""Losses that the change may cause."""

_FLAGS = {
    BlockingReason.CONTROLLER_NOT_FOUND: SetFlag(flag="skip-nodes-with-custom-controller-pods", value="false"),
    BlockingReason.NOT_REPLICATED: SetFlag(flag="skip-nodes-with-custom-controller-pods", value="false"),
    BlockingReason.LOCAL_STORAGE: SetFlag(flag="skip-nodes-with-local-storage", value="false"),
    BlockingReason.SYSTEM: SetFlag(flag="skip-nodes-with-system-pods", value="false"),
    BlockingReason.MIN_REPLICAS: SetFlag(flag="min-replica-count", value="0"),
}


def _without_place(name: str, ended: ExplainedPass, context: DrainContext) -> Iterator[Remedy]:
    """Yield what each pod without another place would need; yields nothing if all have one."""
    placer, trial = ended.simulated, ended.simulated.trial
    moving = [pod for pod in _pods_on(name, ended) if not pod.cls.daemonset and _moves(judge(pod, context))]
    with trial.fork():
        trial.remove(trial.view.positions[name])
        _remove_unneeded(name, ended)
        everywhere, among = slice(0, trial.base), trial.alive[: trial.base].copy()
        for pod in moving:
            ended.check()
            position = placer.first(pod.cls, everywhere, 0, among)
            if position is None:
                yield _room_for(pod, ended, among)
            else:
                placer.place(pod.cls, position)


def _remove_unneeded(name: str, ended: ExplainedPass) -> None:
    """Remove the other nodes that the pass found unneeded, and place their pods as the pass did."""
    placer, trial = ended.simulated, ended.simulated.trial
    hints = Hints() if ended.memory.scale_down is None else ended.memory.scale_down.hints
    for removal in ended.report.scale_down.unneeded:
        position = trial.view.positions[removal.node.name]
        if removal.node.name == name or not trial.alive[position]:
            continue
        trial.remove(position)
        for pod in removal.pods:
            target = trial.view.positions.get(hints.get(pod) or "")
            if target is not None and trial.alive[target]:
                placer.place(pod.cls, target)


def _moves(verdict: DrainVerdict) -> bool:
    """Whether the pod needs another place after it leaves. A pod without a controller is deleted and not recreated."""
    if verdict.reason is BlockingReason.CONTROLLER_NOT_FOUND:
        return False
    return verdict.outcome in (DrainOutcome.EVICT, DrainOutcome.BLOCK)


def _room_for(pod: Pod, ended: ExplainedPass, among: Mask) -> Remedy:
    """Return what the pod would need to fit on the node that is the nearest miss."""
    placer, code = ended.simulated, UnremovableReason.NO_PLACE
    kept = f"is kept by pod {pod.key}: it"
    misses = near_misses(placer, pod.cls, slice(0, placer.trial.base))
    nearest = [position for miss in misses for position in miss.positions if among[position]]
    for position in nearest[:_NEAREST]:
        spot = Spot(ended, pod, position)
        changes = changes_to_fit(spot)
        if changes:
            cause = f"{kept} {cause_of(placer.why(pod.cls, position), spot)}"
            return remedy(code, (CulpritKind.POD, pod.key), told_for_node(changes, spot), changes, cause)
    text = f"Add a node that takes pod {pod.key}; the others do not, or are to go too."
    why = cause_of(placer.why(pod.cls, nearest[0]), Spot(ended, pod, nearest[0])) if nearest else "finds no other node"
    return remedy(code, (CulpritKind.POD, pod.key), text, cause=f"{kept} {why}")
