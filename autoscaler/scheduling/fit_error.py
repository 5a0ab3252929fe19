"""Explains in the scheduler's words why a pod cannot be scheduled: `0/3 nodes are available: 3 Insufficient cpu.`

A filter may refuse the pod before any node is asked, or leave only some nodes to ask; of the nodes asked, each is
counted by what the first filter against it says. Then comes what preemption could do. Source: the scheduler's
`FitError`, `schedulePod` and DefaultPreemption, as of Kubernetes 1.32.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from autoscaler.objects.meta import Operator
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelectorTerm
from autoscaler.reasons import NoFit
from autoscaler.scheduling.affinity import NOT_NEAR
from autoscaler.scheduling.claims import claim_obstacle
from autoscaler.scheduling.masks import NAME_FIELD
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.topology import NO_DOMAIN

_EVICTION_HELPS = frozenset(
    (
        NoFit.PORTS,
        NoFit.RESOURCES,
        NoFit.VOLUME_RESTRICTIONS,
        NoFit.VOLUME_LIMITS,
        NoFit.SPREAD,
        NoFit.POD_AFFINITY,
        NoFit.DEVICES,
    )
)
"""Filters whose refusals preemption may overcome, but for `_LASTING`."""
_LASTING = frozenset((NOT_NEAR, NO_DOMAIN))
_NO_HELP = "Preemption is not helpful for scheduling"
_NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_NAMED = f"node(s) didn't satisfy plugin(s) [{NoFit.NODE_AFFINITY}]"


def unschedulable(placer: Placer, cls: PodClass, *, awaits_victims: bool = False) -> str:
    """Return the scheduler's message for a class that fits no node of the view; empty where some node takes it.

    It ends without a word on preemption where that would make room; it has for a pod that `awaits_victims`.
    """
    nodes = placer.trial.base
    if nodes == 0:
        return "no nodes available to schedule pods"
    names = _named_nodes(cls) if placer.profile.asks(NoFit.NODE_AFFINITY) else None
    refusal, evictable = _refusal(placer, cls, names), list[int]()
    if refusal is None:
        reasons, evictable = _asked(placer, cls, names)
        if sum(reasons.values()) == 0:
            return ""
        refusal = _counted(reasons)
    outlook = _outlook(placer, cls, evictable, awaits_victims=awaits_victims)
    return f"0/{nodes} nodes are available: {refusal}." + (outlook and f" preemption: {outlook}")


def _refusal(placer: Placer, cls: PodClass, names: Collection[str] | None) -> str | None:
    """Return why no node is asked at all; None: nodes are."""
    if names is not None and not names:
        return "pod affinity terms conflict"
    if placer.profile.asks(NoFit.VOLUME_BINDING):
        return claim_obstacle(cls, placer.trial.view.related)
    return None


def _asked(placer: Placer, cls: PodClass, names: Collection[str] | None) -> tuple[Counter[str], list[int]]:
    """Count nodes by what they say, and list those where eviction may help; nothing where some node takes the pod."""
    reasons: Counter[str] = Counter()
    evictable: list[int] = []
    for position in range(placer.trial.base):
        if names is not None and placer.trial.name(position) not in names:
            reasons[_NOT_NAMED] += 1
            continue
        said = _said(placer, cls, position)
        if said is None:
            return Counter(), []
        reason, words = said
        reasons.update(words)
        if reason in _EVICTION_HELPS and words[0] not in _LASTING:
            evictable.append(position)
    return reasons, evictable


def _named_nodes(cls: PodClass) -> frozenset[str] | None:
    """Return the only nodes that are asked: every term of the affinity names some; None: all are."""
    terms = () if cls.node_affinity is None else cls.node_affinity.node_selector_terms
    named = [_names(term) for term in terms]
    if not named or None in named:
        return None
    return frozenset().union(*(names for names in named if names is not None))


def _names(term: NodeSelectorTerm) -> frozenset[str] | None:
    names: frozenset[str] | None = None
    for field in term.match_fields:
        if field.key == NAME_FIELD and field.operator == Operator.IN:
            names = frozenset(field.values) if names is None else names.intersection(field.values)
    return names


def _said(placer: Placer, cls: PodClass, position: int) -> tuple[NoFit, Sequence[str]] | None:
    """Return the first filter against a node, and what it says of it: one thing, or every resource that is short."""
    rejections = placer.why(cls, position)
    if not rejections:
        return None
    first = rejections[0]
    if first.reason is not NoFit.RESOURCES:
        return first.reason, (first.message,)
    return first.reason, tuple(
        dict.fromkeys(rejection.message for rejection in rejections if rejection.reason is first.reason)
    )


def _outlook(placer: Placer, cls: PodClass, evictable: Sequence[int], *, awaits_victims: bool) -> str:
    """Return what preemption says; nothing where it works."""
    if cls.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    if awaits_victims:
        return "not eligible due to a terminating pod on the nominated node."
    nodes = placer.trial.base
    prospects = Counter({_NO_HELP: nodes - len(evictable)})
    for position in evictable:
        words = _without_victims(placer, cls, position)
        if not words:
            return ""
        prospects.update(words)
    return f"0/{nodes} nodes are available: {_counted(prospects)}."


def _without_victims(placer: Placer, cls: PodClass, position: int) -> Sequence[str]:
    """Return what still speaks against a node once its less important pods are gone; empty where nothing does."""
    trial, priority = placer.trial, cls.priority or 0
    lower = {other: count for other, count in trial.classes_on(position).items() if (other.priority or 0) < priority}
    if not lower:
        return (_NO_VICTIMS,)
    with trial.fork():
        for other, count in lower.items():
            trial.lift(other, position, count)
        said = _said(placer, cls, position)
    return () if said is None else said[1]


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
