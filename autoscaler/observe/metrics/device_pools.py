"""Counts device pools in which nodes differ from their group's template.

Source: Cluster Autoscaler's comparator of node resources. Attributes of devices are not read here, so pools of a driver
are told apart by their number of devices alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from autoscaler.objects.node import Node
from autoscaler.observe.metrics.definitions import Mismatch
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.devices import complete_pools, pools_by_node


def mismatches(
    view: ClusterView, ready: Iterable[Node], expected: Mapping[str, Mapping[str, tuple[int, ...]]]
) -> dict[str, Counter[Mismatch]]:
    """Return differences of ready nodes by driver, also of drivers that have none.

    `expected` has the sizes of the pools of a group's node. A driver that is still at work on a node, with a pool
    that is not complete, is not compared there.
    """
    found: dict[str, Counter[Mismatch]] = {}
    if not expected:
        return found
    pools = pools_by_node(view.related.resource_slices)
    for node in ready:
        promised = expected.get(view.groups.of_node.get(node.name, ""))
        if promised is None:
            continue
        own = pools.get(node.name, ())
        there = complete_pools(own)
        at_work = {pool.driver for pool in own if not pool.complete}
        for driver in sorted((promised.keys() | there.keys()) - at_work):
            counts = found.setdefault(driver, Counter())
            counts.update(_differences(promised.get(driver, ()), there.get(driver, ())))
    return found


def _differences(promised: tuple[int, ...], there: tuple[int, ...]) -> dict[Mismatch, int]:
    """Return how pools differ, by their sizes: equal ones first, then others in pairs, and what is left over."""
    missing = Counter(promised)
    missing.subtract(there)
    lacking = sum(count for count in missing.values() if count > 0)
    surplus = -sum(count for count in missing.values() if count < 0)
    pairs = min(lacking, surplus)
    return {Mismatch.MISMATCH: pairs, Mismatch.MISSING: lacking - pairs, Mismatch.EXTRA: surplus - pairs}
