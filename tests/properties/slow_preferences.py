"""kube-scheduler's scores as plain definitions over lists of nodes and pods: the slow twin of `scheduling.preferences`.

It follows the plug-ins step by step: PreScore, Score, NormalizeScore.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelector, SoftConstraints
from tests.properties.slow_scheduler import SlowCluster, counts_towards, one_term_holds, tolerates, wants


def slow_points(cluster: SlowCluster, cls: PodClass, candidates: Sequence[int]) -> dict[str, list[int]]:
    """Return the points of candidates by plug-in, whether or not they tell any apart."""
    soft = cls.soft or SoftConstraints()
    return {
        "TaintToleration": taints(cluster, cls, candidates),
        "NodeAffinity": node_affinity(cluster, soft, candidates),
        "PodTopologySpread": spread(cluster, cls, soft, candidates),
        "InterPodAffinity": pod_affinity(cluster, cls, soft, candidates),
    }


def default_normalize(scores: list[int], *, reverse: bool) -> list[int]:
    highest = max(scores)
    if highest == 0:
        return [100 if reverse else score for score in scores]
    shares = [100 * score // highest for score in scores]
    return [100 - share for share in shares] if reverse else shares


def taints(cluster: SlowCluster, cls: PodClass, candidates: Sequence[int]) -> list[int]:
    counts = [
        sum(1 for taint in cluster.node(at).taints if taint.effect == "PreferNoSchedule" and not tolerates(cls, taint))
        for at in candidates
    ]
    return default_normalize(counts, reverse=True)


def node_affinity(cluster: SlowCluster, soft: SoftConstraints, candidates: Sequence[int]) -> list[int]:
    scores = [
        sum(
            wish.weight
            for wish in soft.nodes
            if one_term_holds(NodeSelector(node_selector_terms=[wish.preference]), cluster.node(at))
        )
        for at in candidates
    ]
    return default_normalize(scores, reverse=False)


def spread(cluster: SlowCluster, cls: PodClass, soft: SoftConstraints, candidates: Sequence[int]) -> list[int]:
    constraints = soft.spread
    if not constraints:
        return [0 for _ in candidates]
    labels = {at: cluster.node(at).labels for at in cluster.existing()}

    def has_all(at: int) -> bool:
        return all(constraint.topology_key in labels[at] for constraint in constraints)

    ignored = {at for at in candidates if not has_all(at)}
    pairs: list[dict[str, int]] = [{} for _ in constraints]
    weights: list[float] = []
    for number, constraint in enumerate(constraints):
        if constraint.topology_key == HOSTNAME:
            weights.append(math.log(len(candidates) - len(ignored) + 2))
        else:
            values = {labels[at][constraint.topology_key] for at in candidates if at not in ignored}
            pairs[number] = dict.fromkeys(values, 0)
            weights.append(math.log(len(values) + 2))
    for at in cluster.existing():
        if not has_all(at):
            continue
        for number, constraint in enumerate(constraints):
            node = cluster.node(at)
            if constraint.node_affinity_policy != "Ignore" and not wants(cls, node):
                continue
            hard = [taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute")]
            if constraint.node_taints_policy == "Honor" and any(not tolerates(cls, taint) for taint in hard):
                continue
            value = labels[at][constraint.topology_key]
            if value in pairs[number]:
                pairs[number][value] += counted(cluster, cls, number, soft, at)
    scores: dict[int, int] = {}
    for at in candidates:
        if at in ignored:
            continue
        score = 0.0
        for number, constraint in enumerate(constraints):
            of_node = constraint.topology_key == HOSTNAME
            count = (
                counted(cluster, cls, number, soft, at)
                if of_node
                else pairs[number][labels[at][constraint.topology_key]]
            )
            score += count * weights[number] + (constraint.max_skew - 1)
        scores[at] = math.floor(score + 0.5)
    if not scores:
        return [0 for _ in candidates]
    least, most = min(scores.values()), max(scores.values())
    return [
        0 if at in ignored else 100 if most == 0 else 100 * (most + least - scores[at]) // most for at in candidates
    ]


def counted(cluster: SlowCluster, cls: PodClass, number: int, soft: SoftConstraints, at: int) -> int:
    constraint = soft.spread[number]
    return sum(
        1 for pod in cluster.placed if pod.at == at and not pod.terminating and counts_towards(constraint, cls, pod.cls)
    )


def pod_affinity(cluster: SlowCluster, cls: PodClass, soft: SoftConstraints, candidates: Sequence[int]) -> list[int]:
    topology_score: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for sign, weighted_terms in ((1, soft.near), (-1, soft.away)):
        for weighted in weighted_terms:
            term = weighted.pod_affinity_term
            for pod in cluster.placed:
                value = cluster.node(pod.at).labels.get(term.topology_key)
                if value is not None and cluster.means(term, cls, pod.cls):
                    topology_score[term.topology_key][value] += sign * weighted.weight
    scores = [
        sum(by_value.get(cluster.node(at).labels.get(key, ""), 0) for key, by_value in topology_score.items())
        for at in candidates
    ]
    least, span = min(scores), max(scores) - min(scores)
    return [int(100 * ((score - least) / span)) if span else 0 for score in scores]
