"""Templates of new nodes, and copies of them for simulations.

A template is made from an example node: the properties of a single machine (name, identity, conditions, transient
taints) are replaced. A template stays the same object from pass to pass until its content changes, so caches may use
its identity as a key.
"""

import zlib
from collections.abc import Mapping

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import TemplateOptions
from autoscaler.objects.node import DELETION_CANDIDATE, HOSTNAME, TO_BE_DELETED, Node, NodeCondition
from autoscaler.objects.notice_taints import NOTICE_TAINTS
from autoscaler.objects.pod import Pod
from autoscaler.snapshot.devices import DevicePool

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
"""Keys of taints that report the condition of a machine."""
IMPAIRED_VOLUMES = "NodeWithImpairedVolumes"

_READY = (NodeCondition(type="Ready", status="True"),)

UPCOMING = "upcoming-"
"""Part of the names of upcoming nodes. A number follows, counted from 0 in each group."""


class Template(msgspec.Struct, frozen=True):
    """A new node of a group, with the pods that run on it from the start."""

    node: Node
    pods: tuple[Pod, ...] = ()
    pools: tuple[DevicePool, ...] = ()
    """The devices that it brings along."""
    zones: "Zones | None" = None
    """The zones of the group's new nodes; None if all are in the zone of `node`."""
    attach_limits: Mapping[str, int] = {}
    """How many volumes of a CSI driver the node can attach, by driver; drivers without an entry have no limit."""
    csi_drivers: frozenset[str] | None = None
    """The CSI drivers that run on the node; None where that is not known."""

    def copies(self, start: int, count: int) -> list["Template"]:
        """Return the next `count` nodes of the group, after `start` others have been added."""
        if self.zones is None or not self.zones.turns:
            return [self] * count
        return [self.zones.coming(number) for number in range(start, start + count)]


class Zones(msgspec.Struct, frozen=True):
    """The zones of a group's next nodes. The cloud balances zones: it adds a node in the zone with the fewest.

    Ties are broken by zone name. Without `turns` the order is unknown.
    """

    nodes: Mapping[str, int] = {}
    """Number of the group's nodes by zone name, in name order; nodes on their way are not counted."""
    templates: Mapping[str, Template] = {}
    """A new node by zone."""
    order: tuple[str, ...] = ()
    """Zones of the first new nodes: machines whose zone is known, then the nodes that balance the zones."""
    turns: tuple[str, ...] = ()
    """Zones of all later nodes, as a repeating cycle."""
    due: int = 0
    """Number of nodes on their way; the next requested node comes after them."""

    def coming(self, number: int) -> Template:
        """Return the node that is added after `number` others."""
        late = number - len(self.order)
        return self.templates[self.order[number] if late < 0 else self.turns[late % len(self.turns)]]

    def wait(self, zone: str) -> int | None:
        """Return how many nodes must be requested before one is added in the zone; None if the zone gets none for
        now.
        """
        ahead = range(self.due, self.due + len(self.order) + len(self.turns))
        wanted = self.templates.get(zone)
        return next((number - self.due for number in ahead if self.coming(number) is wanted), None)


class PassingTaints(msgspec.Struct, frozen=True):
    """The taints of a node that a new node of its group would not have. Source: Cluster Autoscaler's taint config."""

    startup: frozenset[str] = frozenset()
    startup_prefixes: tuple[str, ...] = STARTUP_PREFIXES
    status: frozenset[str] = frozenset()
    condition: frozenset[str] = CONDITION_TAINTS

    def is_startup(self, key: str) -> bool:
        """Whether the taint shows that the node has not finished starting."""
        return key in self.startup or key.startswith(self.startup_prefixes)

    def is_status(self, key: str) -> bool:
        """Whether the taint may appear and disappear on working nodes."""
        return key in self.status or key.startswith(STATUS_PREFIX)

    def passes(self, key: str) -> bool:
        """Whether a new node would not have the taint."""
        ours = key in (TO_BE_DELETED, DELETION_CANDIDATE)
        return ours or key in self.condition or self.is_startup(key) or self.is_status(key)

    def starting(self, node: Node) -> bool:
        """Whether the node has a startup taint; it then counts as not ready, regardless of its conditions."""
        return any(self.is_startup(taint.key) for taint in node.taints)


def passing_taints(options: TemplateOptions, rules: Rules) -> PassingTaints:
    """Return the taints from the flags and the built-in lists."""
    return PassingTaints(
        startup=frozenset((*options.startup_taint, *options.ignore_taint)),
        startup_prefixes=(*STARTUP_PREFIXES, *options.startup_taint_prefix),
        status=frozenset(options.status_taint),
        condition=frozenset(
            (
                *CONDITION_TAINTS,
                *((IMPAIRED_VOLUMES,) if rules.impaired_volumes_taint_ignored else ()),
                *(NOTICE_TAINTS if rules.notice_taints_ignored else ()),
            )
        ),
    )


def suffix_of(group_id: str) -> str:
    """Return the name suffix of a group's template node and pods: digits that depend only on the id."""
    return str(zlib.crc32(group_id.encode()))


def template_name(group_id: str) -> str:
    """Return the name of a group's template node."""
    return f"template-node-for-{group_id}-{suffix_of(group_id)}"


def fresh_node(example: Node, name: str, taints: PassingTaints, *, marked: bool, uncordoned: bool) -> Node:
    """Return a new node like the example's.

    It is ready and has no machine: the provider id of the example is removed, so that no call to the cloud can affect
    the example. `marked` adds the label of template nodes; `uncordoned` makes a cordoned example schedulable.
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
        declared_features=example.declared_features,
    )


def fresh_pod(pod: Pod, node: str, suffix: str) -> Pod:
    """Return a copy of a pod for another node."""
    return Pod(name=f"{pod.name}-{suffix}", cls=pod.cls, uid=f"{pod.uid}-{suffix}", node=node, phase="Running")
