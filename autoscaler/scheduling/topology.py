"""Topology spread constraints that forbid (`whenUnsatisfiable: DoNotSchedule`).

Skew is the count of matching pods in a domain, this pod included, over the smallest count of any domain. Only nodes
that have every topology key of the pod, and pass its inclusion policies, make up domains. Source: the scheduler's
PodTopologySpread plug-in.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from autoscaler.objects.matching import untolerated, wants_node
from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import SpreadConstraint
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling import masks
from autoscaler.scheduling.bounds import Bound, gate
from autoscaler.scheduling.domains import Eligibility, Tally
from autoscaler.snapshot.columns import ABSENT, Mask
from autoscaler.snapshot.overlay import Trial


def spread_counts(constraint: SpreadConstraint, owner: PodClass, other: PodClass) -> bool:
    """Whether pods of class `other` count towards a constraint of `owner`: same namespace, selected, same keys.

    A selector that asks for nothing counts nothing.
    """
    selector = constraint.label_selector
    keys = [key for key in constraint.match_label_keys if key in owner.labels]
    if other.namespace != owner.namespace or selector is None or (selector.empty and not keys):
        return False
    return selector.matches(other.labels) and all(other.labels.get(key) == owner.labels[key] for key in keys)


SKEWED = "node(s) didn't match pod topology spread constraints"
"""The scheduler's words for a domain that is too full."""
NO_DOMAIN = f"{SKEWED} (missing required label)"
"""The scheduler's words for a node that is in no domain."""


class SpreadGuard:
    """Keeps a class out of domains that would be too full compared with the emptiest."""

    def __init__(
        self,
        constraint: SpreadConstraint,
        cls: PodClass,
        trial: Trial,
        keys: Sequence[str],
        counted: Callable[[PodClass], bool],
    ) -> None:
        self.constraint = constraint
        self.own = 1 if counted(cls) else 0
        """How much a pod of the class adds to the domain it goes to."""
        self.tally = Tally(
            trial,
            constraint.topology_key,
            counted,
            eligible=_eligible(constraint, cls, keys, trial),
            skip_terminating=True,
        )

    @property
    def ceiling(self) -> int:
        """The most pods a domain may hold before one of the class comes."""
        least = self.tally.fewest(self.constraint.min_domains or 1)
        return least + self.constraint.max_skew - self.own

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        return self.tally.has_key(window) & (self.tally.at(window) <= self.ceiling)

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come to the one domain that a template's nodes share, until it is too full.

        Host names are no shared domain: each fresh node is a new one and moves the minimum.
        """
        code = self.tally.shared_code(window, fresh)
        if self.constraint.topology_key == HOSTNAME or code is None:
            return None
        bound = gate(self.mask(window), bool(self.mask(slice(fresh, fresh + 1))[0]))
        if code == ABSENT or self.own == 0 or not self.tally.countable(fresh):
            return bound
        others = self.tally.fewest_but(code, self.constraint.min_domains or 1)
        if others is None:
            return bound
        count = int(self.tally.at(slice(fresh, fresh + 1))[0])
        return msgspec.structs.replace(bound, total=max(0, others + self.constraint.max_skew - count))

    def felt_elsewhere(self, cls: PodClass) -> bool:
        """Whether pods of the class count; see `placement.Guard`."""
        return self.tally.felt_elsewhere(cls)

    def skew(self, position: int) -> int:
        """Return the skew that one more pod of the class would make on a node that has the topology key."""
        count = int(self.tally.at(slice(position, position + 1))[0])
        return count + self.own - self.tally.fewest(self.constraint.min_domains or 1)

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        window = slice(position, position + 1)
        key = self.constraint.topology_key
        if not self.tally.has_key(window)[0]:
            return Rejection(NoFit.SPREAD, NO_DOMAIN, f"the node has no label {key}")
        skew = self.skew(position)
        if skew <= self.constraint.max_skew:
            return None
        return Rejection(
            NoFit.SPREAD, SKEWED, f"its domain of {key} would have skew {skew} > {self.constraint.max_skew}"
        )


def _eligible(constraint: SpreadConstraint, cls: PodClass, keys: Sequence[str], trial: Trial) -> Eligibility:
    by_affinity = constraint.node_affinity_policy != "Ignore"
    by_taints = constraint.node_taints_policy == "Honor"
    mask = np.ones(trial.base, dtype=np.bool_)
    for key in keys:
        mask &= trial.labels(key)[: trial.base] >= 0
    if by_affinity:
        mask &= masks.wanted(cls, trial)[: trial.base]
    if by_taints:
        mask &= masks.tolerated(cls, trial)[: trial.base]

    def judge(node: Node) -> bool:
        if any(key not in node.labels for key in keys):
            return False
        if by_affinity and not wants_node(cls, node.labels, node.name):
            return False
        return not by_taints or untolerated(cls, node.taints) is None

    return Eligibility(mask, judge)


def spread_guards(cls: PodClass, trial: Trial, defaults: Sequence[SpreadConstraint] = ()) -> Iterator[SpreadGuard]:
    """Yield a guard per constraint of the class, or per default one; those count pods of the same controller."""
    keys = [constraint.topology_key for constraint in (*cls.spread, *defaults)]
    for constraint in cls.spread:
        yield SpreadGuard(constraint, cls, trial, keys, _selected_by(constraint, cls))
    for constraint in defaults:
        yield SpreadGuard(constraint, cls, trial, keys, _siblings_of(cls))


def _selected_by(constraint: SpreadConstraint, cls: PodClass) -> Callable[[PodClass], bool]:
    return lambda other: spread_counts(constraint, cls, other)


def _siblings_of(cls: PodClass) -> Callable[[PodClass], bool]:
    return lambda other: other.namespace == cls.namespace and other.owner == cls.owner
