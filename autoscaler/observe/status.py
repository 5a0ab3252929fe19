"""The published status of one pass: an immutable value for web pages, the API and the status ConfigMap.

Times end in `_at` and are Unix seconds; durations end in `_s`. What is not known is None.
"""

import threading
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from autoscaler.reasons import ScaleUpResult


class AutoscalerState(StrEnum):
    """Whether passes have begun to take effect."""

    INITIALIZING = "Initializing"
    RUNNING = "Running"


class Health(StrEnum):
    """State of the cluster or of a node group."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


class ScaleUpActivity(StrEnum):
    """What scale-up is doing; a node group shows the first that is true."""

    IN_PROGRESS = "InProgress"
    UNHEALTHY = "Unhealthy"
    BACKOFF = "Backoff"
    NO_ACTIVITY = "NoActivity"


class ScaleDownActivity(StrEnum):
    """Whether there are nodes that could go."""

    CANDIDATES = "CandidatesPresent"
    NO_CANDIDATES = "NoCandidates"


State = TypeVar("State", Health, ScaleUpActivity, ScaleDownActivity)


class Condition(msgspec.Struct, Generic[State], frozen=True, gc=False):
    """One status and its times."""

    status: State
    probed_at: float | None
    """When it was looked at last; None: never."""
    since_at: float | None = None
    """When it took this status; None until `with_transitions` has looked at the value before."""


class NodeCounts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Nodes of the cluster or of a group by readiness, and instances that have no node."""

    total: int = 0
    ready: int = 0
    not_started: int = 0
    suspended: int = 0
    being_deleted: int = 0
    unready: int = 0
    resource_unready: int = 0
    """Part of `unready`."""
    long_unregistered: int = 0
    unregistered: int = 0


class Scope(msgspec.Struct, frozen=True):
    """Conditions and counts that the cluster and every node group have."""

    health: Condition[Health]
    scale_up: Condition[ScaleUpActivity]
    scale_down: Condition[ScaleDownActivity]
    candidates: int = 0
    """Nodes that could go."""
    counts: NodeCounts = NodeCounts()


class Capacity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One resource of the cluster, in the engine's units (milli-CPU, bytes)."""

    running: int
    """Requested by pods on nodes."""
    pending: int
    """Requested by pods that wait for a node."""
    total: int
    """Allocatable."""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as a whole."""

    scope: Scope
    upcoming: int = 0
    """Nodes asked for that are not ready yet."""
    cpu_milli: Capacity | None = None
    memory_bytes: Capacity | None = None


class BackoffStatus(msgspec.Struct, frozen=True, gc=False):
    """Why a node group is not scaled up for a while."""

    until_at: float
    code: str
    message: str = ""


class TemplateSummary(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a new node of a group offers."""

    cpu_milli: int
    memory_bytes: int
    pods: int
    gpus: int = 0
    instance_type: str | None = None
    zone: str | None = None


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One node group."""

    id: str
    min_size: int
    max_size: int
    target_size: int
    scope: Scope
    upcoming: int = 0
    backoff: BackoffStatus | None = None
    node_price: float | None = None
    """Per hour."""
    template: TemplateSummary | None = None


class NodeState(StrEnum):
    """Where a node is in its life."""

    READY = "ready"
    UNREADY = "unready"
    NOT_STARTED = "notStarted"
    SUSPENDED = "suspended"
    BEING_DELETED = "beingDeleted"
    UPCOMING = "upcoming"


class Stay(msgspec.Struct, frozen=True, gc=False):
    """Why a node is not removed: a typed reason (`autoscaler.reasons`) and a sentence for people."""

    reason: str
    detail: str = ""


class NodeStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One node. The utilization of a resource is requested / allocatable."""

    name: str
    group: str | None = None
    state: NodeState = NodeState.READY
    cpu_utilization: float | None = None
    memory_utilization: float | None = None
    gpu_utilization: float | None = None
    stays: Stay | None = None
    unneeded_since_at: float | None = None


