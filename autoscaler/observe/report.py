"""The report of one pass: what it saw, decided and did. Status, metrics, events and answers are made from it."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from autoscaler.clock import Instant
from autoscaler.errors import ErrorType
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.observe.status import Advice
from autoscaler.reasons import ScaleDownResult, ScaleUpResult, UnremovableNode, Waiting
from autoscaler.registry.instances import InstanceRemoval
from autoscaler.registry.state import Registry
from autoscaler.scaledown.disruption_limits import DisruptionUse
from autoscaler.scaledown.pause import Pauses
from autoscaler.scaledown.plan import NodesToDelete, Removal
from autoscaler.scaledown.replacement import Replacement, ReplacementBackoff
from autoscaler.scaleup.buffers import BufferRoom
from autoscaler.scaleup.gangs import WaitingGang
from autoscaler.scaleup.plan import Resized, ScaleUpPlan
from autoscaler.scaleup.shortfall import Shortfall
from autoscaler.scaleup.status_change import StatusChange
from autoscaler.scheduling.deferred_resizes import DeferredResize
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.template import Template
from cloudprovider.interface import InstanceError


class PassEnd(StrEnum):
    """The step at which a pass ended."""

    COMPLETE = "Complete"
    EMPTY_CLUSTER = "EmptyCluster"
    UNHEALTHY = "ClusterUnhealthy"
    SIZES_FIXED = "NodeGroupSizesFixed"
    SILENT = "ApiServerSilent"
    FAILED = "Failed"


class RemovedInstances(msgspec.Struct, frozen=True):
    """Machines without a node that the pass asked the cloud to delete; `error` says why the deletion failed."""

    removal: InstanceRemoval
    error: InstanceError | None = None


class Repairs(msgspec.Struct, frozen=True, kw_only=True):
    """Corrections that a pass made in the cloud before it decided anything."""

    corrections: tuple[Resized, ...] = ()
    """Targets that the pass lowered because their machines never arrived."""
    unregistered_removed: tuple[RemovedInstances, ...] = ()
    failed_removed: tuple[RemovedInstances, ...] = ()

    @property
    def removed(self) -> tuple[RemovedInstances, ...]:
        """All machines that the pass asked the cloud to delete."""
        return (*self.unregistered_removed, *self.failed_removed)


class PendingPods(msgspec.Struct, frozen=True, kw_only=True):
    """Pending pods, by whether they need a node."""

    unschedulable: tuple[Pod, ...] = ()
    """Pods that fit no node, including pods that are too young for help, and the pods of requests to serve."""
    waiting: Mapping[str, Waiting] = {}
    """Why pods took no part in the scale-up, by key of the pod."""
    awaiting: Mapping[str, str] = {}
    """The group whose upcoming node fits a pod, by key of the pod."""
    too_new_until: float | None = None
    """Wall second at which the first pod that is too new for a scale-up becomes old enough; None if there is none."""


class ScaleUpReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the scale-up."""

    result: ScaleUpResult | None = None
    """None if the pass ended before it knew the state of the cluster."""
    plan: ScaleUpPlan | None = None
    """None if nothing was planned."""
    error: str = ""
    """The errors, even if other groups grew instead."""


class ReplacementReport(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are being replaced, and nodes that should be."""

    all: tuple[Replacement, ...] = ()
    """Replacements in progress, then those that ended in this pass."""
    held: Mapping[str, ReplacementBackoff] = {}
    """Why nodes that should be replaced wait, by name of the node."""
    budgets: tuple[DisruptionUse, ...] = ()
    """How far disruption budgets are used by replacements in progress and removals that began before this pass."""
    drifted: int = 0
    """Number of nodes that differ from what their group makes now."""


class ScaleDownReport(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes are removable, and which the pass removes."""

    result: ScaleDownResult | None = None
    """None if the pass ended before scale-down."""
    unneeded: tuple[Removal, ...] = ()
    """Nodes that can be removed together, as of the last pass that looked."""
    unremovable: Mapping[str, UnremovableNode] = {}
    """Why the other nodes stay, by name, as of the last pass that looked."""
    deletions: NodesToDelete = NodesToDelete()
    """What this pass did about the nodes that were due."""

    @property
    def begun(self) -> tuple[Removal, ...]:
        """Removals that this pass began."""
        return (*self.deletions.empty, *self.deletions.drained)


class PassReport(msgspec.Struct, frozen=True, kw_only=True):
    """One pass. Steps that the pass did not reach have empty results."""

    now: Instant
    end: PassEnd = PassEnd.COMPLETE
    error: str = ""
    error_type: ErrorType | None = None
    view: ClusterView | None = None
    """None if the cluster could not be observed."""
    pauses: Pauses = Pauses()
    """What is paused, but for single nodes."""
    silent_s: Mapping[str, float] = {}
    """Kinds about which the API server has been silent for longer than the limit, by path, and since when."""
    registry: Registry | None = None
    """The state at the end of the pass; None if the cluster could not be observed, or is empty."""
    templates: Mapping[str, Template] = {}
    device_pools: Mapping[str, Mapping[str, tuple[int, ...]]] = {}
    """The number of devices in each complete pool of a new node of a group, by driver."""
    shortfalls: tuple[Shortfall, ...] = ()
    """Groups whose nodes offer less than the template by which they were bought."""
    repairs: Repairs = Repairs()
    pods: PendingPods = PendingPods()
    gangs: tuple[WaitingGang, ...] = ()
    buffer_room: BufferRoom | None = None
    """None if no room is kept for CapacityBuffers."""
    scale_up: ScaleUpReport = ScaleUpReport()
    increases: tuple[Resized, ...] = ()
    """The result of each attempt to grow a group, in order: for pods, replacements and minimum sizes."""
    replacements: ReplacementReport = ReplacementReport()
    scale_down: ScaleDownReport = ScaleDownReport()
    deferred_resizes: tuple[DeferredResize, ...] = ()
    """Pods whose resize in place waits because their node is full."""
    status_changes: tuple[StatusChange, ...] = ()
    """Statuses written for ProvisioningRequests and CapacityBuffers, in order. The next pass repeats a failed write."""
    requests_served: int = 0
    """ProvisioningRequests for which this pass looked for capacity."""
    advice: Mapping[PodClass, Advice] = {}
    """Cause and fix for stuck pods, as far as they are known."""
    timings: Mapping[str, float] = {}
    """Seconds by phase; for reports only."""

    @property
    def refused(self) -> frozenset[str]:
        """Ids of the groups that failed to grow because of an error."""
        return refused(self.increases)

    @property
    def acted(self) -> bool:
        """Whether the pass added or removed machines, or served a request, so that the next pass should follow soon.

        A failed resize is no reason for an early pass.
        """
        grew = any(increase.after > increase.before for increase in self.increases)
        return grew or self.requests_served > 0 or bool(self.scale_down.begun)


def refused(increases: Iterable[Resized]) -> frozenset[str]:
    """Return the ids of the groups that failed to grow because of an error."""
    done = tuple(increases)
    failed = {increase.group for increase in done if increase.error is not None}
    return frozenset(failed - {increase.group for increase in done if increase.after > increase.before})
