"""How much kube-scheduler would like each of several nodes for a pod, by what pods and nodes ask without insisting.

Each plug-in gives every candidate 0 to 100 points, in whole numbers, and has a weight. Source: the scheduler's
plug-ins NodeAffinity, TaintToleration, PodTopologySpread and InterPodAffinity, with its default weights. Two things are
left out: the preferred terms of placed pods, and the spread that the scheduler gives to pods without constraints.
"""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property

import numpy as np

from autoscaler.objects.node import HOSTNAME, Node, Taint
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import SoftConstraints, SpreadConstraint
from autoscaler.scheduling import masks
from autoscaler.scheduling.class_selection import selection_for, selection_of
from autoscaler.scheduling.constraint_cost import work_of_preferences
from autoscaler.scheduling.domains import DomainTallies, DomainTally
from autoscaler.scheduling.topology import SpreadNodes
from autoscaler.snapshot.columns import Amounts, Mask
from autoscaler.snapshot.overlay import Positions

MOST_POINTS = 100
"""What a plug-in gives its favourite."""
_MOST_WORK = 10_000
"""Classes whose preferences are more work than that count as having none; see `work_of_preferences`."""
_MOST_SKEW = (1 << 31) - 1
_NOTHING = SoftConstraints()


class Preference(StrEnum):
    """What pods or nodes may ask for without insisting: the scheduler's plug-ins."""

    NODE_AFFINITY = "NodeAffinity"
    TAINT = "TaintToleration"
    SPREAD = "PodTopologySpread"
    POD_AFFINITY = "InterPodAffinity"


WEIGHTS: Mapping[Preference, int] = {
    Preference.NODE_AFFINITY: 2,
    Preference.TAINT: 3,
    Preference.SPREAD: 2,
    Preference.POD_AFFINITY: 2,
}

Points = Mapping[Preference, Amounts]
"""For each plug-in that has an opinion its points, `(candidates,)`."""


def weighted(points: Points) -> Amounts | int:
    """Return the points of all plug-ins together; 0 where none has an opinion."""
    return sum(WEIGHTS[plugin] * given for plugin, given in points.items())


def soft_taints(cls: PodClass, node: Node) -> Iterator[Taint]:
    """Yield the taints of a node that ask pods of the class to stay away, and that it does not tolerate."""
    for taint in node.taints:
        if not taint.hard and not any(toleration.tolerates(taint) for toleration in cls.tolerations):
            yield taint


