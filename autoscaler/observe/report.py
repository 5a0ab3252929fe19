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
from autoscaler.scaledown.plan import NodesToDelete, Removal
from autoscaler.scaledown.replacement import Replacement, ReplacementBackoff
from autoscaler.scaleup.plan import Resized, ScaleUpPlan
from autoscaler.scaleup.shortfall import Shortfall
from autoscaler.scaleup.status_change import StatusChange
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.template import Template
from cloudprovider.interface import InstanceError


class PassEnd(StrEnum):
    """Where a pass ended."""

    COMPLETE = "Complete"
    EMPTY_CLUSTER = "EmptyCluster"
    UNHEALTHY = "ClusterUnhealthy"
    SIZES_FIXED = "NodeGroupSizesFixed"
    SILENT = "ApiServerSilent"
    FAILED = "Failed"


class RemovedInstances(msgspec.Struct, frozen=True):
    """Machines without a node whose deletion was asked for; `error` says why it failed."""

    removal: InstanceRemoval
    error: InstanceError | None = None


class Repairs(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass put right in the cloud before it decided anything."""

    corrections: tuple[Resized, ...] = ()
    """Targets lowered because the machines never came."""
    unregistered_removed: tuple[RemovedInstances, ...] = ()
    failed_removed: tuple[RemovedInstances, ...] = ()

    @property
    def removed(self) -> tuple[RemovedInstances, ...]:
        """All machines whose deletion was asked for."""
        return (*self.unregistered_removed, *self.failed_removed)


class PendingPods(msgspec.Struct, frozen=True, kw_only=True):
    """Pending pods, by whether they need a node."""

    unschedulable: tuple[Pod, ...] = ()
    """Those that fit no node, those too young to be helped included, and the pods of requests to be served."""
    waiting: Mapping[str, Waiting] = {}
    """Why pods took no part in the scale-up, by key."""
    awaiting: Mapping[str, str] = {}
    """The group whose upcoming node a pod fits on, by key of the pod."""
    too_new_until: float | None = None
    """Wall second at which the first pods that were too new for a scale-up no longer are; None: no pod was."""


class ScaleUpReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the scale-up."""

    result: ScaleUpResult | None = None
    """None: the pass ended before the cluster was understood."""
    plan: ScaleUpPlan | None = None
    """None: nothing was planned."""
    error: str = ""
    """What failed, even where other groups made up for it."""


class ReplacementReport(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are replaced, and those that should be."""

    all: tuple[Replacement, ...] = ()
    """Those in progress, then those that ended in this pass."""
    held: Mapping[str, ReplacementBackoff] = {}
    """Why nodes that should be replaced wait, by name."""


class ScaleDownReport(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes may go, and which do."""

    result: ScaleDownResult | None = None
    """None: the pass ended before scale-down."""
    unneeded: tuple[Removal, ...] = ()
    """Nodes that could go, all together; as of the last pass that looked."""
    unremovable: Mapping[str, UnremovableNode] = {}
    """Why other nodes stay, by name; as of then."""
    deletions: NodesToDelete = NodesToDelete()
    """What this pass did about those that were due."""

    @property
    def begun(self) -> tuple[Removal, ...]:
        """Removals that this pass began."""
        return (*self.deletions.empty, *self.deletions.drained)


class PassReport(msgspec.Struct, frozen=True, kw_only=True):
    """One pass. What a pass that ended early never reached is empty."""

    now: Instant
    end: PassEnd = PassEnd.COMPLETE
    error: str = ""
    error_type: ErrorType | None = None
    view: ClusterView | None = None
    """None: the cluster could not be observed."""
    silent_s: Mapping[str, float] = {}
    """Kinds that the API server has said nothing about for longer than the limit, by path, and since when."""
    registry: Registry | None = None
    """As it was when the pass ended; None: the cluster could not be observed, or is empty."""
    templates: Mapping[str, Template] = {}
    device_pools: Mapping[str, Mapping[str, tuple[int, ...]]] = {}
    """How many devices each complete pool of a new node of a group has, by driver."""
    shortfalls: tuple[Shortfall, ...] = ()
    """Groups whose nodes turned out to offer less than the template they were bought by."""
    repairs: Repairs = Repairs()
    pods: PendingPods = PendingPods()
    scale_up: ScaleUpReport = ScaleUpReport()
    increases: tuple[Resized, ...] = ()
    """What became of each increase that was tried, in order: for pods, replacements and minimum sizes."""
    replacements: ReplacementReport = ReplacementReport()
    scale_down: ScaleDownReport = ScaleDownReport()
    status_changes: tuple[StatusChange, ...] = ()
    """Statuses written for ProvisioningRequests and CapacityBuffers, in order; a write that failed is tried again."""
    requests_served: int = 0
    """ProvisioningRequests that this pass looked for capacity for."""
    advice: Mapping[PodClass, Advice] = {}
    """Cause and fix for pods that are stuck, as far as they are known."""
    timings: Mapping[str, float] = {}
    """Seconds by phase; for reports only."""

    @property
    def refused(self) -> frozenset[str]:
        """Ids of the groups that were to grow and have not, for an error."""
        return refused(self.increases)

    @property
    def acted(self) -> bool:
        """Whether more machines come than before, some go, or a request had its turn so that the next may have its own.

        A resize that failed is no reason to look again at once.
        """
        grew = any(increase.after > increase.before for increase in self.increases)
        return grew or self.requests_served > 0 or bool(self.scale_down.begun)


def refused(increases: Iterable[Resized]) -> frozenset[str]:
    """Return the ids of the groups that were to grow and have not, for an error."""
    done = tuple(increases)
    failed = {increase.group for increase in done if increase.error is not None}
    return frozenset(failed - {increase.group for increase in done if increase.after > increase.before})
