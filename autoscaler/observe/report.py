"""What one pass saw, decided and did: the one value from which status, metrics, events and answers are made."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from autoscaler.clock import Instant
from autoscaler.errors import ErrorType
from autoscaler.objects.pod import Pod
from autoscaler.reasons import ScaleDownResult, ScaleUpResult, UnremovableNode, Waiting
from autoscaler.registry.instances import InstanceRemoval
from autoscaler.registry.state import Registry
from autoscaler.scaledown.plan import NodesToDelete
from autoscaler.scaledown.plan import Removal as ScaleDownRemoval
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


class PassReport(msgspec.Struct, frozen=True, kw_only=True):
    """One pass. What a pass that ended early never came to is empty."""

    now: Instant
    end: PassEnd = PassEnd.COMPLETE
    error: str = ""
    error_type: ErrorType | None = None
    view: ClusterView | None = None
    silent_s: Mapping[str, float] = {}
    """Kinds that the API server has said nothing about for longer than the limit, by path, and since when."""
    registry: Registry | None = None
    """As it was when the pass ended."""
    templates: Mapping[str, Template] = {}
    device_pools: Mapping[str, Mapping[str, tuple[int, ...]]] = {}
    """How many devices each complete pool of a new node of a group has, by driver."""
    shortfalls: tuple[Shortfall, ...] = ()
    """Groups whose nodes turned out to offer less than the template they were bought by."""
    waiting: Mapping[str, Waiting] = {}
    """Why pending pods took no part, by key."""
    needy: tuple[Pod, ...] = ()
    """Pending pods that fit no node, those too young to be helped included."""
    scale_up_result: ScaleUpResult | None = None
    """None: the pass ended before scale-up."""
    scale_up: ScaleUpPlan | None = None
    increases: tuple[Resized, ...] = ()
    """What became of each planned increase that was tried, in order."""
    scale_up_error: str = ""
    """What failed, even where other groups made up for it."""
    scale_down_result: ScaleDownResult | None = None
    """None: the pass ended before scale-down."""
    unneeded: tuple[ScaleDownRemoval, ...] = ()
    """Nodes that could go, all together."""
    kept: Mapping[str, UnremovableNode] = {}
    """Why other nodes stay, by name."""
    deletions: NodesToDelete = NodesToDelete()
    """Removals that this pass began."""
    replacements: tuple[Replacement, ...] = ()
    """Those in progress, then those that ended in this pass."""
    replacements_held: Mapping[str, ReplacementBackoff] = {}
    """Why nodes that should be replaced wait, by name."""
    corrections: tuple[Resized, ...] = ()
    """Targets lowered because the machines never came."""
    unregistered_removed: tuple[RemovedInstances, ...] = ()
    failed_removed: tuple[RemovedInstances, ...] = ()
    status_changes: tuple[StatusChange, ...] = ()
    """What ProvisioningRequests and CapacityBuffers were told, in order; a write that failed is tried again."""
    requests_served: int = 0
    """ProvisioningRequests that this pass looked for capacity for."""
    timings: Mapping[str, float] = {}
    """Seconds by phase; for reports only."""

    @property
    def refused(self) -> frozenset[str]:
        """Ids of the groups that were to grow and have not, for an error."""
        failed = {one.group for one in self.increases if one.error is not None}
        return frozenset(failed - {one.group for one in self.increases if one.after > one.before})

    @property
    def acted(self) -> bool:
        """Whether more machines come than before, some go, or a request had its turn so that the next may have its own.

        A resize that failed is no reason to look again at once.
        """
        grew = any(one.after > one.before for one in self.increases)
        return grew or self.requests_served > 0 or bool(self.deletions.empty or self.deletions.drained)
