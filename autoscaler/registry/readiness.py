"""Decides whether a node is usable: ready, without startup taints, with its GPUs and devices.

The behaviour is Cluster Autoscaler's: a ready, uncordoned node that fails any other condition counts as not ready since
its creation. Judging a node costs microseconds, so the previous pass's reading is reused for every node that is still
the same object.
"""

from collections.abc import Iterator, Mapping

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import TemplateOptions
from autoscaler.objects.node import TO_BE_DELETED, Node, Readiness, readiness
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES, gpu_resources, gpus_missing
from autoscaler.snapshot.devices import complete_pools, exposes_gpus, pools_by_node
from autoscaler.snapshot.template import PassingTaints, passing_taints

RESOURCE_NOT_READY = "cluster-autoscaler.kubernetes.io/resource-not-ready"
STARTUP_TAINT = "cluster-autoscaler.kubernetes.io/startup-taint"


class ReadyTerms(msgspec.Struct, frozen=True):
    """Conditions that a node must meet besides being ready."""

    taints: PassingTaints = PassingTaints()
    gpu_label: str = ""
    """The label that promises a GPU; empty if the provider has none."""
    gpu_resources: tuple[str, ...] = ALL_GPU_RESOURCES


def ready_terms(templates: TemplateOptions, gpu_label: str, rules: Rules) -> ReadyTerms:
    """Return the conditions set by the configuration and the provider's GPU label (empty: none)."""
    return ReadyTerms(passing_taints(templates, rules), gpu_label, gpu_resources(rules))


class NodeDevices(msgspec.Struct, frozen=True):
    """Devices of nodes that pods can claim, by node name."""

    with_gpus: frozenset[str] = frozenset()
    """Nodes whose GPUs are devices; they need not offer GPUs as an extended resource."""
    lacking: frozenset[str] = frozenset()
    """Nodes with fewer device pools than other nodes of their group, or without a CSI driver that comes later."""

    def of(self, name: str) -> tuple[bool, bool]:
        """Return whether a node has GPUs among its devices, and whether it lacks pools."""
        return name in self.with_gpus, name in self.lacking


NO_DEVICES = NodeDevices()


def devices_of(view: ClusterView, expected: Mapping[str, Mapping[str, tuple[int, ...]]]) -> NodeDevices:
    """Return the devices of the view's nodes; `expected` holds the complete pools of a group's node by driver.

    Source: Cluster Autoscaler's processor of custom resources for dynamic resource allocation.
    """
    if not view.related.resource_slices and not expected:
        return NO_DEVICES
    pools = pools_by_node(view.related.resource_slices)
    lacking = set()
    for name, group_id in view.groups.of_node.items():
        if wanted := expected.get(group_id):
            there = complete_pools(pools.get(name, ()))
            if any(len(there.get(driver, ())) < len(pools_wanted) for driver, pools_wanted in wanted.items()):
                lacking.add(name)
    return NodeDevices(frozenset(name for name, own in pools.items() if exposes_gpus(own)), frozenset(lacking))


def usable_readiness(node: Node, terms: ReadyTerms, devices: NodeDevices = NO_DEVICES) -> Readiness:
    """Return the node's readiness, and not ready if the node is still starting. A cordon does not matter."""
    plain = readiness(node)
    if not plain.ready or node.unschedulable:
        return plain
    with_gpus, lacking = devices.of(node.name)
    if lacking or (not with_gpus and gpus_missing(node, terms.gpu_label, terms.gpu_resources)):
        return Readiness(False, node.created, RESOURCE_NOT_READY)
    if terms.taints.starting(node):
        return Readiness(False, node.created, STARTUP_TAINT)
    return plain


class Reading(msgspec.Struct, frozen=True):
    """The time-independent state of a node."""

    node: Node
    readiness: Readiness
    suspended: bool
    to_be_deleted: bool
    """Whether the node has the taint of nodes being deleted."""


class Readings(msgspec.Struct, frozen=True):
    """One reading per node, in the order of the nodes."""

    nodes: tuple[Node, ...]
    terms: ReadyTerms
    items: tuple[Reading, ...]
    provider_ids: frozenset[str]
    """Provider ids of the machines that have registered as nodes."""
    devices: NodeDevices = NO_DEVICES

    def ready(self) -> Iterator[Node]:
        """Yield the nodes that are usable and not cordoned."""
        return (reading.node for reading in self.items if reading.readiness.ready and not reading.node.unschedulable)


def read(
    nodes: tuple[Node, ...], terms: ReadyTerms, before: Readings | None = None, devices: NodeDevices = NO_DEVICES
) -> Readings:
    """Judge all nodes. Readings from `before` with the same terms save time and do not change the result."""
    known: dict[str, Reading] = {}
    if before is not None and before.terms == terms:
        if before.nodes is nodes and before.devices == devices:
            return before
        known = {
            reading.node.name: reading
            for reading in before.items
            if before.devices.of(reading.node.name) == devices.of(reading.node.name)
        }
    items = []
    for node in nodes:
        reading = known.get(node.name)
        items.append(reading if reading is not None and reading.node is node else _read(node, terms, devices))
    return Readings(nodes, terms, tuple(items), frozenset(node.provider_id for node in nodes), devices)


def _read(node: Node, terms: ReadyTerms, devices: NodeDevices) -> Reading:
    suspended = node.condition("Suspended")
    return Reading(
        node=node,
        readiness=usable_readiness(node, terms, devices),
        suspended=suspended is not None and suspended.status == "True",
        to_be_deleted=node.taint(TO_BE_DELETED) is not None,
    )
