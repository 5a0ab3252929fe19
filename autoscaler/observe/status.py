"""The published status of one pass: an immutable value for web pages, the API and the status ConfigMap.

Times end in `_at` and are Unix seconds; durations end in `_s`. Unknown values are None.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from autoscaler.reasons import PauseScope, ScaleUpResult
from autoscaler.scaledown.disruption_limits import DisruptionUse


class AutoscalerState(StrEnum):
    """Whether passes have begun to act."""

    INITIALIZING = "Initializing"
    RUNNING = "Running"


class Health(StrEnum):
    """State of the cluster or of a node group."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


class ScaleUpActivity(StrEnum):
    """The state of the scale-up. A node group shows the first state that applies."""

    IN_PROGRESS = "InProgress"
    UNHEALTHY = "Unhealthy"
    BACKOFF = "Backoff"
    NO_ACTIVITY = "NoActivity"


class ScaleDownActivity(StrEnum):
    """Whether there are removable nodes."""

    CANDIDATES = "CandidatesPresent"
    NO_CANDIDATES = "NoCandidates"


State = TypeVar("State", Health, ScaleUpActivity, ScaleDownActivity)


class Condition(msgspec.Struct, Generic[State], frozen=True, gc=False):
    """One status and its times."""

    status: State
    probed_at: float | None
    """Time of the last check; None if there was none."""
    since_at: float | None = None
    """Time since which the status has not changed. It is None until `with_transitions` compares it with the previous
    value.
    """


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
    """Removable nodes."""
    counts: NodeCounts = NodeCounts()


class Capacity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One resource of the cluster, in the engine's units (milli-CPU, bytes)."""

    running: int
    """Requests of pods on nodes."""
    pending: int
    """Requests of pods that wait for a node."""
    total: int
    """Allocatable amount of all nodes."""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as a whole."""

    scope: Scope
    upcoming: int = 0
    """Requested nodes that are not ready yet."""
    cpu_milli: Capacity | None = None
    memory_bytes: Capacity | None = None


class BackoffStatus(msgspec.Struct, frozen=True, gc=False):
    """Why the autoscaler does not scale up a node group for a while."""

    until_at: float
    code: str
    message: str = ""


class TemplateSummary(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The capacity of a new node of a group."""

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
    """Price per hour."""
    template: TemplateSummary | None = None


class NodeState(StrEnum):
    """The stage of a node in its life."""

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


class ReplacementStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Nodes that are replaced although they are needed, or should be."""

    nodes: tuple[str, ...]
    trigger: str = ""
    """Empty if the replacement has not begun."""
    stage: str
    hold: str = ""
    """What it waits for; empty: nothing."""
    detail: str = ""


class GroupReason(msgspec.Struct, frozen=True, gc=False):
    """Why one node group does not help a pod."""

    group: str
    reason: str
    detail: str = ""


class PodState(StrEnum):
    """Who has to act for a pod without a node."""

    ON_ITS_WAY = "onItsWay"
    """Nobody: the pod has room, or a machine for it is coming."""
    WAITING = "waiting"
    """Nobody who runs the autoscaler: the pod waits for time, or for another component."""
    STUCK = "stuck"
    """A person: the pod stays pending until something changes."""


class Advice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Why a pod is stuck, and what would help."""

    code: str
    """The obstacle, as a typed word."""
    cause: str
    """What the pod needs and lacks, as a clause about the pod: `needs 12 CPU, the largest machine has 7.9`."""
    fix: str
    """What to do, in one or two sentences."""
    waits: bool = False
    """Whether time alone helps."""


class PodStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod without a node."""

    namespace: str
    name: str
    pending_since_at: float
    verdict: str
    """The outcome of the pod, as a typed word."""
    state: PodState = PodState.WAITING
    detail: str = ""
    owner: str | None = None
    """The controller of the pod, such as `ReplicaSet web-7d9f`."""
    workload: str | None = None
    """The workload by which people know the pod: `Deployment web` if the controller is a ReplicaSet of a Deployment."""
    reasons: tuple[GroupReason, ...] = ()
    """The pods of a class share this object."""
    advice: Advice | None = None
    """Advice for a stuck pod, as soon as it is known. The pods of a class share this object."""
    planned_group: str | None = None
    """The group whose upcoming node the pod gets."""
    eta_s: float | None = None
    """Expected seconds until the pod is ready."""


class GangStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A gang of pods that waits: too few of them have a node for it to start."""

    gang: str
    """`namespace/name`."""
    wanted: int
    """Pods that have to start together."""
    possible: int
    """Pods that have a node, or can have one within all limits."""
    pending: int
    """Pods without a node."""
    state: PodState
    detail: str
    """The figures in words: `8 wanted, 5 possible`."""
    nodes: Mapping[str, int] = {}
    """Nodes that the last pass asked for, for this gang alone, by node group."""
    node_price: float | None = None
    """Price of these nodes per hour."""
    eta_s: float | None = None
    """Expected seconds until the gang can start."""


class DecisionKind(StrEnum):
    """The kind of a decision."""

    SCALE_UP = "scaleUp"
    SCALE_DOWN = "scaleDown"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a node group's size, and its result."""

    at: float
    kind: DecisionKind
    group: str
    delta: int
    """Nodes added (positive) or removed (negative)."""
    pods: int = 0
    """Number of pods that are helped or moved."""
    result: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether the size did not change."""
        return self.result == ScaleUpResult.ERROR.value


class RecentEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An event of the autoscaler."""

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
    """The course of the last pass."""

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
    """Identity of the replica that holds the lease."""
    kubernetes_version: str | None = None
    compatibility: str | None = None
    dry_run: bool = False
    currency: str = ""
    """Currency of prices."""


class UndecodedKind(msgspec.Struct, frozen=True):
    """Objects of one kind that cannot be decoded. Each counts in its last known form."""

    path: str
    """Path of the collection on the API server."""
    count: int
    examples: Mapping[str, str]
    """Problems of some of these objects, by `namespace/name`."""


class Tone(StrEnum):
    """The urgency of a state."""

    GOOD = "good"
    """Nobody has to act."""
    BUSY = "busy"
    """Machines are coming or being removed."""
    BAD = "bad"
    """A person has to act."""


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the cluster in one or a few sentences, most urgent first."""

    text: str
    tone: Tone


class ResizeStatus(msgspec.Struct, frozen=True):
    """A pod that cannot grow in place."""

    pod: str
    """`namespace/name`."""
    node: str
    lacks: str
    """What the node has too little of; empty if there is room by now."""


class PauseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is paused at present."""

    name: str
    """Its key in the ConfigMap of pauses."""
    scope: PauseScope
    groups: tuple[str, ...] = ()
    """Node groups; none: the whole cluster."""
    reason: str = ""
    by: str = ""
    """Who paused it."""
    since_at: float | None = None
    until_at: float | None = None
    """None: until it is resumed."""
    problem: str = ""
    """Why the pause cannot be read."""
    text: str
    """All of it in words."""


class PublishedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is published, as of the last pass. Before the first pass, everything but `process` is empty."""

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
    gangs: tuple[GangStatus, ...] = ()
    decisions: tuple[Decision, ...] = ()
    """Decisions of this pass only; the board keeps the history."""
    deferred_resizes: tuple[ResizeStatus, ...] = ()
    """Pods that cannot grow in place, because their nodes are full."""
    replacements: tuple[ReplacementStatus, ...] = ()
    """Replacements in progress, then nodes whose replacement has not begun."""
    disruption_budgets: tuple[DisruptionUse, ...] = ()
    """How far disruption budgets are used."""
    events: tuple[RecentEvent, ...] = ()
    """The newest events, oldest first."""
    undecoded: tuple[UndecodedKind, ...] = ()
    pauses: tuple[PauseStatus, ...] = ()
