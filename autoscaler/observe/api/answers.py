"""Requests and answers of the JSON API as types. Times end in `_at`; unknown values are None."""

from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from autoscaler.observe.cost import ClusterCost
from autoscaler.observe.status import (
    AutoscalerState,
    ClusterStatus,
    Decision,
    GangStatus,
    GroupStatus,
    Headline,
    NodeState,
    NodeStatus,
    PassStatus,
    PodStatus,
    ProcessStatus,
    RecentEvent,
    UndecodedKind,
)

_LONGEST_NAME = 512

Name = Annotated[str, Meta(min_length=1, max_length=_LONGEST_NAME)]
Limit = Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of items to return.")]
Offset = Annotated[int, Meta(ge=0, le=10_000_000, description="Number of items to skip at the beginning.")]

ListItem = TypeVar("ListItem")


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a list to return."""

    limit: Limit = 1000
    offset: Offset = 0


class NodesQuery(ListQuery, frozen=True, kw_only=True):
    """The nodes to return."""

    group: Annotated[Name, Meta(description="Only nodes of this group.")] | UnsetType = UNSET
    state: Annotated[NodeState, Meta(description="Only nodes in this state.")] | UnsetType = UNSET


class PodsQuery(ListQuery, frozen=True, kw_only=True):
    """The pending pods to return."""

    namespace: Annotated[Name, Meta(description="Only pods of this namespace.")] | UnsetType = UNSET


class PlansQuery(ListQuery, frozen=True, kw_only=True):
    """The decisions to return."""

    group: Annotated[Name, Meta(description="Only decisions about this group.")] | UnsetType = UNSET


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The lengths of the lists of the other endpoints."""

    groups: int
    nodes: int
    pending_pods: int
    unneeded_nodes: int


class WatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the API server for one kind of objects."""

    path: str
    silent_s: float | None
    """Time since which the API server has said nothing about the kind; None if it has never said anything."""
    error: str | None
    """Why the watch fails at present."""


class ApiServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of the API server. It does not depend on the last pass."""

    problems: tuple[str, ...]
    """Sentences for people that say why the other data may be outdated."""
    clock_ahead_s: float | None
    """Seconds by which the clock of this machine is ahead of the API server's."""
    kinds: tuple[WatchStatus, ...]


class StatusAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The process, its last pass, and totals of the cluster."""

    process: ProcessStatus
    state: AutoscalerState
    headline: Headline | None
    message: str | None
    last_pass: PassStatus | None
    cluster: ClusterStatus | None
    totals: Totals
    cost: ClusterCost
    """Cost of the target sizes of all groups."""
    gangs: tuple[GangStatus, ...]
    """Gangs of pods that wait."""
    events: tuple[RecentEvent, ...]
    """The newest events, oldest first."""
    api_server: ApiServerStatus
    undecoded: tuple[UndecodedKind, ...]
    """Objects from the API server that cannot be decoded."""


class Listing(msgspec.Struct, Generic[ListItem], frozen=True, kw_only=True):
    """Part of a list, from one pass."""

    pass_started_at: float | None
    """When the pass with these items began; None before the first pass."""
    total: int
    """The number of all items, without regard to `limit` and `offset`."""
    items: tuple[ListItem, ...]


class GroupList(Listing[GroupStatus], frozen=True, kw_only=True):
    """A page of the node groups."""


class NodeList(Listing[NodeStatus], frozen=True, kw_only=True):
    """A page of the nodes, and of the machines that may still become nodes."""


class PodList(Listing[PodStatus], frozen=True, kw_only=True):
    """A page of the pods without a node."""


class PlanList(Listing[Decision], frozen=True, kw_only=True):
    """A page of the decisions of the last hours, newest first."""
