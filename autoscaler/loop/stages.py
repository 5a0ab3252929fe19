"""The stages of a pass: what is known from each on. Steps take one stage and return the next, or how the pass ended.

    Started → Observed → Simulated → PodsSorted → Grown → Replaced → Shrunk

Every stage has all that the stages before it have.
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
from autoscaler.scaledown.plan import NodesToDelete, Removal
from autoscaler.scaledown.replacement import ReplacementForecast
from autoscaler.scaleup.plan import Resized
from autoscaler.scaleup.shortfall import Shortfall
from autoscaler.scaleup.status_change import StatusChange
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.template import Template


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A pass that has seen nothing yet."""

    now: Instant
    config: Config
    time: PassTime
    memory_before: PassMemory
    """What earlier passes left."""
    memory: PassMemory
    """What this pass leaves to the next, as far as it has come."""


class EmptyCluster(Started, frozen=True, kw_only=True):
    """A pass that ends since no node is ready."""

    view: ClusterView
    silent_s: Mapping[str, float]


class Observed(Started, frozen=True, kw_only=True):
    """The cluster and the cloud have been read."""

    view: ClusterView
    silent_s: Mapping[str, float]
    """Kinds that the API server has said nothing about for longer than the limit, by path, and since when."""
    tracked_deletions: TrackedDeletions
    """Removals under way when the cluster was observed."""
    registry: Registry
    """The state of nodes and groups, after what this pass has changed."""
    templates: Mapping[str, Template]
    device_pools: Mapping[str, Mapping[str, tuple[int, ...]]]
    shortfalls: tuple[Shortfall, ...]
    fake_pods: tuple[Pod, ...] = ()
    """Pods of no cluster that take part like pending ones, after those: companions and CapacityBuffers keep room with
    them."""
    requests: tuple[ProvisioningRequest, ...] = ()
    """Those that are served here, with what was decided about them."""
    status_changes: tuple[StatusChange, ...] = ()
    """Statuses written so far."""
    repairs: Repairs = Repairs()
    increases: tuple[Resized, ...] = ()
    """What became of the increases that were tried so far."""


class AcceptedRequest(msgspec.Struct, frozen=True):
    """A ProvisioningRequest that is accepted, and the pods that represent it."""

    request: ProvisioningRequest
    pods: tuple[Pod, ...]


class Simulated(Observed, frozen=True, kw_only=True):
    """There is a simulated cluster with its upcoming nodes, and what takes part beside its pending pods."""

    placer: Placer
    forecasts: Mapping[str, ReplacementForecast] = {}
    """What each replacement in progress would lead to, by its id, as simulated before pods were sorted."""
    bookings: tuple[tuple[Pod, ...], ...] = ()
    """The pods of each ProvisioningRequest for which capacity is held."""
    accepted: tuple[AcceptedRequest, ...] = ()
    """Requests that this pass may serve."""


class PodsSorted(Simulated, frozen=True, kw_only=True):
    """Pending pods that fit are on the simulated cluster; the others need nodes."""

    pods: PendingPods
    candidates: tuple[Pod, ...]
    """Pods that a scale-up would be for: those that fit nowhere and are old enough."""
    displaced_placed: frozenset[str]
    """Keys of pods on nodes being removed that found room with pending pods."""
    served_now: tuple[AcceptedRequest, ...]
    """Requests whose turn it is; empty: it is the turn of `candidates`."""
    held_back: ScaleUpResult | None
    """Why no scale-up is tried for `candidates`; None where one is."""


class Grown(PodsSorted, frozen=True, kw_only=True):
    """Groups have grown, as far as pods or requests need it."""

    scale_up: ScaleUpReport
    requests_served: int = 0
    """ProvisioningRequests that this pass looked for capacity for."""


class Replaced(Grown, frozen=True, kw_only=True):
    """Replacements are a stage further."""

    replacements: ReplacementReport
    due: tuple[Removal, ...]
    """Nodes whose replacement has come so far that they may go."""
    reserved_nodes: Mapping[str, UnremovableNode]
    """Nodes that replacements are about, and that scale-down leaves alone."""


class Shrunk(Replaced, frozen=True, kw_only=True):
    """Removals have begun, as far as any are due."""

    scale_down_result: ScaleDownResult
    deletions: NodesToDelete = NodesToDelete()


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a pass ended, at which stage."""

    stage: Started
    end: PassEnd
    error: str = ""
    error_type: ErrorType | None = None


StageT = TypeVar("StageT", bound=Started)
ObservedT = TypeVar("ObservedT", bound=Observed)
SimulatedT = TypeVar("SimulatedT", bound=Simulated)


def next_stage(stage: Started, kind: Callable[..., StageT], **known: Any) -> StageT:
    """Return the next stage (`kind`), with what is `known` in addition."""
    return kind(**asdict(stage), **known)


def remember(stage: StageT, **changes: Any) -> StageT:
    """Return a stage with changes of what is left to the next pass."""
    return replace(stage, memory=replace(stage.memory, **changes))


def failed(stage: Started, kind: ErrorType, message: str) -> Ended:
    """Return the end of a pass by a failure."""
    return Ended(stage=stage, end=PassEnd.FAILED, error=message, error_type=kind)
