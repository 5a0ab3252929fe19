"""Finds the young nodes on which a CSI driver that pods will ask for does not run yet.

Source: Cluster Autoscaler's processor of CSI drivers. Unlike there, only drivers count whose CSIDriver keeps pods off
nodes without them, and a node that has had its time to start is judged no more: a driver that is replaced makes no node
unready.
"""

from collections.abc import Mapping

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry.buckets import startup_time_s
from autoscaler.snapshot.cluster import ClusterView


def awaiting_drivers(
    view: ClusterView,
    expected: Mapping[str, frozenset[str]],
    health: HealthOptions,
    rules: Rules,
    now: Instant,
) -> frozenset[str]:
    """Return the names of the nodes; `expected` are the drivers on a new node of a group, by group id."""
    needed = view.related.needed_csi_drivers if rules.needed_csi_drivers_run else frozenset()
    lacking = set()
    for name, group_id in view.groups.of_node.items() if needed else ():
        wanted, node, group = (
            expected.get(group_id, frozenset()) & needed,
            view.node(name),
            view.groups.by_id.get(group_id),
        )
        if not wanted or node is None or group is None:
            continue
        csi_node = view.related.csi_nodes.get(name)
        there = frozenset() if csi_node is None else csi_node.driver_names
        if not wanted <= there and now.wall < node.created + startup_time_s(group, health, rules):
            lacking.add(name)
    return frozenset(lacking)