class NodePreferences:
    """Rates nodes of a trial, as they are when it is asked."""

    def __init__(self, tallies: DomainTallies) -> None:
        self._tallies = tallies
        self._trial = tallies.trial
        self._soft: dict[PodClass, SoftConstraints] = {}
        self._spreads: dict[PodClass, list[tuple[SpreadConstraint, DomainTally]]] = {}
        self._intolerable: dict[PodClass, Amounts] = {}

    def points(self, cls: PodClass, candidates: Positions) -> Points:
        """Return the points of candidates, nodes that the class fits; plug-ins that tell none apart are left out."""
        soft = self._weighed(cls)
        rated = {Preference.TAINT: MOST_POINTS - _shares(self._asked_to_stay_away(cls, candidates))}
        if soft.nodes:
            rated[Preference.NODE_AFFINITY] = _shares(self._liking(soft, candidates))
        if soft.spread:
            rated[Preference.SPREAD] = self._spread(cls, soft, candidates)
        if soft.near or soft.away:
            rated[Preference.POD_AFFINITY] = self._company(cls, soft, candidates)
        return {plugin: points for plugin, points in rated.items() if (points != points[0]).any()}

    def _weighed(self, cls: PodClass) -> SoftConstraints:
        if cls.soft is None:
            return _NOTHING
        known = self._soft.get(cls)
        if known is None:
            known = self._soft[cls] = _NOTHING if work_of_preferences(cls.soft) > _MOST_WORK else cls.soft
        return known

    def _asked_to_stay_away(self, cls: PodClass, candidates: Positions) -> Amounts:
        """Return how many taints of each candidate ask it."""
        trial = self._trial
        counts: Amounts = np.zeros(len(candidates), dtype=np.int64)
        of_view = candidates < trial.base
        if of_view.any():
            known = self._intolerable.get(cls)
            if known is None:
                known = self._intolerable[cls] = np.zeros(trial.base, dtype=np.int64)
                for position in self._with_soft_taints:
                    known[position] = sum(1 for _ in soft_taints(cls, trial.view.nodes[position]))
            counts[of_view] = known[candidates[of_view]]
        for index in np.flatnonzero(~of_view).tolist():
            counts[index] = sum(1 for _ in soft_taints(cls, trial.node(int(candidates[index]))))
        return counts

    @cached_property
    def _with_soft_taints(self) -> list[int]:
        nodes = enumerate(self._trial.view.nodes)
        return [position for position, node in nodes if any(not taint.hard for taint in node.taints)]

    def _liking(self, soft: SoftConstraints, candidates: Positions) -> Amounts:
        """Return the weights of the terms that match each candidate."""
        liking: Amounts = np.zeros(len(candidates), dtype=np.int64)
        for wish in soft.nodes:
            liking[masks.matching(wish.preference, self._trial)[candidates]] += _clamped(wish.weight, MOST_POINTS)
        return liking

    def _spread(self, cls: PodClass, soft: SoftConstraints, candidates: Positions) -> Amounts:
        """Rate by how many pods are in the domains; a node without one of the keys gets nothing."""
        if cls not in self._spreads:
            eligible = SpreadNodes(cls, [constraint.topology_key for constraint in soft.spread], self._trial)
            self._spreads[cls] = [
                (
                    constraint,
                    self._tallies.counted((selection_for(constraint, cls),)).tally(
                        constraint.topology_key, eligible.of(constraint)
                    ),
                )
                for constraint in soft.spread
            ]
        valid: Mask = np.ones(len(candidates), dtype=np.bool_)
        for constraint in soft.spread:
            valid &= self._trial.labels(constraint.topology_key)[candidates] >= 0
        crowd = np.zeros(len(candidates))
        for constraint, tally in self._spreads[cls]:
            codes = self._trial.labels(constraint.topology_key)[candidates][valid]
            domains = len(codes) if constraint.topology_key == HOSTNAME else len(np.unique(codes))
            crowd += _counts(tally, candidates) * math.log(domains + 2) + _clamped(constraint.max_skew, _MOST_SKEW) - 1
        return _emptiest(np.floor(crowd + 0.5).astype(np.int64), valid)

    def _company(self, cls: PodClass, soft: SoftConstraints, candidates: Positions) -> Amounts:
        """Rate by the pods in the domains that the class wants to be near to, or away from."""
        namespaces = self._trial.view.related.namespaces
        score: Amounts = np.zeros(len(candidates), dtype=np.int64)
        for sign, weighted_terms in ((1, soft.near), (-1, soft.away)):
            for weighted in weighted_terms:
                term = weighted.pod_affinity_term
                tally = self._tallies.counted((selection_of(term, cls, namespaces),)).tally(term.topology_key)
                score += sign * _clamped(weighted.weight, MOST_POINTS) * _counts(tally, candidates)
        least, span = int(score.min()), int(score.max() - score.min())
        return (MOST_POINTS * ((score - least) / span)).astype(np.int64) if span else np.zeros_like(score)


def _counts(tally: DomainTally, candidates: Positions) -> Amounts:
    first, last = int(candidates.min()), int(candidates.max())
    return tally.at(slice(first, last + 1))[candidates - first]


def _clamped(number: int, most: int) -> int:
    return min(max(number, 0), most)


def _shares(scores: Amounts) -> Amounts:
    """Return scores as shares of the highest."""
    highest = int(scores.max())
    return MOST_POINTS * scores // highest if highest > 0 else scores


def _emptiest(scores: Amounts, valid: Mask) -> Amounts:
    """Return the points of scores of which the least is best; none where they are not valid."""
    points: Amounts = np.zeros(len(scores), dtype=np.int64)
    if valid.any():
        least, most = int(scores[valid].min()), int(scores[valid].max())
        points[valid] = MOST_POINTS * (most + least - scores[valid]) // most if most > 0 else MOST_POINTS
    return points
