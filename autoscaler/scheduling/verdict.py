"""Why a pod cannot be scheduled, in the scheduler's words: `0/3 nodes are available: 3 Insufficient cpu.`

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


def unschedulable(placer: Placer, cls: PodClass) -> str:
    """Return the scheduler's message for a class that fits no node of the view.

    It ends without a word on preemption where that would make room. Empty where some node takes the pod.
    """
    nodes = placer.trial.base
    if nodes == 0:
        return "no nodes available to schedule pods"
    names = _named_nodes(cls) if placer.profile.asks(NoFit.NODE_AFFINITY) else None
    refusal = _refusal(placer, cls, names)
    if refusal is not None:
        return f"0/{nodes} nodes are available: {refusal}. {_outlook(cls, nodes, Counter({_NO_HELP: nodes}))}"
    reasons: Counter[str] = Counter()
    evictable: list[int] = []
    for position in range(nodes):
        if names is not None and placer.trial.name(position) not in names:
            reasons[_NOT_NAMED] += 1
            continue
        said = _said(placer, cls, position)
        if said is None:
            return ""
        reason, words = said
        reasons.update(words)
        if reason in _EVICTION_HELPS and words[0] not in _LASTING:
            evictable.append(position)
    counted = f"0/{nodes} nodes are available: {_counted(reasons)}."
    prospects = _prospects(placer, cls, evictable)
    if prospects is None:
        return counted
    prospects[_NO_HELP] += nodes - len(evictable)
    return f"{counted} {_outlook(cls, nodes, prospects)}"


def _refusal(placer: Placer, cls: PodClass, names: Collection[str] | None) -> str | None:
    """Return why no node is asked at all; None: nodes are."""
    if names is not None and not names:
        return "pod affinity terms conflict"
    if placer.profile.asks(NoFit.VOLUME_BINDING):
        return claim_obstacle(cls, placer.trial.view.related)
    return None


def _named_nodes(cls: PodClass) -> frozenset[str] | None:
    """Return the only nodes that are asked: every term of the affinity names some; None: all are."""
    terms = () if cls.node_affinity is None else cls.node_affinity.node_selector_terms
    named = [_names(term) for term in terms]
    if not named or None in named:
        return None
    return frozenset().union(*(names for names in named if names is not None))


def _names(term: NodeSelectorTerm) -> frozenset[str] | None:
    found: frozenset[str] | None = None
    for one in term.match_fields:
        if one.key == NAME_FIELD and one.operator is Operator.IN:
            found = frozenset(one.values) if found is None else found.intersection(one.values)
    return found


def _said(placer: Placer, cls: PodClass, position: int) -> tuple[NoFit, Sequence[str]] | None:
    """Return the first filter against a node, and what it says of it: one thing, or every resource that is short."""
    rejections = placer.why(cls, position)
    if not rejections:
        return None
    first = rejections[0]
    if first.reason is not NoFit.RESOURCES:
        return first.reason, (first.message,)
    return first.reason, tuple(dict.fromkeys(one.message for one in rejections if one.reason is first.reason))


def _prospects(placer: Placer, cls: PodClass, evictable: Sequence[int]) -> Counter[str] | None:
    """Count nodes by what still speaks against them once less important pods are gone; None: one would do then."""
    prospects: Counter[str] = Counter()
    trial, priority = placer.trial, cls.priority or 0
    for position in evictable if cls.preemption_policy != "Never" else ():
        lower = {other: n for other, n in trial.classes_on(position).items() if (other.priority or 0) < priority}
        if not lower:
            prospects[_NO_VICTIMS] += 1
            continue
        with trial.fork():
            for other, count in lower.items():
                trial.lift(other, position, count)
            said = _said(placer, cls, position)
        if said is None:
            return None
        prospects.update(said[1])
    return prospects


def _outlook(cls: PodClass, nodes: int, prospects: Counter[str]) -> str:
    if cls.preemption_policy == "Never":
        return "preemption: not eligible due to preemptionPolicy=Never."
    return f"preemption: 0/{nodes} nodes are available: {_counted(prospects)}."


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
