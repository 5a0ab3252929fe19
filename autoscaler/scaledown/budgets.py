"""How many removals may begin now: all of a group that goes as a whole, then single empty nodes, then drains.

Source: Cluster Autoscaler's `core/scaledown/budgets`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from autoscaler.config.scaledown import ScaleDown
from autoscaler.scaledown.plan import Removal, UnderWay


class Started(msgspec.Struct, frozen=True):
    """Removals that may begin."""

    empty: tuple[Removal, ...] = ()
    drained: tuple[Removal, ...] = ()


class _Bucket(msgspec.Struct, frozen=True):
    """The nodes of one group."""

    empty: tuple[Removal, ...]
    drained: tuple[Removal, ...]

    @property
    def size(self) -> int:
        return len(self.empty) + len(self.drained)


class _Purse:
    """What may still begin."""

    def __init__(self, options: ScaleDown, under_way: UnderWay) -> None:
        in_all = under_way.empty_count + under_way.drained_count
        self.nodes = options.max_scale_down_parallelism - in_all
        self.drains = options.max_drain_parallelism - under_way.drained_count
        self._may_overflow = True

    def affords(self, bucket: _Bucket) -> bool:
        """Whether a whole group may go; the first may cost more than is left, so that big groups get their turn."""
        drains = len(bucket.drained)
        if bucket.size <= self.nodes and drains <= self.drains:
            return True
        return self._may_overflow and self.nodes > 0 and (drains == 0 or self.drains > 0)

    def pay(self, bucket: _Bucket) -> None:
        self.nodes -= bucket.size
        self.drains -= len(bucket.drained)
        self._may_overflow = False


def within_budgets(
    empty: Sequence[Removal],
    drained: Sequence[Removal],
    options: ScaleDown,
    under_way: UnderWay,
    goes_whole: Callable[[str, int], bool],
) -> Started:
    """Return which of these removals begin now.

    `goes_whole` tells whether so many nodes are all of a group. Groups that go as a whole come first, those with empty
    nodes before others; one that cannot be afforded ends their turn.
    """
    purse = _Purse(options, under_way)
    whole = _buckets((one for one in empty if one.atomic), (one for one in drained if one.atomic))
    started_empty: list[Removal] = []
    started_drained: list[Removal] = []
    for having_empty in (True, False):
        for group, bucket in whole.items():
            if bool(bucket.empty) is not having_empty:
                continue
            if not purse.affords(bucket):
                break
            if not goes_whole(group, bucket.size):
                continue
            started_empty += bucket.empty
            started_drained += bucket.drained
            purse.pay(bucket)
    single = _by_group(one for one in empty if not one.atomic)[: max(0, purse.nodes)]
    started_empty += single
    drains = min(purse.nodes - len(single), purse.drains)
    started_drained += _by_group(one for one in drained if not one.atomic)[: max(0, drains)]
    return Started(tuple(started_empty), tuple(started_drained))


def _buckets(empty: Iterable[Removal], drained: Iterable[Removal]) -> Mapping[str, _Bucket]:
    found: dict[str, _Bucket] = {}
    for one in empty:
        bucket = found.get(one.group, _Bucket((), ()))
        found[one.group] = _Bucket((*bucket.empty, one), bucket.drained)
    for one in drained:
        bucket = found.get(one.group, _Bucket((), ()))
        found[one.group] = _Bucket(bucket.empty, (*bucket.drained, one))
    return found


def _by_group(removals: Iterable[Removal]) -> list[Removal]:
    """Return removals group after group, groups in order of their first node."""
    groups: dict[str, list[Removal]] = {}
    for one in removals:
        groups.setdefault(one.group, []).append(one)
    return [one for members in groups.values() for one in members]