class GroupReason(msgspec.Struct, frozen=True, gc=False):
    """Why one node group does not help a pod."""

    group: str
    reason: str
    detail: str = ""


class PodState(StrEnum):
    """Who has to do something for a pod without a node."""

    ON_ITS_WAY = "onItsWay"
    """Nobody: it has room, or a machine is on its way for it."""
    WAITING = "waiting"
    """Nobody here: it waits for time, or for something that is not the autoscaler's."""
    STUCK = "stuck"
    """A person: it stays pending until something changes."""


class Advice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Why a pod is stuck, and what would help."""

    code: str
    """The obstacle, as one typed word."""
    cause: str
    """What it needs and there is not, as a clause about the pod: `needs 12 CPU, the largest machine has 7.9`."""
    fix: str
    """One or two sentences."""
    waits: bool = False
    """Whether time alone helps."""


class PodStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod without a node."""

    namespace: str
    name: str
    pending_since_at: float
    verdict: str
    """Class of the reason: one typed word."""
    state: PodState = PodState.WAITING
    detail: str = ""
    owner: str | None = None
    """Its controller, such as `ReplicaSet web-7d9f`."""
    workload: str | None = None
    """What a person knows it by: `Deployment web` where the controller is a Deployment's ReplicaSet."""
    reasons: tuple[GroupReason, ...] = ()
    """Pods of one class share this object."""
    advice: Advice | None = None
    """Of a pod that is stuck, as soon as it is known; pods of one class share this object."""
    planned_group: str | None = None
    """The group whose upcoming node it gets."""
    eta_s: float | None = None
    """Expected seconds until it is ready."""


class DecisionKind(StrEnum):
    """What was decided."""

    SCALE_UP = "scaleUp"
    SCALE_DOWN = "scaleDown"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a node group's size, and how it went."""

    at: float
    kind: DecisionKind
    group: str
    delta: int
    """Nodes added (positive) or removed (negative)."""
    pods: int = 0
    """Pods that are helped or moved."""
    result: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether the size stayed as it was."""
        return self.result == ScaleUpResult.ERROR.value


class RecentEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An event that was recorded."""

    at: float
    kind: str
    reason: str
    about: str
    message: str


class Phase(msgspec.Struct, frozen=True, gc=False):
    """A part of a pass."""

    name: str
    seconds: float


class PassStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the last pass went."""

    number: int
    started_at: float
    duration_s: float
    phases: tuple[Phase, ...] = ()
    scale_up: ScaleUpResult | None = None
    scale_down_in_cooldown: bool = False
    error: str | None = None


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The process itself."""

    identity: str
    version: str
    started_at: float
    leading: bool = False
    leader: str | None = None
    """Identity of whoever holds the lease."""
    kubernetes_version: str | None = None
    compatibility: str | None = None
    dry_run: bool = False
    currency: str = ""
    """Of prices."""


class UndecodedKind(msgspec.Struct, frozen=True):
    """Objects of one kind that cannot be decoded: each counts as it was last known."""

    path: str
    """The collection on the API server."""
    count: int
    examples: Mapping[str, str]
    """What is wrong with some of them, by `namespace/name`."""


class Tone(StrEnum):
    """How urgent something is."""

    GOOD = "good"
    """Nobody has to do anything."""
    BUSY = "busy"
    """Machines come or go."""
    BAD = "bad"
    """A person is needed."""


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the cluster in one or a few sentences, the most urgent one first."""

    text: str
    tone: Tone


class PublishedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything there is to show, as of the last pass; without a pass all but `process` is empty."""

    process: ProcessStatus
    state: AutoscalerState = AutoscalerState.INITIALIZING
    message: str | None = None
    headline: Headline | None = None
    """None before the first pass."""
    last_pass: PassStatus | None = None
    cluster: ClusterStatus | None = None
    groups: tuple[GroupStatus, ...] = ()
    nodes: tuple[NodeStatus, ...] = ()
    pods: tuple[PodStatus, ...] = ()
    decisions: tuple[Decision, ...] = ()
    """Of this pass only; the board keeps the history."""
    events: tuple[RecentEvent, ...] = ()
    """The newest ones, oldest first."""
    undecoded: tuple[UndecodedKind, ...] = ()


