"""Decides whether the cluster or a group has too many unready nodes to be scaled."""

from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry.buckets import Buckets
from autoscaler.registry.requests import AcceptableRange


def cluster_is_healthy(cluster: Buckets, health: HealthOptions) -> bool:
    """Whether the number or the share of unready nodes is small enough."""
    return not _too_many(len(cluster.unready), len(cluster.registered), health)


def group_is_healthy(buckets: Buckets, acceptable: AcceptableRange, health: HealthOptions) -> bool:
    """Whether few enough of the group's expected nodes are missing or unready."""
    if buckets.empty:
        return acceptable.target == 0 or (acceptable.min_nodes == 0 and acceptable.target > 0)
    working = len(buckets.ready) + len(buckets.suspended)
    unjustified = max(0, acceptable.min_nodes - working)
    return not _too_many(unjustified, working + len(buckets.unready) + len(buckets.not_started), health)


def _too_many(count: int, of: int, health: HealthOptions) -> bool:
    share = health.max_total_unready_percentage / 100.0
    return count > health.ok_total_unready_count and count > share * of
