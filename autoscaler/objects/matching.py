"""Matches a pod with nodes by name, labels and taints, without other pods.

Source of every rule: the scheduler's plug-ins NodeName, NodeUnschedulable, TaintToleration, NodeAffinity and
NodeDeclaredFeatures.
"""

from collections.abc import Mapping

from autoscaler.objects.node import Node, Taint, TaintEffect
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelector, NodeSelectorTerm


def untolerated(cls: PodClass, taints: tuple[Taint, ...]) -> Taint | None:
    """Return the first taint that keeps the class off; None where all are tolerated."""
    return next((taint for taint in taints if not cls.tolerates(taint)), None)


def term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether every expression holds; a term without any matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return all(expression.matches(labels.get(expression.key)) for expression in term.match_expressions) and all(
        field.matches(fields.get(field.key)) for field in term.match_fields
    )


def selector_matches(selector: NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """Whether one of the terms matches."""
    return any(term_matches(term, labels, name) for term in selector.node_selector_terms)


def wants_node(cls: PodClass, labels: Mapping[str, str], name: str) -> bool:
    """Whether the node selector and the required node affinity accept a node with these labels and this name."""
    if any(labels.get(key) != value for key, value in cls.node_selector.items()):
        return False
    return cls.node_affinity is None or selector_matches(cls.node_affinity, labels, name)


def undeclared(cls: PodClass, node: Node) -> frozenset[str]:
    """Return the features that the class needs and the node does not declare."""
    return cls.features - node.declared_features


def daemon_belongs(cls: PodClass, node: Node) -> bool:
    """Whether the DaemonSet controller would run such a pod on the node.

    It asks node name, selector, affinity and taints, and gives its pods the tolerations of a daemon: a node that is
    cordoned, under pressure or not ready keeps them. Resources do not matter to it.
    """
    if cls.node_name and cls.node_name != node.name:
        return False
    if not wants_node(cls, node.labels, node.name):
        return False
    return all((taint.key, taint.effect) in DAEMON_TOLERATED or cls.tolerates(taint) for taint in node.taints)


DAEMON_TOLERATED = frozenset(
    (f"node.kubernetes.io/{condition}", effect)
    for effect, conditions in (
        (TaintEffect.NO_EXECUTE, ("not-ready", "unreachable")),
        (TaintEffect.NO_SCHEDULE, ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")),
    )
    for condition in conditions
)
"""Keys and effects of the taints that the DaemonSet controller tolerates for all its pods."""
