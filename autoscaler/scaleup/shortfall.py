"""Finds groups whose nodes have less than their template says.

A template is a promise: nodes are bought on the strength of it. Where the nodes that come are smaller, lack a label or
a device, or refuse pods by a taint, those who wait still wait, and would have more of the same bought for ever.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.node import HOSTNAME, INSTANCE_TYPES, REGIONS, ZONES, Node
from autoscaler.reasons import Lack
from autoscaler.snapshot.template import TEMPLATE_NODE, PassingTaints, Template

_FROM_THE_START = (quantity.CPU, quantity.MEMORY, quantity.EPHEMERAL_STORAGE, quantity.PODS)
"""Resources that a node has from its first report on; devices may take a while."""
_JITTER = {quantity.MEMORY: 0.015, quantity.EPHEMERAL_STORAGE: 0.015}
"""By how much like machines differ, relative to the larger."""
_OWN_LABELS = frozenset((HOSTNAME, TEMPLATE_NODE, *ZONES, *REGIONS, *INSTANCE_TYPES))
"""Labels that may differ from node to node of a group, or that nodes and templates have under several names."""


class Lacking(msgspec.Struct, frozen=True):
    """One thing that a node should offer and does not. Amounts are quantities."""

    kind: Lack
    name: str
    promised: str = ""
    real: str = ""


class Shortfall(msgspec.Struct, frozen=True):
    """A group's nodes offer less than they were bought for; `node` is the one that shows it."""

    group: str
    node: str
    lacking: tuple[Lacking, ...]


def lacking(promised: Node, real: Node, taints: PassingTaints) -> tuple[Lacking, ...]:
    """Return what a real node lacks of what the cloud promised."""
    return (*_amounts(promised, real), *_labels(promised, real, values=True), *_taints(promised, real, taints))


def smaller(node: Node, other: Node) -> tuple[Lacking, ...]:
    """Return what a node lacks of another of its group, as far as that lies in what such nodes are.

    Taints are put on single nodes, devices fail on single nodes, and labels have values of their own there.
    """
    basic = (short for short in _amounts(node, other) if short.name in _FROM_THE_START)
    return (*basic, *_labels(node, other, values=False))


def _amounts(promised: Node, real: Node) -> Iterator[Lacking]:
    for name, amount in promised.allocatable.items():
        has = real.allocatable.get(name, 0)
        if has < amount * (1 - _JITTER.get(name, 0.0)):
            yield Lacking(Lack.RESOURCE, name, quantity.text(name, amount), quantity.text(name, has))


def _labels(promised: Node, real: Node, *, values: bool) -> Iterator[Lacking]:
    for name, value in promised.labels.items():
        has = real.labels.get(name)
        if name not in _OWN_LABELS and (has is None or (values and has != value)):
            yield Lacking(Lack.LABEL, name, value, has or "")


def _taints(promised: Node, real: Node, passing: PassingTaints) -> Iterator[Lacking]:
    for taint in real.taints:
        if taint.hard and not passing.passes(taint.key) and taint not in promised.taints:
            yield Lacking(Lack.TAINT, str(taint))


class Lowered(msgspec.Struct, frozen=True):
    """A template cut down to what nodes that have just come are known to have."""

    base: Template
    ceiling: Mapping[str, int]
    template: Template


def lowered(base: Template, nodes: Iterable[Node], before: Lowered | None) -> Lowered | None:
    """Return the template with no more of each basic resource than any of the nodes; None where it has no more.

    What it was `before` is kept where nothing has changed.
    """
    ceiling: dict[str, int] = {}
    for node in nodes:
        for short in _amounts(base.node, node):
            if short.name in _FROM_THE_START:
                has = node.allocatable.get(short.name, 0)
                ceiling[short.name] = min(ceiling.get(short.name, has), has)
    if not ceiling:
        return None
    if before is not None and before.base is base and before.ceiling == ceiling:
        return before
    allocatable = {**base.node.allocatable, **ceiling}
    node = msgspec.structs.replace(base.node, allocatable=allocatable)
    return Lowered(base, ceiling, msgspec.structs.replace(base, node=node))
