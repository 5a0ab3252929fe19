"""Templates of new nodes, and copies of them for simulations.

A template is an example made fresh: what belongs to one machine alone (name, identity, condition, passing taints) is
replaced. Templates are kept from pass to pass as long as nothing about them changes, so caches may key on identity.
"""

import zlib
from collections.abc import Mapping

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import TemplateOptions
from autoscaler.objects.node import DELETION_CANDIDATE, HOSTNAME, TO_BE_DELETED, Node, NodeCondition
from autoscaler.objects.pod import Pod

TEMPLATE_NODE = "cluster-autoscaler.kubernetes.io/template-node"
STARTUP_PREFIXES = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
STATUS_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"
CONDITION_TAINTS = frozenset(
    (
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/pid-pressure",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud.google.com/impending-node-termination",
    )
)
"""Keys of taints that say how one machine is doing."""
IMPAIRED_VOLUMES = "NodeWithImpairedVolumes"

_READY = (NodeCondition(type="Ready", status="True"),)

UPCOMING = "upcoming-"
"""Suffix of the names of nodes that are on their way: a number follows, which each group counts from 0."""


class Template(msgspec.Struct, frozen=True):
    """A node as it would join a group, with the pods that come with it."""

    node: Node
    pods: tuple[Pod, ...] = ()
    zones: "Zones | None" = None
    """The zones that nodes of the group come in; None: only the one of `node`."""

    def copies(self, start: int, count: int) -> list["Template"]:
        """Return `count` nodes as they join the group one after the other, once `start` others have."""
        if self.zones is None or not self.zones.turns:
            return [self] * count
        return [self.zones.coming(number) for number in range(start, start + count)]


class Zones(msgspec.Struct, frozen=True):
    """In which zones the next nodes of a group come: the cloud keeps a balance, so where the group has the fewest.

    Zones with equally many get theirs in the order of their names. Without `turns` the order is unknown.
    """

    nodes: Mapping[str, int] = {}
    """How many nodes of the group each zone has, by name and in its order; those on their way are left out."""
    templates: Mapping[str, Template] = {}
    """A new node by zone."""
    order: tuple[str, ...] = ()
    """The zones of the first that come: of machines whose zone is known, then until all zones have equally many."""
    turns: tuple[str, ...] = ()
    """The zones that follow, over and over."""
    due: int = 0
    """How many nodes are on their way: the next to be asked for comes after them."""

    def coming(self, number: int) -> Template:
        """Return the node that comes after `number` others."""
        late = number - len(self.order)
        return self.templates[self.order[number] if late < 0 else self.turns[late % len(self.turns)]]

    def wait(self, zone: str) -> int | None:
        """Return how many nodes have to be asked for before one comes in the zone; None: it gets none for now."""
        ahead = range(self.due, self.due + len(self.order) + len(self.turns))
        wanted = self.templates.get(zone)
        return next((number - self.due for number in ahead if self.coming(number) is wanted), None)


class PassingTaints(msgspec.Struct, frozen=True):
    """Which taints of a node a new node of its group would not keep. Source: Cluster Autoscaler's taint config."""

    startup: frozenset[str] = frozenset()
    startup_prefixes: tuple[str, ...] = STARTUP_PREFIXES
    status: frozenset[str] = frozenset()
    condition: frozenset[str] = CONDITION_TAINTS

    def is_startup(self, key: str) -> bool:
        """Whether a node with this taint has not finished starting."""
        return key in self.startup or key.startswith(self.startup_prefixes)

    def is_status(self, key: str) -> bool:
        """Whether the taint comes and goes on working nodes."""
        return key in self.status or key.startswith(STATUS_PREFIX)

    def passes(self, key: str) -> bool:
        """Whether a new node would be without it."""
        ours = key in (TO_BE_DELETED, DELETION_CANDIDATE)
        return ours or key in self.condition or self.is_startup(key) or self.is_status(key)

    def starting(self, node: Node) -> bool:
        """Whether the node carries a startup taint: it counts as not ready, even if its conditions say otherwise."""
        return any(self.is_startup(taint.key) for taint in node.taints)


def passing_taints(options: TemplateOptions, rules: Rules) -> PassingTaints:
    """Return what the flags and the built-in lists name."""
    return PassingTaints(
        startup=frozenset((*options.startup_taint, *options.ignore_taint)),
        startup_prefixes=(*STARTUP_PREFIXES, *options.startup_taint_prefix),
        status=frozenset(options.status_taint),
        condition=CONDITION_TAINTS | {IMPAIRED_VOLUMES} if rules.impaired_volumes_taint_ignored else CONDITION_TAINTS,
    )


def suffix_of(group_id: str) -> str:
    """Return what ends the names of a group's template and its pods: digits that depend on the id alone."""
    return str(zlib.crc32(group_id.encode()))


def template_name(group_id: str) -> str:
    """Return the name of a group's template node."""
    return f"template-node-for-{group_id}-{suffix_of(group_id)}"


def fresh_node(example: Node, name: str, taints: PassingTaints, *, marked: bool, uncordoned: bool) -> Node:
    """Return the node that a machine like the example's would become.

    It is ready and has no machine: the example's provider id goes, so that no call to the cloud can ever hit the
    example. `marked` adds the label of template nodes, `uncordoned` makes a cordoned example schedulable.
    """
    labels = {**example.labels, HOSTNAME: name}
    if marked:
        labels[TEMPLATE_NODE] = "true"
    return Node(
        name=name,
        uid=name,
        labels=labels,
        annotations=example.annotations,
        taints=tuple(taint for taint in example.taints if not taints.passes(taint.key)),
        unschedulable=example.unschedulable and not uncordoned,
        capacity=example.capacity,
        allocatable=example.allocatable,
        conditions=_READY,
    )


def fresh_pod(pod: Pod, node: str, suffix: str) -> Pod:
    """Return the like of a pod on another node."""
    return Pod(name=f"{pod.name}-{suffix}", cls=pod.cls, uid=f"{pod.uid}-{suffix}", node=node, phase="Running")