def with_transitions(current: PublishedStatus, previous: PublishedStatus | None) -> PublishedStatus:
    """Fill in since when each condition has had its status.

    A status that did not change keeps its time, a new one starts when it was probed (as Cluster Autoscaler's
    lastTransitionTime).
    """
    before = {} if previous is None else {group.id: group.scope for group in previous.groups}
    cluster = current.cluster
    if cluster is not None:
        cluster_before = previous.cluster.scope if previous is not None and previous.cluster is not None else None
        cluster = msgspec.structs.replace(cluster, scope=_scope_since(cluster.scope, cluster_before))
    groups = tuple(
        msgspec.structs.replace(group, scope=_scope_since(group.scope, before.get(group.id)))
        for group in current.groups
    )
    return msgspec.structs.replace(current, cluster=cluster, groups=groups)


def _scope_since(scope: Scope, before: Scope | None) -> Scope:
    old = scope if before is None else before
    return msgspec.structs.replace(
        scope,
        health=_since(scope.health, old.health),
        scale_up=_since(scope.scale_up, old.scale_up),
        scale_down=_since(scope.scale_down, old.scale_down),
    )


def _since(condition: Condition[State], before: Condition[State]) -> Condition[State]:
    since_at = before.since_at if before.status == condition.status else None
    return Condition(condition.status, condition.probed_at, condition.probed_at if since_at is None else since_at)


class StatusView(msgspec.Struct, frozen=True):
    """A consistent pair: the newest status and the decisions that led to it, oldest first."""

    status: PublishedStatus
    history: tuple[Decision, ...] = ()


class StatusBoard:
    """Holds the newest status for every reader; one writer at a time replaces it whole."""

    def __init__(self, process: ProcessStatus, history_s: float = 6 * 3600.0, history_size: int = 1000) -> None:
        self._view = StatusView(PublishedStatus(process=process))
        self._history_s = history_s
        self._history_size = history_size
        self._lock = threading.Lock()

    @property
    def view(self) -> StatusView:
        """The newest value; never changes under the reader."""
        return self._view

    def publish(self, status: PublishedStatus) -> PublishedStatus:
        """Show the status of a pass; returns it with transition times filled in.

        Two parts are the board's own: what `process_changed` and `undecoded_changed` said last stays.
        """
        with self._lock:
            old = self._view
            known = msgspec.structs.replace(status, process=old.status.process, undecoded=old.status.undecoded)
            published = with_transitions(known, old.status)
            newest_at = published.last_pass.started_at if published.last_pass is not None else None
            self._view = StatusView(published, self._extended(old.history, published.decisions, newest_at))
            return published

    def process_changed(self, process: ProcessStatus) -> None:
        """Show a change of leadership or versions at once, between passes too."""
        with self._lock:
            status = msgspec.structs.replace(self._view.status, process=process)
            self._view = StatusView(status, self._view.history)

    def undecoded_changed(self, undecoded: tuple[UndecodedKind, ...]) -> None:
        """Show what cannot be decoded now."""
        with self._lock:
            status = msgspec.structs.replace(self._view.status, undecoded=undecoded)
            self._view = StatusView(status, self._view.history)

    def _extended(
        self, history: tuple[Decision, ...], new: Iterable[Decision], newest_at: float | None
    ) -> tuple[Decision, ...]:
        oldest_at = None if newest_at is None else newest_at - self._history_s
        recent = (decision for decision in (*history, *new) if oldest_at is None or decision.at >= oldest_at)
        return tuple(recent)[-self._history_size :]
