"""Spreads new nodes over similar groups so that their sizes become similar."""

from collections.abc import Mapping, Sequence

from autoscaler.scaleup.limits import Allowance
from autoscaler.snapshot.contribution import Contribution
from autoscaler.snapshot.groups import Group


def balance(groups: Sequence[Group], nodes: int) -> Mapping[str, int]:
    """Return by how much each group grows: one node after the other to the smallest group that is not full.

    Groups that do not grow are left out, the smallest group comes first; nodes for which no group has room are
    dropped. Among groups of one size the first given wins, with one twist that Cluster Autoscaler has: a group
    found to be full changes places with the first of those still open.
    """
    smallest_first = sorted((group for group in groups if group.room > 0), key=lambda group: group.target_size)
    sizes = {group.id: group.target_size for group in smallest_first}
    open_groups = list(smallest_first)
    nodes = min(nodes, sum(group.room for group in open_groups))
    index = 0
    while nodes > 0:
        group = open_groups[index]
        if sizes[group.id] < group.max_size:
            sizes[group.id] += 1
            nodes -= 1
        else:
            open_groups[index] = open_groups[0]
            del open_groups[0]
            index -= 1
        # The groups before `at` have all grown to the same size; a smaller one that follows is next in turn.
        larger = 0 <= index < len(open_groups) - 1 and sizes[open_groups[index].id] > sizes[open_groups[index + 1].id]
        index = index + 1 if larger else 0
    growth = {group.id: sizes[group.id] - group.target_size for group in smallest_first}
    return {group_id: increase for group_id, increase in growth.items() if increase > 0}


def within_limits(
    increases: Mapping[str, int], needs: Mapping[str, Contribution], allowance: Allowance
) -> Mapping[str, int]:
    """Return the increases that limits allow, each taking its share before the next is considered.

    What one group may not have is not given to another. `needs` says what one node of each group adds.
    """
    capped: dict[str, int] = {}
    for group_id, increase in increases.items():
        allowed = allowance.cap(needs[group_id], increase)
        if allowed > 0:
            capped[group_id] = allowed
            allowance = allowance.after(needs[group_id], allowed)
    return capped
