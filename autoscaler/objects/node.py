"""Nodes: what scheduling, readiness, draining and reports read of them."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.decode import Undecoded, WireDecoder
from autoscaler.objects.meta import (
    LAST_KNOWN,
    NEVER_KNOWN,
    UNDECODED,
    ObjectMeta,
    Wire,
    optional_seconds,
    unix_seconds,
)

HOSTNAME = "kubernetes.io/hostname"
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
REGIONS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
DELETION_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(Wire, frozen=True):
    """A taint. `time_added` is an RFC 3339 text."""

    key: str = ""
    effect: str = ""
    value: str = ""
    time_added: str | None = None

    @property
    def hard(self) -> bool:
        """Whether it keeps pods off (`PreferNoSchedule` only asks)."""
        return self.effect in (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class NodeCondition(Wire, frozen=True):
    """One entry of a node's conditions. `last_transition_time` is an RFC 3339 text."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _NodeSpec(Wire, frozen=True):
    provider_id: str = msgspec.field(default="", name="providerID")
    unschedulable: bool = False
    taints: list[Taint] = []


class _NodeStatus(Wire, frozen=True):
    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    conditions: list[NodeCondition] = []
    declared_features: list[str] = []


class NodeWire(Wire, frozen=True):
    """A v1.Node as the API writes it."""

    metadata: ObjectMeta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False, dict=False):
    """A node as the engine keeps it: amounts in the engine's units (`objects.quantity`), times in Unix seconds."""

    name: str
    uid: str = ""
    provider_id: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    capacity: Mapping[str, int] = {}
    allocatable: Mapping[str, int] = {}
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: frozenset[str] = frozenset()
    """Features that pods may ask for, as its kubelet tells; nodes that declare the same share the object."""
    created: float = 0.0
    deleted: float | None = None

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def zone(self) -> str | None:
        """The zone label's value."""
        return next((self.labels[key] for key in ZONES if key in self.labels), None)

    @property
    def instance_type(self) -> str | None:
        """The instance type label's value."""
        return next((self.labels[key] for key in INSTANCE_TYPES if key in self.labels), None)

    def taint(self, key: str) -> Taint | None:
        """Return the first taint with this key."""
        return next((taint for taint in self.taints if taint.key == key), None)

    def condition(self, kind: str) -> NodeCondition | None:
        """Return the condition of this type."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


@lru_cache(maxsize=64)
def _shared(features: frozenset[str]) -> frozenset[str]:
    return features


def keep_node(wire: NodeWire) -> Node:
    """Turn a node of the API into a kept one; raises `ValueError` on bad values."""
    meta, status = wire.metadata, wire.status
    return Node(
        name=meta.name,
        uid=meta.uid,
        provider_id=wire.spec.provider_id,
        labels=meta.labels,
        annotations=meta.annotations,
        taints=tuple(wire.spec.taints),
        unschedulable=wire.spec.unschedulable,
        capacity=quantity.amounts(status.capacity),
        allocatable=quantity.amounts(status.allocatable),
        conditions=tuple(status.conditions),
        declared_features=_shared(frozenset(status.declared_features)),
        created=unix_seconds(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        deleted=optional_seconds(meta.deletion_timestamp),
    )


def keep_whole_node(wire: NodeWire) -> Node:
    """Turn a node into a kept one; raises `ValueError` also for times that are read later on."""
    for taint in wire.spec.taints:
        optional_seconds(taint.time_added)
    for condition in wire.status.conditions:
        optional_seconds(condition.last_transition_time)
    return keep_node(wire)


def node_decoder() -> WireDecoder[NodeWire, Node]:
    """Return the decoder of v1.Node."""
    return WireDecoder(NodeWire, keep_whole_node, _stand_in)


def undecoded_node(odd: Undecoded) -> NodeWire:
    """Return the substitute of a node that was never decoded: it has no room, and must stay."""
    return NodeWire(
        metadata=odd.marked(NEVER_KNOWN),
        spec=_NodeSpec(provider_id=odd.provider_id, unschedulable=True),
        status=_NodeStatus(conditions=[NodeCondition("Ready", "True")]),  # unready nodes are removed
    )


def _stand_in(odd: Undecoded, held: Node | None) -> Node:
    if held is None:
        return keep_node(undecoded_node(odd))
    return msgspec.structs.replace(held, annotations={**held.annotations, UNDECODED: LAST_KNOWN})


class Readiness(msgspec.Struct, frozen=True):
    """Whether a node is ready, since when (Unix seconds; None: not known), and why not."""

    ready: bool
    since: float | None
    reason: str = ""


_BAD_CONDITIONS = ("DiskPressure", "NetworkUnavailable")
_BAD_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
)


def readiness(node: Node) -> Readiness:
    """Judge a node as Cluster Autoscaler does: condition Ready, disk and network conditions, and their taints.

    Memory and PID pressure do not matter; neither does `spec.unschedulable`.
    """
    condition = node.condition("Ready")
    if condition is None:
        return Readiness(False, None, "readiness information not found")
    ready = condition.status not in ("False", "Unknown")
    times = [condition.last_transition_time]
    for kind in _BAD_CONDITIONS:
        if (other := node.condition(kind)) is not None:
            ready = ready and other.status != "True"
            times.append(other.last_transition_time)
    for taint in node.taints:
        if taint.key in _BAD_TAINTS:
            ready = False
            times.append(taint.time_added)
    known = [unix_seconds(time) for time in times if time is not None]
    return Readiness(ready, max(known, default=None), "" if ready else condition.reason)
