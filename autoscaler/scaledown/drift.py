"""Drift: nodes that differ from what their group makes now.

Only what the group or its provider declares is compared: what a machine is made from, and the labels and taints of the
group's template. Labels and taints that controllers add to nodes, and those that differ from machine to machine, do
not count. A template of the autoscaler's own, made from another node, is no declaration.
"""

import zlib
from collections.abc import Collection, Iterator, Mapping

import msgspec

from autoscaler.objects.node import HOSTNAME, INSTANCE_TYPES, REGIONS, ZONES, Node, Taint
from autoscaler.reasons import DriftKind
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.template import TEMPLATE_NODE, PassingTaints
from cloudprovider.interface import MachineVersion, TaintSpec
from cloudprovider.versions import outdated

_OF_MACHINES = frozenset((HOSTNAME, TEMPLATE_NODE, *INSTANCE_TYPES, *ZONES, *REGIONS))
"""Labels that the kubelet and cloud controllers set for each machine."""
_TOPOLOGY = "topology."
"""Domains of labels that tell a machine's place."""
_MOST_SHOWN = 3
_KINDS: Mapping[str, DriftKind] = {
    "template": DriftKind.TEMPLATE,
    "image": DriftKind.IMAGE,
    "instance_type": DriftKind.INSTANCE_TYPE,
}
"""By field of `MachineVersion`."""


class Difference(msgspec.Struct, frozen=True):
    """One thing in which a node differs from new nodes of its group."""

    kind: DriftKind
    subject: str
    """The key of a label or taint; empty for the other kinds."""
    has: str
    """Empty: it has none."""
    wanted: str

    def __str__(self) -> str:
        """Return it for people."""
        what = f"{self.subject}=" if self.subject else ""
        return f"{what}{self.has or '(none)'} instead of {what}{self.wanted}"


class DriftedNode(msgspec.Struct, frozen=True):
    """A node that differs, and in what."""

    node: Node
    group: str
    differences: tuple[Difference, ...]

    @property
    def detail(self) -> str:
        """In what it differs, for people."""
        shown = "; ".join(str(difference) for difference in self.differences[:_MOST_SHOWN])
        more = len(self.differences) - _MOST_SHOWN
        return f"{shown}; and {more} more" if more > 0 else shown


def drifted_nodes(view: ClusterView, kinds: Collection[DriftKind], passing: PassingTaints) -> tuple[DriftedNode, ...]:
    """Return the nodes that differ in any of the kinds, oldest first; `passing` are taints that come and go."""
    if not kinds:
        return ()
    versions = {
        instance.provider_id: instance.version
        for group in view.groups.all
        if group.versions
        for instance in group.instances
        if instance.version is not None
    }
    found: list[DriftedNode] = []
    for node in view.nodes:
        group = view.groups.get(view.groups.of_node.get(node.name, ""))
        if group is None or node.deleted is not None:
            continue
        version = versions.get(node.provider_id) if node.provider_id else None
        differences = tuple(one for one in _differences(node, version, group, passing) if one.kind in kinds)
        if differences:
            found.append(DriftedNode(node, group.id, differences))
    return tuple(sorted(found, key=lambda drifted: (drifted.node.created, drifted.node.name)))


def fingerprint(group: Group, passing: PassingTaints) -> str:
    """Return a short text that changes with what new nodes of the group are like."""
    versions = sorted((version.template, version.image, version.instance_type) for version in group.versions)
    labels = sorted(_declared_labels(group).items())
    taints = sorted((taint.key, taint.value, taint.effect) for taint in _declared_taints(group, passing))
    return f"{zlib.crc32(repr((versions, labels, taints)).encode()):08x}"


def _differences(
    node: Node, version: MachineVersion | None, group: Group, passing: PassingTaints
) -> Iterator[Difference]:
    for found in outdated(version, group.versions):
        yield Difference(_KINDS[found.field], "", found.has, " or ".join(found.wanted))
    for label, wanted in _declared_labels(group).items():
        if node.labels.get(label) != wanted:
            yield Difference(DriftKind.LABELS, label, node.labels.get(label, ""), wanted)
    for spec in _declared_taints(group, passing):
        wanted_taint = Taint(key=spec.key, effect=spec.effect, value=spec.value)
        there = [taint for taint in node.taints if taint.key == spec.key]
        if not any((taint.value, taint.effect) == (spec.value, spec.effect) for taint in there):
            has = " and ".join(_effect(taint) for taint in there)
            yield Difference(DriftKind.TAINTS, spec.key, has, _effect(wanted_taint))


def _effect(taint: Taint) -> str:
    return f"{taint.value}:{taint.effect}"


def _declared_labels(group: Group) -> Mapping[str, str]:
    template = group.template
    if template is None:
        return {}
    placed = {label for labels in template.zones.values() for label in labels}
    return {
        label: value
        for label, value in template.labels.items()
        if label not in _OF_MACHINES and label not in placed and not label.startswith(_TOPOLOGY)
    }


def _declared_taints(group: Group, passing: PassingTaints) -> tuple[TaintSpec, ...]:
    if group.template is None:
        return ()
    return tuple(taint for taint in group.template.taints if not passing.passes(taint.key))
