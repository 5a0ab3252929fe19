"""The stages of a pass: each adds what the pass has learned or done. Steps take one stage and return the next one, or
`Ended`.

Started → Observed → Simulated → PodsSorted → Grown → Replaced → Shrunk

Every stage has all fields of the stages before it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from autoscaler.actuation.deletion_tracker import TrackedDeletions
from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.errors import ErrorType
from autoscaler.loop.pass_memory import PassMemory
from autoscaler.loop.pass_time import PassTime
from autoscaler.objects.capacity import ProvisioningRequest
from autoscaler.objects.pod import Pod
from autoscaler.observe.report import PassEnd, PendingPods, Repairs, ReplacementReport, ScaleUpReport
from autoscaler.reasons import ScaleDownResult, ScaleUpResult, UnremovableNode
from autoscaler.registry.state import Registry
from autoscaler.scaledown.pause import Pauses
from autoscaler.scaledown.plan import NodesToDelete, Removal
from autoscaler.scaledown.replacement import ReplacementForecast
from autoscaler.scaledown.replacement_cause import Cause
from autoscaler.scaleup.buffers import BufferRoom
from autoscaler.scaleup.plan import Resized
from autoscaler.scaleup.shortfall import Shortfall
from autoscaler.scaleup.status_change import StatusChange
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.template import Template


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A pass that has not observed anything yet."""

    now: Instant
    config: Config
    time: PassTime
    memory_before: PassMemory
    """The memory that earlier passes left."""
    memory: PassMemory
    """The memory for the next pass, with the changes so far."""


class EmptyCluster(Started, frozen=True, kw_only=True):
    """A pass that ends because no node is ready."""

    view: ClusterView
    silent_s: Mapping[str, float]


class Observed(Started, frozen=True, kw_only=True):
    """The cluster and the cloud have been read."""

    view: ClusterView
    silent_s: Mapping[str, float]
    """Seconds of silence by path, for kinds that the API server has not mentioned for longer than the limit."""
    tracked_deletions: TrackedDeletions
    """Removals under way when the cluster was observed."""
    registry: Registry
    """The state of nodes and groups, including the changes of this pass."""
    templates: Mapping[str, Template]
    device_pools: Mapping[str, Mapping[str, tuple[int, ...]]]
    shortfalls: tuple[Shortfall, ...]
    pauses: Pauses
    """What is paused now."""
    fake_pods: tuple[Pod, ...] = ()
    """Pods that exist in no cluster and are placed after pending pods; companions and CapacityBuffers reserve capacity
    with them.
    """
    requests: tuple[ProvisioningRequest, ...] = ()
    """Requests that this autoscaler serves, with the decisions about them."""
    status_changes: tuple[StatusChange, ...] = ()
    """Statuses written so far."""
    repairs: Repairs = Repairs()
    increases: tuple[Resized, ...] = ()
    """Results of the increases tried so far."""


class AcceptedRequest(msgspec.Struct, frozen=True):
    """An accepted ProvisioningRequest, and the fake pods that represent it."""

    request: ProvisioningRequest
    pods: tuple[Pod, ...]


class Simulated(Observed, frozen=True, kw_only=True):
    """A simulated cluster with its upcoming nodes exists, and so do the pods that are placed besides pending ones."""

    placer: Placer
    forecasts: Mapping[str, ReplacementForecast] = {}
    """Forecasts of replacements in progress, by replacement id, simulated before pods were sorted."""
    causes: tuple[Cause, ...] = ()
    """Why nodes that are needed are to be replaced, the most urgent first; one for each such node."""
    bookings: tuple[tuple[Pod, ...], ...] = ()
    """The pods of each ProvisioningRequest for which capacity is held."""
    accepted: tuple[AcceptedRequest, ...] = ()
    """Requests that this pass may serve."""


class PodsSorted(Simulated, frozen=True, kw_only=True):
    """Pending pods that fit are on the simulated cluster; the others need nodes."""

    pods: PendingPods
    candidates: tuple[Pod, ...]
    """Pods for which a scale-up is considered: they fit nowhere and are old enough."""
    displaced_placed: frozenset[str]
    """Keys of pods on nodes being removed that fit on the simulated cluster together with pending pods."""
    served_now: tuple[AcceptedRequest, ...]
    """Requests that this pass serves; if empty, it serves `candidates`."""
    held_back: ScaleUpResult | None
    """Why no scale-up is tried for `candidates`; None if one is."""
    buffer_room: BufferRoom | None = None
    """None if no room is kept for CapacityBuffers."""


class Grown(PodsSorted, frozen=True, kw_only=True):
    """Groups have grown for pods or requests."""

    scale_up: ScaleUpReport
    requests_served: int = 0
    """Number of ProvisioningRequests for which this pass looked for capacity."""


class Replaced(Grown, frozen=True, kw_only=True):
    """Replacements have advanced by one stage."""

    replacements: ReplacementReport
    due: tuple[Removal, ...]
    """Nodes that may go because their replacement is ready."""
    reserved_nodes: Mapping[str, UnremovableNode]
    """Nodes that take part in replacements, and that scale-down therefore leaves alone."""
    disrupted: Mapping[str, str]
    """Why nodes are disrupted now, by name: what disruption budgets count."""


class Shrunk(Replaced, frozen=True, kw_only=True):
    """The removals that were due have begun."""

    scale_down_result: ScaleDownResult
    deletions: NodesToDelete = NodesToDelete()


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a pass ended, and at which stage."""

    stage: Started
    end: PassEnd
    error: str = ""
    error_type: ErrorType | None = None


StageT = TypeVar("StageT", bound=Started)
ObservedT = TypeVar("ObservedT", bound=Observed)
SimulatedT = TypeVar("SimulatedT", bound=Simulated)


def next_stage(stage: Started, kind: Callable[..., StageT], **known: Any) -> StageT:
    """Return the next stage, of type `kind`, with the fields in `known` added."""
    return kind(**asdict(stage), **known)


def remember(stage: StageT, **changes: Any) -> StageT:
    """Return a stage with changes to the memory for the next pass."""
    return replace(stage, memory=replace(stage.memory, **changes))


def failed(stage: Started, kind: ErrorType, message: str) -> Ended:
    """Return the end of a pass that failed."""
    return Ended(stage=stage, end=PassEnd.FAILED, error=message, error_type=kind)
