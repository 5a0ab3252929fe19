"""Requests and answers of the JSON API as types. Times end in `_at`; unknown values are None."""

from typing import Annotated, Generic, TypeVar

import msgspec

from autoscaler.observe.cost import ClusterCost
from autoscaler.observe.status import (
    AutoscalerState,
    ClusterStatus,
    Decision,
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

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_NAME)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=10_000, description="Maximum number of items to return.")]
Offset = Annotated[int, msgspec.Meta(ge=0, le=10_000_000, description="Number of items to skip at the beginning.")]

ListItem = TypeVar("ListItem")


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list is wanted."""

    limit: Limit = 1000
    offset: Offset = 0


class NodesQuery(ListQuery, frozen=True, kw_only=True):
    """Which nodes are wanted."""

    group: Annotated[Name, msgspec.Meta(description="Only nodes of this group.")] | msgspec.UnsetType = msgspec.UNSET
    state: Annotated[NodeState, msgspec.Meta(description="Only nodes in this state.")] | msgspec.UnsetType = (
        msgspec.UNSET
    )


class PodsQuery(ListQuery, frozen=True, kw_only=True):
    """Which pending pods are wanted."""

    namespace: Annotated[Name, msgspec.Meta(description="Only pods of this namespace.")] | msgspec.UnsetType = (
        msgspec.UNSET
    )


class PlansQuery(ListQuery, frozen=True, kw_only=True):
    """Which decisions are wanted."""

    group: Annotated[Name, msgspec.Meta(description="Only decisions about this group.")] | msgspec.UnsetType = (
        msgspec.UNSET
    )


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """How long the lists of the other endpoints are."""

    groups: int
    nodes: int
    pending_pods: int
    unneeded_nodes: int


class WatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server says about one kind of objects."""

    path: str
    silent_s: float | None
    """Since when it has said nothing; None: it never has."""
    error: str | None
    """Why the watch fails at the moment."""


class ApiServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the API server at this moment, whenever the last pass was."""

    problems: tuple[str, ...]
    """For people: what keeps the rest from being true now."""
    clock_ahead_s: float | None
    """How far the clock of this machine is ahead of the server's."""
    kinds: tuple[WatchStatus, ...]


class StatusAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The process, its last pass and totals of the cluster."""

    process: ProcessStatus
    state: AutoscalerState
    headline: Headline | None
    message: str | None
    last_pass: PassStatus | None
    cluster: ClusterStatus | None
    totals: Totals
    cost: ClusterCost
    """Of the target sizes of all groups."""
    events: tuple[RecentEvent, ...]
    """The newest ones, oldest first."""
    api_server: ApiServerStatus
    undecoded: tuple[UndecodedKind, ...]
    """What the API server sends and cannot be decoded."""


class Listing(msgspec.Struct, Generic[ListItem], frozen=True, kw_only=True):
    """Part of a list as of one pass."""

    pass_started_at: float | None
    """When the pass began that the items are of; None before the first."""
    total: int
    """How many there are without `limit` and `offset`."""
    items: tuple[ListItem, ...]


class GroupList(Listing[GroupStatus], frozen=True, kw_only=True):
    """Node groups."""


class NodeList(Listing[NodeStatus], frozen=True, kw_only=True):
    """Nodes, and machines that may still become nodes."""


class PodList(Listing[PodStatus], frozen=True, kw_only=True):
    """Pods without a node."""


class PlanList(Listing[Decision], frozen=True, kw_only=True):
    """Decisions of the last hours, newest first."""
