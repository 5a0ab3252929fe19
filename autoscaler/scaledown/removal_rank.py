"""Which of several nodes that may go should go first."""

from collections.abc import Callable, Mapping

from autoscaler.objects.node import Node
from autoscaler.snapshot.groups import Group

_DAY_S = 86_400.0

Rank = tuple[float, ...]
"""The lower, the earlier; equal for nodes between which nothing chooses."""
RankNode = Callable[[Node, str, bool, int], Rank]
"""The rank of a node, from its group's id, whether it is ready, and how many pods have to move."""


def removal_rank(groups: Mapping[str, Group], wall: float) -> RankNode:
    """Return the ranking at `wall` (Unix seconds): unready nodes, dearer ones, older ones, those with fewer pods.

    Age counts in whole days. A node without a price counts as free.
    """
    prices = {group_id: -(group.node_price or 0.0) for group_id, group in groups.items()}

    def rank(node: Node, group: str, ready: bool, pods: int) -> Rank:
        return float(ready), prices.get(group, 0.0), -((wall - node.created) // _DAY_S), float(pods)

    return rank


def same_rank(node: Node, group: str, ready: bool, pods: int) -> Rank:
    """Rank all nodes equally."""
    return ()
