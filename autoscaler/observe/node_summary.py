"""Summarises the nodes of one pass for people: stage, utilisation, and the reason why each stays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.node import DELETION_CANDIDATE, readiness
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import NodeState, NodeStatus, Stay
from autoscaler.reasons import UnremovableNode
from autoscaler.registry.buckets import Buckets
from autoscaler.registry.state import Registry
from autoscaler.scaledown.taints import taint_time
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import Columns
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES

UtilizationShares = Sequence[float | None]
"""Requested / allocatable by node position; None if the node has none of the resource."""

_DIGITS = 4


class NodeVerdicts(msgspec.Struct, frozen=True):
    """The verdicts of scale-down on nodes, by name."""

    stays: Mapping[str, Stay] = {}
    unneeded_since_at: Mapping[str, float] = {}


def node_statuses(view: ClusterView, registry: Registry, verdicts: NodeVerdicts) -> tuple[NodeStatus, ...]:
    """Return the nodes in the view's order, then the machines that may still become nodes, under their instance id."""
    machines = (
        NodeStatus(name=machine, group=group, state=NodeState.UPCOMING)
        for group, state in registry.groups.items()
        for machine in state.buckets.unregistered
    )
    return (*_nodes(view, _states(registry.cluster), verdicts), *machines)


def verdicts_of(report: PassReport, previous: Iterable[NodeStatus]) -> NodeVerdicts:
    """Return why nodes stay, and since when the others are unneeded: from `previous` if it knows, otherwise from
    the soft taint.
    """
    wall = report.now.wall
    known = {node.name: node.unneeded_since_at for node in previous if node.unneeded_since_at is not None}
    since_at = {}
    for removal in report.scale_down.unneeded:
        node = removal.node
        tainted_at = taint_time(node, DELETION_CANDIDATE)
        since_at[node.name] = known.get(node.name, min(wall, wall if tainted_at is None else tainted_at))
    return NodeVerdicts({name: _stay(kept) for name, kept in report.scale_down.unremovable.items()}, since_at)


def _stay(kept: UnremovableNode) -> Stay:
    if kept.pod is None:
        return Stay(kept.reason.value, kept.detail)
    culprit = kept.pod if kept.pod_reason is None else f"{kept.pod} ({kept.pod_reason})"
    return Stay(kept.reason.value, f"{culprit}: {kept.detail}" if kept.detail else culprit)


def unjudged_node_statuses(view: ClusterView) -> tuple[NodeStatus, ...]:
    """Return the nodes by their own conditions only, for a pass that ended before it judged them."""
    states = {node.name: NodeState.READY if readiness(node).ready else NodeState.UNREADY for node in view.nodes}
    return tuple(_nodes(view, states, NodeVerdicts()))


def _nodes(view: ClusterView, states: Mapping[str, NodeState], verdicts: NodeVerdicts) -> Iterator[NodeStatus]:
    columns, owners = view.columns, view.groups.of_node
    stays, unneeded = verdicts.stays, verdicts.unneeded_since_at
    shares = zip(
        view.nodes,
        _shares(columns, quantity.CPU),
        _shares(columns, quantity.MEMORY),
        _gpu_shares(columns),
        strict=True,
    )
    for node, cpu, memory, gpu in shares:
        name = node.name
        yield NodeStatus(
            name=name,
            group=owners.get(name),
            state=states[name],
            cpu_utilization=cpu,
            memory_utilization=memory,
            gpu_utilization=gpu,
            stays=stays.get(name),
            unneeded_since_at=unneeded.get(name),
        )


def _states(cluster: Buckets) -> dict[str, NodeState]:
    buckets = (
        (NodeState.READY, cluster.ready),
        (NodeState.UNREADY, cluster.unready),
        (NodeState.NOT_STARTED, cluster.not_started),
        (NodeState.SUSPENDED, cluster.suspended),
        (NodeState.BEING_DELETED, cluster.deleted),
    )
    return {name: state for state, names in buckets for name in names}


def _shares(columns: Columns, resource: str) -> UtilizationShares:
    row = columns.vocabulary.rows.get(resource)
    if row is None or row >= len(columns.allocatable):
        return [None] * columns.allocatable.shape[1]
    allocatable = columns.allocatable[row]
    shares = np.round(columns.used[row] / np.maximum(allocatable, 1), _DIGITS).tolist()
    if bool((allocatable > 0).all()):
        return list(shares)
    return [share if exists else None for share, exists in zip(shares, (allocatable > 0).tolist(), strict=True)]


def _gpu_shares(columns: Columns) -> UtilizationShares:
    """Return the utilisation of each node's GPUs; if a node has several GPU resources, the first one counts."""
    gpu_shares: list[float | None] = [None] * columns.allocatable.shape[1]
    for resource in ALL_GPU_RESOURCES:
        if resource in columns.vocabulary.rows:
            shares = _shares(columns, resource)
            gpu_shares = [share if known is None else known for known, share in zip(gpu_shares, shares, strict=True)]
    return gpu_shares
