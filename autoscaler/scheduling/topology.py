"""Topology spread constraints that forbid (`whenUnsatisfiable: DoNotSchedule`).

Skew is the count of matching pods in a domain, this pod included, over the smallest count of any domain. Only nodes
that have every topology key of the pod, and pass its inclusion policies, make up domains. Source: the scheduler's
PodTopologySpread plug-in.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from autoscaler.objects.matching import untolerated, wants_node
from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import SpreadConstraint
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling import masks
from autoscaler.scheduling.bounds import Bound, gate
from autoscaler.scheduling.class_selection import selection_for, siblings
from autoscaler.scheduling.domains import CountedClasses, DomainTallies, Eligibility
from autoscaler.snapshot.columns import ABSENT, Mask
from autoscaler.snapshot.overlay import Trial

SKEWED = "node(s) didn't match pod topology spread constraints"
"""The scheduler's words for a domain that is too full."""
NO_DOMAIN = f"{SKEWED} (missing required label)"
"""The scheduler's words for a node that is in no domain."""


class SpreadGuard:
    """Keeps a class out of domains that would be too full compared with the emptiest."""

    def __init__(
        self, constraint: SpreadConstraint, counted: CountedClasses, eligible: Eligibility, *, itself: bool
    ) -> None:
        """`itself`: whether pods of the class are among those that are counted."""
        self.constraint = constraint
        self.own = 1 if itself else 0
        """How much a pod of the class adds to the domain it goes to."""
        self.tally = counted.tally(constraint.topology_key, eligible)

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

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """Whether pods of the class count; see `placement.Guard`."""
        return self.tally.affects_other_nodes(cls)

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


class SpreadNodes:
    """The nodes that make up domains for a class, by inclusion policies."""

    def __init__(self, cls: PodClass, keys: Iterable[str], trial: Trial) -> None:
        self._cls = cls
        self._keys = tuple(dict.fromkeys(keys))
        self._trial = trial
        self._known: dict[tuple[bool, bool], Eligibility] = {}

    def of(self, constraint: SpreadConstraint) -> Eligibility:
        """Return the nodes that a constraint of the class counts."""
        by_affinity = constraint.node_affinity_policy != "Ignore"
        by_taints = constraint.node_taints_policy == "Honor"
        known = self._known.get((by_affinity, by_taints))
        if known is None:
            known = self._known[by_affinity, by_taints] = self._eligible(by_affinity=by_affinity, by_taints=by_taints)
        return known

    def _eligible(self, *, by_affinity: bool, by_taints: bool) -> Eligibility:
        cls, keys, trial = self._cls, self._keys, self._trial
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


def spread_guards(
    cls: PodClass, tallies: DomainTallies, defaults: Sequence[SpreadConstraint] = ()
) -> Iterator[SpreadGuard]:
    """Yield a guard per constraint of the class, or per default one; those count pods of the same controller."""
    nodes = SpreadNodes(cls, [constraint.topology_key for constraint in (*cls.spread, *defaults)], tallies.trial)
    for constraint in cls.spread:
        about = selection_for(constraint, cls)
        yield SpreadGuard(constraint, tallies.counted((about,)), nodes.of(constraint), itself=about.covers(cls))
    for constraint in defaults:
        yield SpreadGuard(constraint, tallies.counted((siblings(cls),)), nodes.of(constraint), itself=True)
