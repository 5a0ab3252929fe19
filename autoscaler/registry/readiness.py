"""Whether a node can be used yet: ready, free of start-up taints, and with the GPUs that its label promises.

Behaviour as Cluster Autoscaler's: ready, uncordoned nodes that fail the last two count as not ready since they were
created. Judging a node costs microseconds, so a `Readings` of the pass before is reused for every node that is still
the very same object.
"""

from collections.abc import Iterator

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Templates
from autoscaler.objects.node import TO_BE_DELETED, Node, Readiness, readiness
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES, gpu_resources, gpus_missing
from autoscaler.snapshot.template import PassingTaints, passing_taints

RESOURCE_NOT_READY = "cluster-autoscaler.kubernetes.io/resource-not-ready"
STARTUP_TAINT = "cluster-autoscaler.kubernetes.io/startup-taint"


class ReadyTerms(msgspec.Struct, frozen=True):
    """What a node must meet beside being ready."""

    taints: PassingTaints = PassingTaints()
    gpu_label: str = ""
    """Label that promises a GPU; empty where the provider names none."""
    gpu_resources: tuple[str, ...] = ALL_GPU_RESOURCES


def ready_terms(templates: Templates, gpu_label: str, rules: Rules) -> ReadyTerms:
    """Return the terms that the configuration and the provider's GPU label (empty: none) set."""
    return ReadyTerms(passing_taints(templates, rules), gpu_label, gpu_resources(rules))


def usable_readiness(node: Node, terms: ReadyTerms) -> Readiness:
    """Return the node's readiness, not ready where it is still starting; cordoned nodes are taken as they are."""
    plain = readiness(node)
    if not plain.ready or node.unschedulable:
        return plain
    if gpus_missing(node, terms.gpu_label, terms.gpu_resources):
        return Readiness(False, node.created, RESOURCE_NOT_READY)
    if terms.taints.starting(node):
        return Readiness(False, node.created, STARTUP_TAINT)
    return plain


class Reading(msgspec.Struct, frozen=True):
    """What one look at a node tells, whatever the time."""

    node: Node
    readiness: Readiness
    suspended: bool
    to_be_deleted: bool
    """Whether it carries the taint of nodes that are on their way out."""


class Readings(msgspec.Struct, frozen=True):
    """One reading per node, in the order of the nodes."""

    nodes: tuple[Node, ...]
    terms: ReadyTerms
    items: tuple[Reading, ...]
    provider_ids: frozenset[str]
    """Ids of the machines that have registered as nodes."""

    def ready(self) -> Iterator[Node]:
        """Yield the nodes that are usable and not cordoned."""
        return (one.node for one in self.items if one.readiness.ready and not one.node.unschedulable)


def read(nodes: tuple[Node, ...], terms: ReadyTerms, before: Readings | None = None) -> Readings:
    """Judge all nodes; readings made `before`, under the same terms, save time and change nothing."""
    known: dict[str, Reading] = {}
    if before is not None and before.terms == terms:
        if before.nodes is nodes:
            return before
        known = {one.node.name: one for one in before.items}
    items = []
    for node in nodes:
        reading = known.get(node.name)
        items.append(reading if reading is not None and reading.node is node else _read(node, terms))
    return Readings(nodes, terms, tuple(items), frozenset(node.provider_id for node in nodes))


def _read(node: Node, terms: ReadyTerms) -> Reading:
    suspended = node.condition("Suspended")
    return Reading(
        node=node,
        readiness=usable_readiness(node, terms),
        suspended=suspended is not None and suspended.status == "True",
        to_be_deleted=node.taint(TO_BE_DELETED) is not None,
    )
