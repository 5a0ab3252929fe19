"""Infers the node groups of a cluster from its nodes.

Every platform marks the nodes of a group with a label (Cluster API with annotations). Nodes of one pool but of several
zones or machine types may be of one group or of several; here they are told apart as the platform's own groups are:
GKE has an instance group for each zone, and a group whose machines differ cannot have one template, so each type of
machine is taken for a group of its own. How far a group may grow, what it costs, and groups that have no node at the
moment cannot be seen on nodes.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from autoscaler.objects.node import INSTANCE_TYPES, ZONES

_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_GROWTH, _LEAST_ROOM = 2, 10
"""How far a group may grow that does not say: to twice its size, and by ten nodes at least."""


class PlatformMark(NamedTuple):
    """How a platform marks the nodes of one group."""

    platform: str
    key: str
    """The label, or the annotation."""
    per_zone: bool = False
    """Whether each zone has a group of its own."""
    annotates: bool = False


MARKS = (
    PlatformMark("kwok", "kwok-nodegroup"),
    PlatformMark("Karpenter", "karpenter.sh/nodepool"),
    PlatformMark("Karpenter", "karpenter.sh/provisioner-name"),
    PlatformMark("EKS", "eks.amazonaws.com/nodegroup"),
    PlatformMark("eksctl", "alpha.eksctl.io/nodegroup-name"),
    PlatformMark("GKE", "cloud.google.com/gke-nodepool", per_zone=True),
    PlatformMark("AKS", "kubernetes.azure.com/agentpool"),
    PlatformMark("AKS", "agentpool"),
    PlatformMark("kops", "kops.k8s.io/instancegroup"),
    PlatformMark("DigitalOcean", "doks.digitalocean.com/node-pool"),
    PlatformMark("Linode", "lke.linode.com/pool-id"),
    PlatformMark("Scaleway", "k8s.scaleway.com/pool-name"),
    PlatformMark("IBM Cloud", "ibm-cloud.kubernetes.io/worker-pool-name"),
    PlatformMark("Exoscale", "node.exoscale.net/nodepool-id"),
    PlatformMark("Alibaba Cloud", "alibabacloud.com/nodepool-id"),
    PlatformMark("Cluster API", "cluster.x-k8s.io/owner-name", annotates=True),
    PlatformMark("static", "static.autoscaler/node-group", annotates=True),
)
"""The first that a node carries tells its group."""


class ObservedNode(NamedTuple):
    """What is looked at of a node."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class GroupSizes(NamedTuple):
    """Limits of a group, as a flag gives them."""

    least: int
    most: int


class InferredGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node group that was told from nodes."""

    id: str
    platform: str
    label: str
    """The label or annotation that told it."""
    nodes: int
    """How many there are."""
    min_size: int
    max_size: int
    unknown: tuple[str, ...]
    """What had to be assumed, or is left out."""


class Inference(msgspec.Struct, frozen=True, kw_only=True):
    """The groups of a cluster."""

    groups: tuple[InferredGroup, ...]
    """By id."""
    of_node: Mapping[str, str]
    control_plane: tuple[str, ...]
    """Nodes that no autoscaler touches."""
    ungrouped: tuple[str, ...]
    """Nodes that carry no mark."""


class _Pool(NamedTuple):
    platform: str
    key: str
    name: str


def infer_groups(nodes: Sequence[ObservedNode], sizes: Mapping[str, GroupSizes]) -> Inference:
    """Tell the groups; `sizes` are limits by group id, or by the name in the label for all groups of it."""
    pools: dict[_Pool, list[ObservedNode]] = defaultdict(list)
    control_plane, ungrouped = [], []
    for node in nodes:
        if any(role in node.labels for role in _CONTROL_PLANE):
            control_plane.append(node.name)
        elif (pool := _pool(node)) is not None:
            pools[pool].append(node)
        else:
            ungrouped.append(node.name)
    groups: dict[str, InferredGroup] = {}
    of_node: dict[str, str] = {}
    for pool, members in pools.items():
        for group_id, part in _parts(pool, members).items():
            groups[group_id] = _group(pool, group_id, len(part), sizes)
            of_node.update((node.name, group_id) for node in part)
    return Inference(
        groups=tuple(groups[group_id] for group_id in sorted(groups)),
        of_node=of_node,
        control_plane=tuple(control_plane),
        ungrouped=tuple(ungrouped),
    )


def _pool(node: ObservedNode) -> _Pool | None:
    for mark in MARKS:
        if name := (node.annotations if mark.annotates else node.labels).get(mark.key):
            zone = _first(node.labels, ZONES) if mark.per_zone else ""
            return _Pool(mark.platform, mark.key, f"{name}/{zone}" if zone else name)
    return None


def _parts(pool: _Pool, members: Sequence[ObservedNode]) -> Mapping[str, Sequence[ObservedNode]]:
    """Return the nodes of each group of a pool: one, or one for each type of machine."""
    by_type: dict[str, list[ObservedNode]] = defaultdict(list)
    for node in members:
        by_type[_first(node.labels, INSTANCE_TYPES)].append(node)
    if len(by_type) == 1:
        return {pool.name: members}
    return {f"{pool.name}/{kind or 'unknown-type'}": part for kind, part in by_type.items()}


def _group(pool: _Pool, group_id: str, count: int, sizes: Mapping[str, GroupSizes]) -> InferredGroup:
    known = sizes.get(group_id) or sizes.get(pool.name) or sizes.get(pool.name.partition("/")[0])
    least, most = known or GroupSizes(0, max(_GROWTH * count, count + _LEAST_ROOM))
    assumed = () if known else ("minSize", "maxSize")
    return InferredGroup(
        id=group_id,
        platform=pool.platform,
        label=pool.key,
        nodes=count,
        min_size=least,
        max_size=most,
        unknown=(*assumed, "pricePerHour"),
    )


def _first(labels: Mapping[str, str], keys: Sequence[str]) -> str:
    return next((labels[key] for key in keys if key in labels), "")
