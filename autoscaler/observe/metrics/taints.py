"""Taints on nodes by type, for the metric node_taints_count."""

from collections import Counter
from collections.abc import Iterable

from autoscaler.objects.node import DELETION_CANDIDATE, TO_BE_DELETED, Node
from autoscaler.snapshot.template import PassingTaints

_IGNORE_PREFIX = "ignore-taint.cluster-autoscaler.kubernetes.io/"


def count_taints(nodes: Iterable[Node], passing: PassingTaints) -> dict[str, int]:
    """Count taints by the types Cluster Autoscaler reports, first match wins.

    Those with the ignore prefix count under it, the autoscaler's own and node conditions under their key, then
    `startup-taint`, `status-taint` and `other`.
    """
    return dict(Counter(_type(taint.key, passing) for node in nodes for taint in node.taints))


def _type(key: str, passing: PassingTaints) -> str:
    if key.startswith(_IGNORE_PREFIX):
        return _IGNORE_PREFIX
    if key in (TO_BE_DELETED, DELETION_CANDIDATE) or key in passing.condition:
        return key
    if passing.is_startup(key):
        return "startup-taint"
    return "status-taint" if passing.is_status(key) else "other"
