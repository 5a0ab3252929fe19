"""Counts device pools in which nodes differ from their group's template.

Source: Cluster Autoscaler's comparator of node resources. Attributes of devices are not read here, so pools of a driver
are told apart by their number of devices alone.
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
    """Return differences of ready nodes by driver, also of drivers that have none.

    `expected` has the sizes of the pools of a group's node. A driver that is still at work on a node, with a pool
    that is not complete, is not compared there.
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
    """Return how pools differ, by their sizes: equal ones first, then others in pairs, and what is left over."""
    missing = Counter(expected_pools)
    missing.subtract(actual)
    lacking = sum(count for count in missing.values() if count > 0)
    surplus = -sum(count for count in missing.values() if count < 0)
    pairs = min(lacking, surplus)
    return {Mismatch.MISMATCH: pairs, Mismatch.MISSING: lacking - pairs, Mismatch.EXTRA: surplus - pairs}
