"""The two taints of scale-down: the hard one on nodes that are being deleted, the soft one on unneeded nodes.

Both carry a time, in Unix seconds, as their value.
"""

from collections.abc import Iterable, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.node import DELETION_CANDIDATE, TO_BE_DELETED, Node
from autoscaler.snapshot.groups import Groups
from cloudprovider.number import parse_count

_STUCK_AFTER_S = 300.0
"""How long a deletion may take before its node counts as any other again."""


class SoftTaint(msgspec.Struct, frozen=True):
    """A node to mark, and since when it is unneeded (Unix seconds): the taint's value."""

    node: str
    since: int


class SoftTaints(msgspec.Struct, frozen=True):
    """Which nodes to mark as unneeded, and which no longer; the latter come first."""

    untaint: tuple[str, ...] = ()
    taint: tuple[SoftTaint, ...] = ()


def taint_time(node: Node, key: str) -> float | None:
    """Return the time in the node's taint of this key; None without such a taint or with a value that is no time."""
    taint = node.taint(key)
    seconds = None if taint is None else parse_count(taint.value)
    return None if seconds is None else float(seconds)


def being_deleted(node: Node, wall: float) -> bool:
    """Whether the node was marked for deletion less than five minutes ago; after that it counts as stuck."""
    marked = taint_time(node, TO_BE_DELETED)
    return marked is not None and wall - marked < _STUCK_AFTER_S


def plan_soft_taints(
    nodes: Iterable[Node], groups: Groups, unneeded: Mapping[str, Instant], most: int | None
) -> SoftTaints:
    """Return which soft taints to change, at most `most` (None: all).

    Nodes of no group and nodes on their way out are left alone; taints that are there stay as they are, so that their
    time survives.
    """
    tainted: list[str] = []
    settled: set[str] = set()
    present: set[str] = set()
    for node in nodes:
        present.add(node.name)
        if not node.taints:
            continue
        if node.taint(TO_BE_DELETED) is not None:
            settled.add(node.name)
        elif node.taint(DELETION_CANDIDATE) is not None:
            settled.add(node.name)
            if node.name in groups.of_node and node.name not in unneeded:
                tainted.append(node.name)
    missing = tuple(
        SoftTaint(name, int(since.wall))
        for name, since in unneeded.items()
        if name in present and name in groups.of_node and name not in settled
    )
    if most is None:
        return SoftTaints(tuple(tainted), missing)
    untaint = tuple(tainted[:most])
    return SoftTaints(untaint, missing[: most - len(untaint)])
