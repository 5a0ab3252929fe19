"""Changes of node groups between two passes, for events, metrics and logs."""

from enum import StrEnum

import msgspec

from cloudprovider.interface import InstanceError


class Incident(StrEnum):
    """Kinds of occurrence; the value is Cluster Autoscaler's event reason if it has one."""

    SCALE_UP_FINISHED = "ScaleUpFinished"
    SCALE_UP_TIMED_OUT = "ScaleUpTimedOut"
    CREATION_FAILED = "ScaleUpFailed"
    UNREGISTERED_KEPT = "UnregisteredNodesKept"
    """Long-unregistered machines that the group's minimum size protects."""


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """One event in one group."""

    incident: Incident
    group: str
    nodes: int
    """Number of affected nodes."""
    lasted_s: float | None = None
    """Duration of the scale-up in seconds, if the occurrence is about one."""
    error: InstanceError | None = None
    """Set for failures; its code is the failure's label in metrics."""
    messages: tuple[str, ...] = ()
    """The distinct messages from the cloud."""
