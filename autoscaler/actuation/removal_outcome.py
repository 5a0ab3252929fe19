"""Outcomes of removals, and the reasons of failed ones."""

from enum import StrEnum

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.pod import Pod
from autoscaler.reasons import RemovedAs
from autoscaler.scaledown.plan import Removal


def removed_as(removal: Removal) -> RemovedAs:
    """Return the kind of a node."""
    if not removal.ready:
        return RemovedAs.UNREADY
    return RemovedAs.UNDERUTILIZED if removal.drained else RemovedAs.EMPTY


class RemovalOutcome(StrEnum):
    """How a removal ended, with Cluster Autoscaler's names; `ABANDONED` is ours."""

    DELETED = "NodeDeleteOk"
    NOT_EVICTED = "NodeDeleteErrorFailedToEvictPods"
    NOT_DELETED = "NodeDeleteErrorFailedToDelete"
    INTERNAL = "NodeDeleteErrorInternal"
    ABANDONED = "Abandoned"
    """The program stops or has lost leadership; the next leader cleans up."""


class AbortReason(StrEnum):
    """Why a removal in progress was aborted."""

    DISABLED = "ScaleDownDisabledAnnotation"
    BLOCKED = "BlockedByPod"
    ON_COMPLETION = "BlockedByOnCompletionPod"
    MIN_SIZE = "NodeGroupMinSizeReached"
    ATOMIC = "AtomicScaleDownFailed"
    NODE_GONE = "NodeGone"
    TAINT_LOST = "TaintLost"
    NEW_PODS = "NewPodsScheduled"
    NOT_EVICTED = "EvictionFailed"
    PODS_REMAIN = "PodsRemain"
    UNREADABLE = "ClusterUnreadable"
    REFUSED = "ProviderRefused"
    REFUSED_AHEAD = "ProviderRefusesDeletion"
    NO_LEASE = "LeaseTooShort"
    NOT_TAINTED = "NotTainted"
    NOTICE_WITHDRAWN = "NoticeWithdrawn"
    BUG = "UnexpectedError"


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """The result of evicting one pod; `error` is empty on success."""

    pod: Pod
    error: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the pod is gone or terminating."""
        return not self.error


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A removal that has ended."""

    removal: Removal
    outcome: RemovalOutcome
    at: Instant
    why: AbortReason | None = None
    message: str = ""
    """For people; nothing parses it."""
    evictions: tuple[Eviction, ...] = ()
    rolled_back: bool = False
    """Whether the node was given back to the scheduler."""
    certain: bool = True
    """False if the cloud could not tell whether the machine is being deleted."""

    @property
    def deleted(self) -> bool:
        """Whether the machine is gone or being deleted."""
        return self.outcome is RemovalOutcome.DELETED


class Aborted(Exception):
    """A removal must not continue; its node is given back to the scheduler."""

    def __init__(self, why: AbortReason, message: str, *, certain: bool = True) -> None:
        super().__init__(message)
        self.why = why
        self.message = message
        self.certain = certain

    @property
    def outcome(self) -> RemovalOutcome:
        """The outcome, with Cluster Autoscaler's name."""
        if self.why in (AbortReason.NOT_EVICTED, AbortReason.PODS_REMAIN):
            return RemovalOutcome.NOT_EVICTED
        return RemovalOutcome.INTERNAL if self.why is AbortReason.BUG else RemovalOutcome.NOT_DELETED
