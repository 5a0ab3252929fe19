"""What would let pods leave their node: the drain rules, one change for each, and room elsewhere."""

from collections.abc import Iterator, Sequence

from autoscaler.config.tree import Config
from autoscaler.explain.remedies.changes import (
    AddBudget,
    AllowDisruptions,
    AnnotatableKind,
    Annotate,
    AnyChange,
    DeletePod,
    Scale,
    SetFlag,
    spelled,
)
from autoscaler.explain.remedies.filters import changes_to_fit
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.pod import SAFE_LOCAL_VOLUMES, SAFE_TO_EVICT, Pod
from autoscaler.reasons import BlockingReason
from autoscaler.scaledown.arrivals import arrived
from autoscaler.scaledown.drain import DrainContext, DrainOutcome, DrainVerdict, blocks, judge, local_volumes
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scheduling.misses import near_misses
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.hints import Hints

_NEAREST = 5


def pods_on(name: str, p: EndedPass) -> Sequence[Pod]:
    """Return the pods of a node, and the pending ones that it is to take."""
    assert p.placer is not None
    trial = p.placer.trial
    position = trial.view.positions[name]
    return arrived(trial).together(position, trial.view.pods[position])


def drain_terms(p: EndedPass, config: Config) -> DrainContext:
    """Return what the drain rules look at; removals that the pass has planned have taken their share of budgets."""
    related = p.view.related
    budgets = RemainingPdbTracker(related.budgets.values())
    for removal in p.report.scale_down.unneeded:
        budgets.take(removal.pods)
    return DrainContext(
        options=config.drain, rules=config.rules, wall=p.report.now.wall, related=related, budgets=budgets
    )


def pod_blocks(pod: Pod, p: EndedPass, config: Config, terms: DrainContext) -> Iterator[Remedy]:
    """Yield what would let a pod go, one for each rule that stands against it."""
    for verdict in blocks(pod, terms):
        assert verdict.reason is not None
        yield from _unblocked(verdict.reason, verdict.detail, pod, p, config, terms)
        if verdict.reason in (BlockingReason.NOT_REPLICATED, BlockingReason.CONTROLLER_NOT_FOUND):
            return  # said to be safe to evict, or deleted, no later rule holds it


def _unblocked(
    reason: BlockingReason, detail: str, pod: Pod, p: EndedPass, config: Config, terms: DrainContext
) -> Iterator[Remedy]:
    code, key, owner = Obstacle(reason.value), pod.key, pod.cls.owner
    kind, name = CulpritKind.POD, key
    change: AnyChange
    match reason:
        case BlockingReason.CONTROLLER_NOT_FOUND:
            change = DeletePod(pod=key)
        case BlockingReason.MIN_REPLICAS:
            assert owner is not None
            change = Scale(
                kind=owner.kind, name=f"{pod.namespace}/{owner.name}", replicas=config.drain.min_replica_count
            )
            kind, name = CulpritKind.CONTROLLER, f"{owner.kind} {pod.namespace}/{owner.name}"
        case BlockingReason.NOT_REPLICATED:
            change = Annotate(kind=AnnotatableKind.POD, name=key, key=SAFE_TO_EVICT, value="true")
        case BlockingReason.LOCAL_STORAGE:
            volumes = ",".join(local_volumes(pod.cls))
            change = Annotate(kind=AnnotatableKind.POD, name=key, key=SAFE_LOCAL_VOLUMES, value=volumes)
        case BlockingReason.NOT_SAFE_TO_EVICT:
            change = Annotate(kind=AnnotatableKind.POD, name=key, key=SAFE_TO_EVICT, value=None)
        case BlockingReason.SYSTEM:
            change = AddBudget(pod=key)
        case BlockingReason.BUDGET:
            spent = terms.budgets.spent(pod.cls)
            assert spent is not None
            needed = spent.status.disruptions_allowed - terms.budgets.left()[spent.key] + 1
            change = AllowDisruptions(budget=spent.key, allowed=needed)
            kind, name = CulpritKind.BUDGET, spent.key
    yield remedy(code, kind, name, f"pod {key} ({detail}) may go once {change}", [change])
    flag = _FLAGS.get(reason)
    if flag is not None and not (reason is BlockingReason.NOT_REPLICATED and owner is None):
        yield remedy(code, kind, name, f"pod {key} may go with {flag}", [flag])


