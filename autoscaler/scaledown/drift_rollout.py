"""How drifted nodes are replaced: one of a group first, more once its successors have proved themselves.

Each replacement of a drifted node begins a trial of the nodes that are bought for it. The trial ends some time after
the old node is gone. It has failed if a new node is not ready or is itself drifted, or if pods of workloads that were
ready on the old node are not ready on a new one, while none of their workload is unready elsewhere. It has failed, too,
if what was bought never became a ready node. After a failure no drifted node is replaced until somebody says so.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import ReplacementHold, ReplacementStage, ReplacementTrigger
from autoscaler.registry.readiness import ReadyTerms, usable_readiness
from autoscaler.scaledown.drift import DriftedNode, drifted_nodes, fingerprint
from autoscaler.scaledown.drift_memory import DriftFailure, DriftMemory, DriftTrial
from autoscaler.scaledown.replacement import HeldBack, Replacement
from autoscaler.scaledown.replacement_cause import Cause, CauseContext
from autoscaler.snapshot.cluster import ClusterView

_STEADY_S = 60.0
"""For how long a pod must have been ready: one that crashes again and again is ready in between."""
_SEEN_AFTER_S = 60.0
"""How long it may take until a pause that was written is read."""
_GIVEN_UP = (ReplacementHold.TIMED_OUT, ReplacementHold.NEVER_CAME)


class DriftScene(msgspec.Struct, frozen=True, kw_only=True):
    """What trials are judged by."""

    view: ClusterView
    drifted: Mapping[str, str]
    """In what nodes differ, by name, for people."""
    terms: ReadyTerms
    """When a node is ready."""
    now: Instant
    settle_s: float


def drifted(context: CauseContext) -> Iterator[Cause]:
    """Yield the nodes that differ from what their group makes now, oldest first."""
    kinds, terms, memory = context.config.drift.drift, context.readings.terms, context.memory
    found = drifted_nodes(context.view, kinds, terms.taints)
    if not found:
        return
    resting = {name for name, rest in memory.rests.items() if rest.until.mono > context.now.mono}
    in_progress = {name for replacement in memory.in_progress for name in replacement.nodes}
    free = admitted(found, memory.drift, context.view, terms, in_progress=in_progress, resting=resting)
    failure = memory.drift.failure
    failed = None if failure is None else HeldBack(ReplacementHold.NEW_NODES_FAILED, failure.reason)
    for one in found:
        turn = None if one.node.name in free else HeldBack(ReplacementHold.ON_TRIAL, one.detail)
        yield Cause(trigger=ReplacementTrigger.DRIFTED, node=one.node, detail=one.detail, held=failed or turn)


def admitted(
    drifted: Sequence[DriftedNode],
    memory: DriftMemory,
    view: ClusterView,
    terms: ReadyTerms,
    *,
    in_progress: Collection[str],
    resting: Collection[str],
) -> frozenset[str]:
    """Return the names of the nodes that may be replaced now, as far as trials are concerned.

    In a group whose new nodes have proved themselves these are all. In another it is the first that does not rest, and
    only while none is in progress and no trial is under way.
    """
    admitted = {one.node.name for one in drifted if one.node.name in in_progress}
    taken = {trial.group for trial in memory.trials} | {one.group for one in drifted if one.node.name in in_progress}
    proven = {
        group.id
        for group in view.groups.all
        if group.id in memory.proven and memory.proven[group.id] == fingerprint(group, terms.taints)
    }
    for one in drifted:
        if one.node.name in resting:
            continue
        if one.group in proven or one.group not in taken:
            taken.add(one.group)
            admitted.add(one.node.name)
    return frozenset(admitted)


def followed(
    memory: DriftMemory, in_progress: Iterable[Replacement], ended: Iterable[Replacement], scene: DriftScene
) -> DriftMemory:
    """Return the memory after a pass, with trials begun, ended and judged. After a failure there are no trials."""
    trials = {trial.replacement: trial for trial in memory.trials}
    for replacement in _drifted_only(in_progress):
        if replacement.id not in trials and (trial := _begun(replacement, scene)) is not None:
            trials[replacement.id] = trial
    for replacement in _drifted_only(ended):
        trial = trials.pop(replacement.id, None)
        if trial is None or not replacement.bought:
            continue
        fresh = [node for node in _fresh(replacement, scene) if usable_readiness(node, scene.terms).ready]
        if replacement.stage is ReplacementStage.DONE and fresh:
            names = tuple(node.name for node in fresh)
            trials[replacement.id] = replace(trial, nodes=names, until=scene.now.later(scene.settle_s))
        elif replacement.stage is ReplacementStage.ABANDONED and replacement.hold in _GIVEN_UP and not fresh:
            return _failed(memory, trial, f"no machine bought for {trial.replacement} became a ready node", scene)
    return _judged(memory, trials.values(), scene)


def _drifted_only(replacements: Iterable[Replacement]) -> Iterable[Replacement]:
    return (replacement for replacement in replacements if replacement.trigger is ReplacementTrigger.DRIFTED)


def _begun(replacement: Replacement, scene: DriftScene) -> DriftTrial | None:
    view = scene.view
    group = view.groups.get(view.groups.of_node.get(replacement.id, ""))
    if group is None:
        return None
    pods = view.pods_on(replacement.id)
    owners = (pod.cls.owner for pod in pods if pod.ready is not None and not pod.cls.daemonset)
    return DriftTrial(
        replacement=replacement.id,
        group=group.id,
        made=fingerprint(group, scene.terms.taints),
        workloads=frozenset(owner.uid for owner in owners if owner is not None),
    )


def _fresh(replacement: Replacement, scene: DriftScene) -> list[Node]:
    """Return the nodes that have joined the groups in which something was bought since then."""
    groups, owners = {purchase.group for purchase in replacement.bought}, scene.view.groups.of_node
    return [
        node
        for node in scene.view.nodes
        if owners.get(node.name) in groups and node.created >= replacement.began.wall and node.deleted is None
    ]


def _judged(memory: DriftMemory, trials: Iterable[DriftTrial], scene: DriftScene) -> DriftMemory:
    left: list[DriftTrial] = []
    proven = dict(memory.proven)
    for trial in trials:
        if trial.until is None or scene.now.mono < trial.until.mono:
            left.append(trial)
            continue
        nodes = [node for name in trial.nodes if (node := scene.view.node(name)) is not None]
        if reason := fault_of(nodes, trial, scene):
            return _failed(memory, trial, reason, scene)
        if any(scene.view.groups.of_node.get(node.name) == trial.group for node in nodes):
            proven[trial.group] = trial.made
    return replace(memory, trials=tuple(left), proven=proven)


def fault_of(nodes: Sequence[Node], trial: DriftTrial, scene: DriftScene) -> str:
    """Return what is wrong with new nodes or the pods on them, for people; empty if nothing is."""
    for node in nodes:
        state = usable_readiness(node, scene.terms)
        if not state.ready:
            return f"new node {node.name} is not ready{f' ({state.reason})' if state.reason else ''}"
        if node.name in scene.drifted:
            return f"new node {node.name} differs too: {scene.drifted[node.name]}"
    names = {node.name for node in nodes}
    sick_elsewhere = {
        pod.cls.owner.uid
        for node, pods in zip(scene.view.nodes, scene.view.pods, strict=True)
        if names and node.name not in names
        for pod in pods
        if pod.cls.owner is not None and pod.cls.owner.uid in trial.workloads and _is_unready(pod, scene)
    }
    for node in nodes:
        for pod in scene.view.pods_on(node.name):
            owner = pod.cls.owner
            counts = owner is not None and owner.uid in trial.workloads and owner.uid not in sick_elsewhere
            if counts and _is_unready(pod, scene):
                was = f"and its workload was ready on {trial.replacement}"
                return f"pod {pod.key} is not ready on new node {node.name}, {was}"
    return ""


def _is_unready(pod: Pod, scene: DriftScene) -> bool:
    """Whether a pod that has had the time to become ready is not, or only just now."""
    if pod.deleted is not None or pod.phase not in ("Pending", "Running"):
        return False
    there_since = pod.created if pod.scheduled is None else pod.scheduled
    if scene.now.wall - there_since < scene.settle_s:
        return False
    return pod.ready is None or scene.now.wall - pod.ready < _STEADY_S


def _failed(memory: DriftMemory, trial: DriftTrial, reason: str, scene: DriftScene) -> DriftMemory:
    proven = {group: made for group, made in memory.proven.items() if group != trial.group}
    failure = DriftFailure(group=trial.group, reason=f"{trial.group}: {reason}", since=scene.now)
    return replace(memory, trials=(), proven=proven, failure=failure)


def remembered(failure: DriftFailure | None, *, paused: bool, now: Instant) -> DriftFailure | None:
    """Return the failure until the pause that was written for it has been read, or must have been lifted since."""
    if failure is None or failure.written is None:
        return failure
    return None if paused or now.mono - failure.written.mono >= _SEEN_AFTER_S else failure
