"""Ranks remedies: those that need the least work and change the pod the least come first."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from autoscaler.explain.remedies import changes as c
from autoscaler.explain.remedies.remedy import Remedy
from autoscaler.objects import quantity
from autoscaler.objects.node import ZONES

_MOST = 4
_FURTHER = 2
"""Remedies that need this much more effort than the best one are left out."""
_EFFORT: Mapping[type[c.Change], int] = {
    c.CreateClaim: 0,
    c.CreateStorageClass: 0,
    c.SelectLabel: 1,
    c.Uncordon: 1,
    c.Wait: 1,
    c.AddGroup: 4,
    c.DeletePod: 4,
    c.DropFromPod: 5,
}
_MIDDLING = 2
_ELSEWHERE = 3
"""The effort to use another zone: this corrects no misspelling, it changes a choice."""
_WITHOUT = 6
"""The effort to do without a resource: the pod loses something essential."""


def best_first(ways: Sequence[Remedy]) -> Iterator[Remedy]:
    """Yield ways to help a pod, least effort first; of equal ones, the nearest miss comes first."""
    efforts = {id(way): [_effort(change) for change in way.changes] for way in ways}
    least = min((max(effort) for effort in efforts.values() if effort), default=0)
    for way in sorted(ways, key=lambda way: (max(efforts[id(way)], default=_WITHOUT + 1), sum(efforts[id(way)]))):
        if max(efforts[id(way)], default=0) <= least + _FURTHER:
            yield way


def _effort(change: c.AnyChange) -> int:
    if isinstance(change, c.LimitRequest) and change.drops:
        return _WITHOUT
    if isinstance(change, c.SelectLabel) and change.wrong_key in ZONES:
        return _ELSEWHERE
    return _EFFORT.get(type(change), _MIDDLING)


def shortlist(remedies: Iterator[Remedy]) -> list[Remedy]:
    """Return the first few remedies; those that name a change come before the others.

    A remedy is left out if an earlier one needs no further changes and leaves at least as much of each request.
    """
    different: list[Remedy] = []
    for option in remedies:
        if not any(_includes(option, other) for other in different):
            different.append(option)
    return sorted(different, key=lambda option: not option.changes)[:_MOST]


def _includes(option: Remedy, other: Remedy) -> bool:
    if not option.changes or not other.changes:
        return option.changes == other.changes
    if not _subjects(other.changes) <= _subjects(option.changes):
        return False
    left, left_by_other = _left(option.changes), _left(other.changes)
    return all(left[limited] <= amount for limited, amount in left_by_other.items())


def _left(changes: Collection[c.AnyChange]) -> Mapping[tuple[str, str], int]:
    """Return the remaining requests by pod and resource."""
    limits = [change for change in changes if isinstance(change, c.LimitRequest)]
    return {(limit.pod, limit.resource): quantity.amount(limit.resource, limit.at_most) for limit in limits}


def _subjects(changes: Collection[c.AnyChange]) -> set[tuple[str, ...]]:
    """Return what is changed, without amounts and places."""
    return {tuple(map(str, _subject(change))) for change in changes}


def _subject(change: c.AnyChange) -> tuple[object, ...]:
    match change:
        case c.LimitRequest():
            return c.LimitRequest, change.pod, change.resource, change.drops
        case c.SelectLabel():
            return c.SelectLabel, change.pod, change.wrong_key
        case c.AddGroup():
            return (c.AddGroup,)
        case c.Wait():
            return (c.Wait,)
        case _:
            return type(change), *msgspec.structs.astuple(change)