_FLAGS = {
    BlockingReason.CONTROLLER_NOT_FOUND: SetFlag(flag="skip-nodes-with-custom-controller-pods", value="false"),
    BlockingReason.NOT_REPLICATED: SetFlag(flag="skip-nodes-with-custom-controller-pods", value="false"),
    BlockingReason.LOCAL_STORAGE: SetFlag(flag="skip-nodes-with-local-storage", value="false"),
    BlockingReason.SYSTEM: SetFlag(flag="skip-nodes-with-system-pods", value="false"),
    BlockingReason.MIN_REPLICAS: SetFlag(flag="min-replica-count", value="0"),
}


def to_drain(name: str, p: EndedPass, config: Config) -> tuple[list[Remedy], list[Remedy]]:
    """Return what would let all pods leave a node and find room elsewhere: all of the first are needed; alternatives.

    Nothing: nothing stands against it.
    """
    terms = drain_terms(p, config)
    needed: list[Remedy] = []
    others: list[Remedy] = []
    for pod in pods_on(name, p):
        codes: set[Obstacle] = set()
        for one in pod_blocks(pod, p, config, terms):
            (others if one.code in codes else needed).append(one)
            codes.add(one.code)
    return [*needed, *_homeless(name, p, terms)], others


def _homeless(name: str, p: EndedPass, terms: DrainContext) -> Iterator[Remedy]:
    """Yield what each pod that has no other place would need; nothing where all have one."""
    placer = p.placer
    assert placer is not None
    trial = placer.trial
    moving = [pod for pod in pods_on(name, p) if not pod.cls.daemonset and _moves(judge(pod, terms))]
    hints = Hints() if p.memory.scale_down is None else p.memory.scale_down.hints
    with trial.fork():
        trial.remove(trial.view.positions[name])
        for removal in p.report.scale_down.unneeded:
            if removal.node.name != name and trial.alive[trial.view.positions[removal.node.name]]:
                trial.remove(trial.view.positions[removal.node.name])
                for pod in removal.pods:
                    at = trial.view.positions.get(hints.get(pod) or "")
                    if at is not None and trial.alive[at]:
                        placer.place(pod.cls, at)
        everywhere, among = slice(0, trial.base), trial.alive[: trial.base].copy()
        for pod in moving:
            place = placer.first(pod.cls, everywhere, 0, among)
            if place is not None:
                placer.place(pod.cls, place)
                continue
            yield _housed(pod, p, among)


def _moves(verdict: DrainVerdict) -> bool:
    """Whether the pod needs another place once it may leave: one without a controller to make it anew is deleted."""
    if verdict.reason is BlockingReason.CONTROLLER_NOT_FOUND:
        return False
    return verdict.outcome in (DrainOutcome.EVICT, DrainOutcome.BLOCK)


def _housed(pod: Pod, p: EndedPass, among: Mask) -> Remedy:
    """Return what the nearest other node would need for the pod."""
    placer = p.placer
    assert placer is not None
    tried = 0
    for miss in near_misses(placer, pod.cls, slice(0, placer.trial.base)):
        for position in miss.positions:
            if not among[position] or tried >= _NEAREST:
                continue
            tried += 1
            changes = changes_to_fit(placer, pod, position)
            if changes:
                name = placer.trial.name(position)
                text = f"pod {pod.key} finds room on node {name} if {spelled(changes)}"
                return remedy(Obstacle.NO_PLACE, CulpritKind.POD, pod.key, text, changes)
    text = f"pod {pod.key} fits only on nodes that are also being removed, or on none; add a suitable node"
    return remedy(Obstacle.NO_PLACE, CulpritKind.POD, pod.key, text)
