"""The scheduler's filters that depend on one node alone, as plain definitions with reasons.

`columns.py` of the snapshot and `masks.py` answer the same questions for all nodes at once; tests hold the two
against each other. Source: the scheduler's plug-ins of the names in `reasons.NoFit`.
"""

from collections.abc import Iterator
from types import MappingProxyType

from autoscaler.objects import quantity
from autoscaler.objects.matching import selector_matches, undeclared, untolerated, wants_node
from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodClass
from autoscaler.objects.requests import Requests
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.profile import Profile

NOTHING: Requests = MappingProxyType({})


def rejections(
    cls: PodClass, node: Node, free: Requests, profile: Profile, resizing: Requests = NOTHING
) -> Iterator[Rejection]:
    """Yield why one more pod of the class cannot go to the node, apart from constraints of other pods.

    `free` is what no pod has reserved yet, the resource `pods` included; `resizing` is what is reserved only until
    resizes in place are finished.
    """
    if node.unschedulable and not cls.tolerates_unschedulable and profile.asks(NoFit.UNSCHEDULABLE):
        yield Rejection(NoFit.UNSCHEDULABLE, "node(s) were unschedulable", "the node is cordoned")
    if cls.node_name and cls.node_name != node.name and profile.asks(NoFit.NODE_NAME):
        message = "node(s) didn't match the requested node name"
        yield Rejection(NoFit.NODE_NAME, message, f"wants node {cls.node_name}")
    if profile.asks(NoFit.TAINT) and (taint := untolerated(cls, node.taints)) is not None:
        message = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        yield Rejection(NoFit.TAINT, message, f"taint {taint} not tolerated")
    if profile.asks(NoFit.NODE_AFFINITY):
        yield from _affinity(cls, node, profile)
    if profile.asks(NoFit.RESOURCES):
        yield from shortages(cls, free, profile, resizing)
    if profile.asks(NoFit.FEATURES) and (missing := undeclared(cls, node)):
        message = "node(s) didn't match Pod's required features"
        yield Rejection(NoFit.FEATURES, message, f"the node does not declare {', '.join(sorted(missing))}")


def shortages(cls: PodClass, free: Requests, profile: Profile, resizing: Requests = NOTHING) -> Iterator[Rejection]:
    """Yield each resource that the node has too little of; `resizing` as for `rejections`."""
    if free.get(quantity.PODS, 0) < 1:
        yield Rejection(NoFit.RESOURCES, "Too many pods", "no pod slot left")
    for resource, needed in cls.requests.items():
        left = free.get(resource, 0)
        if needed > 0 and needed > left and not profile.ignores(resource):
            need, have = quantity.readable(resource, needed, up=True), quantity.readable(resource, max(left, 0))
            detail = f"needs {need} {resource}, {have} free"
            if (held := resizing.get(resource, 0)) > 0:
                detail += f", {quantity.readable(resource, held)} held until resizes of pods there are finished"
            yield Rejection(NoFit.RESOURCES, f"Insufficient {resource}", detail)


def _affinity(cls: PodClass, node: Node, profile: Profile) -> Iterator[Rejection]:
    added = profile.added_affinity
    if added is not None and not selector_matches(added, node.labels, node.name):
        message = "node(s) didn't match scheduler-enforced node affinity"
        yield Rejection(NoFit.NODE_AFFINITY, message, "no term of the scheduler profile's addedAffinity matches")
    elif not wants_node(cls, node.labels, node.name):
        message = "node(s) didn't match Pod's node affinity/selector"
        yield Rejection(NoFit.NODE_AFFINITY, message, _unwanted(cls, node))


def _unwanted(cls: PodClass, node: Node) -> str:
    for key, value in cls.node_selector.items():
        if node.labels.get(key) != value:
            return f"selector wants {key}={value}, the node has {node.labels.get(key, 'no such label')}"
    return "no term of the required node affinity matches"
