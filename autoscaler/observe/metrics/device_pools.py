"""Counts device pools that differ between nodes and their group's template.

Source: Cluster Autoscaler's comparator of node resources. Device attributes are not read here, so pools of a driver are
distinguished only by their number of devices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from autoscaler.objects.node import Node
from autoscaler.observe.metrics.labels import Mismatch
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.devices import complete_pools, pools_by_node


def mismatches(
    view: ClusterView, ready: Iterable[Node], expected: Mapping[str, Mapping[str, tuple[int, ...]]]
) -> dict[str, Counter[Mismatch]]:
    """Return the differences of ready nodes by driver, including drivers without any.

    `expected` holds the sizes of the pools of a group's node. A driver with an incomplete pool on a node is not
    compared there, because it has not published everything.
    """
    by_driver: dict[str, Counter[Mismatch]] = {}
    if not expected:
        return by_driver
    pools = pools_by_node(view.related.resource_slices)
    for node in ready:
        expected_pools = expected.get(view.groups.of_node.get(node.name, ""))
        if expected_pools is None:
            continue
        node_pools = pools.get(node.name, ())
        actual = complete_pools(node_pools)
        incomplete_drivers = {pool.driver for pool in node_pools if not pool.complete}
        for driver in sorted((expected_pools.keys() | actual.keys()) - incomplete_drivers):
            counts = by_driver.setdefault(driver, Counter())
            counts.update(_differences(expected_pools.get(driver, ()), actual.get(driver, ())))
    return by_driver


def _differences(expected_pools: tuple[int, ...], actual: tuple[int, ...]) -> dict[Mismatch, int]:
    """Return how pools differ by size: equal sizes are matched first, then the others in pairs, then the rest is
    counted.
    """
    missing = Counter(expected_pools)
    missing.subtract(actual)
    lacking = sum(count for count in missing.values() if count > 0)
    surplus = -sum(count for count in missing.values() if count < 0)
    pairs = min(lacking, surplus)
    return {Mismatch.MISMATCH: pairs, Mismatch.MISSING: lacking - pairs, Mismatch.EXTRA: surplus - pairs}
