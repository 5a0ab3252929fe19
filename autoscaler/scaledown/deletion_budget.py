"""How many removals may begin now: atomic groups first, then single empty nodes, then drains.

Source: Cluster Autoscaler's `core/scaledown/budgets`; limits on the rate of removals are ours.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from autoscaler.config.scaledown import ScaleDown
from autoscaler.reasons import UnremovableNode, UnremovableReason
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.plan import OngoingRemovals, Removal
from autoscaler.scaledown.removal_rates import Rates


class BudgetedRemovals(msgspec.Struct, frozen=True):
    """Removals that may begin, and why others may not."""

    empty: tuple[Removal, ...] = ()
    drained: tuple[Removal, ...] = ()
    kept: Mapping[str, UnremovableNode] = {}


class _AtomicBucket(msgspec.Struct, frozen=True):
    """Nodes of one group that are removed together."""

    empty: tuple[Removal, ...]
    drained: tuple[Removal, ...]

    @property
    def size(self) -> int:
        return len(self.empty) + len(self.drained)


class _DeletionBudget:
    """What may still begin."""

    def __init__(
        self, options: ScaleDown, under_way: OngoingRemovals, rates: Rates, disruptions: RemainingPdbTracker
    ) -> None:
        in_all = under_way.empty_count + under_way.drained_count
        self._disruptions = disruptions
        self._draining = under_way.drained_count > 0
        self.nodes = options.max_scale_down_parallelism - in_all
        self.drains = options.max_drain_parallelism - under_way.drained_count
        self._options = options
        self._rates = rates
        self._may_overflow = True
        self.empty: list[Removal] = []
        self.drained: list[Removal] = []
        self.kept: dict[str, UnremovableNode] = {}

    def allows(self, bucket: _AtomicBucket) -> bool:
        """Whether the bucket may be removed beside the removals under way; empty nodes need no drain."""
        return bucket.size <= self.nodes and (not bucket.drained or len(bucket.drained) <= self.drains)

    def allows_group(self, bucket: _AtomicBucket) -> bool:
        """Whether an atomic group may go; the first may exceed what is left, so that big groups are not starved."""
        overflows = self._may_overflow and self.nodes > 0 and (not bucket.drained or self.drains > 0)
        return self.allows(bucket) or overflows

    def start_single(self, removal: Removal) -> None:
        """Accept a node, unless a drain under way may need the disruptions that its pods need, or too many began."""
        bucket = _AtomicBucket((), (removal,)) if removal.drained else _AtomicBucket((removal,), ())
        if not self.allows(bucket):
            self.keep_beyond(bucket)
        elif self._draining and not self._disruptions.allow_at_once(removal.pods):
            self.keep(bucket, UnremovableReason.SHARED_BUDGET, "nodes with pods of the same budget are being drained")
        else:
            self.begin(removal.group, bucket)

    def begin(self, group: str, bucket: _AtomicBucket) -> bool:
        """Accept removals; return False where too many began within the minute."""
        wait_s = self._rates.wait_s(group, bucket.size)
        if wait_s > 0:
            detail = f"too many removals began within a minute; the next may in {wait_s:.0f}s"
            self.keep(bucket, UnremovableReason.TOO_MANY_A_MINUTE, detail, wait_s)
            return False
        self._rates.take(group, bucket.size)
        self.nodes -= bucket.size
        self.drains -= len(bucket.drained)
        self.empty += bucket.empty
        self.drained += bucket.drained
        self._draining = self._draining or bool(bucket.drained)
        for removal in bucket.drained:
            self._disruptions.take(removal.pods)
        return True

    def start_atomic(self, group: str, bucket: _AtomicBucket) -> None:
        """Accept an atomic group, unless too many removals began within the minute."""
        if self.begin(group, bucket):
            self._may_overflow = False

    def keep(
        self, bucket: _AtomicBucket, reason: UnremovableReason, detail: str, time_left_s: float | None = None
    ) -> None:
        """Note why nodes stay."""
        for removal in (*bucket.empty, *bucket.drained):
            name = removal.node.name
            self.kept[name] = UnremovableNode(name, reason, detail, None, None, removal.utilization, time_left_s)

    def keep_beyond(self, bucket: _AtomicBucket) -> None:
        """Note that nodes stay because others go."""
        most, drains = self._options.max_scale_down_parallelism, self._options.max_drain_parallelism
        self.keep(
            bucket,
            UnremovableReason.MAX_DELETIONS,
            f"at most {most} nodes are removed at a time, {drains} of them drained",
        )


def within_budgets(
    empty: Sequence[Removal],
    drained: Sequence[Removal],
    options: ScaleDown,
    under_way: OngoingRemovals,
    rates: Rates,
    disruptions: RemainingPdbTracker,
    is_atomic: Callable[[str, int], bool],
) -> BudgetedRemovals:
    """Return which of these removals begin now.

    `disruptions` holds what disruption budgets leave beside the removals under way; this charges it.
    `is_atomic(group, count)` says whether that is every node of the group. Atomic groups come first, those with empty
    nodes before others; the first that the budget does not allow holds back all that follow.
    """
    budget = _DeletionBudget(options, under_way, rates, disruptions)
    atomic = _buckets(
        (removal for removal in empty if removal.atomic), (removal for removal in drained if removal.atomic)
    )
    for having_empty in (True, False):
        turn = True
        for group, bucket in atomic.items():
            if bool(bucket.empty) is not having_empty:
                continue
            turn = turn and budget.allows_group(bucket)
            if turn and is_atomic(group, bucket.size):
                budget.start_atomic(group, bucket)
            else:
                budget.keep_beyond(bucket)
    for removal in (*empty, *drained):
        if not removal.atomic:
            budget.start_single(removal)
    return BudgetedRemovals(tuple(budget.empty), tuple(budget.drained), budget.kept)


def _buckets(empty: Iterable[Removal], drained: Iterable[Removal]) -> Mapping[str, _AtomicBucket]:
    buckets: dict[str, _AtomicBucket] = {}
    for removal in empty:
        bucket = buckets.get(removal.group, _AtomicBucket((), ()))
        buckets[removal.group] = _AtomicBucket((*bucket.empty, removal), bucket.drained)
    for removal in drained:
        bucket = buckets.get(removal.group, _AtomicBucket((), ()))
        buckets[removal.group] = _AtomicBucket(bucket.empty, (*bucket.drained, removal))
    return buckets
