"""Changes of node groups between two passes, for events, metrics and logs."""

from enum import StrEnum

import msgspec

from cloudprovider.interface import InstanceError


class Incident(StrEnum):
    """Kinds of occurrence; the value is Cluster Autoscaler's event reason where it has one."""

    SCALE_UP_FINISHED = "ScaleUpFinished"
    SCALE_UP_TIMED_OUT = "ScaleUpTimedOut"
    CREATION_FAILED = "ScaleUpFailed"
    UNREGISTERED_KEPT = "UnregisteredNodesKept"
    """Long-unregistered machines that the group's minimum size protects."""


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to one group."""

    incident: Incident
    group: str
    nodes: int
    """How many nodes it concerns."""
    lasted_s: float | None = None
    """How long the scale-up has taken, for those about one."""
    error: InstanceError | None = None
    """Set for failures; its code is the failure's label in metrics."""
    messages: tuple[str, ...] = ()
    """The distinct texts that the cloud gave."""
