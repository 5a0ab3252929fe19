"""Why: the typed reasons that logs, metrics, events, the status page and the docs share.

A member's value is Cluster Autoscaler's (or the scheduler's) own word where it has one.
"""

from enum import StrEnum

import msgspec


class NoFit(StrEnum):
    """Which of the scheduler's filters keeps a pod off a node."""

    UNSCHEDULABLE = "NodeUnschedulable"
    NODE_NAME = "NodeName"
    TAINT = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    PORTS = "NodePorts"
    RESOURCES = "NodeResourcesFit"
    VOLUME_RESTRICTIONS = "VolumeRestrictions"
    VOLUME_LIMITS = "NodeVolumeLimits"
    VOLUME_BINDING = "VolumeBinding"
    VOLUME_ZONE = "VolumeZone"
    SPREAD = "PodTopologySpread"
    POD_AFFINITY = "InterPodAffinity"
    DEVICES = "DynamicResources"


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """One filter's verdict on one node. `message` is the scheduler's wording; `detail` has the figures."""

    reason: NoFit
    message: str
    detail: str = ""


class Skip(StrEnum):
    """Why a node group was not considered for a scale-up."""

    NOT_READY = "NotReadyForScaleUp"
    BACKED_OFF = "InBackoff"
    MAX_SIZE = "MaxNodeGroupSizeReached"
    LIMIT = "MaxResourceLimitReached"
    ATOMIC_LIMIT = "AtomicScaleUpExceedsNodeLimit"
    NO_TEMPLATE = "NoTemplate"


class Skipped(msgspec.Struct, frozen=True):
    """A node group left out of a scale-up; `message` is Cluster Autoscaler's wording, `detail` has the figures."""

    group: str
    reason: Skip
    message: str
    detail: str = ""


class ScaleUpResult(StrEnum):
    """How the scale-up part of a pass ended."""

    SUCCESSFUL = "Successful"
    ERROR = "Error"
    NO_OPTIONS = "NoOptionsAvailable"
    NOT_NEEDED = "NotNeeded"
    NOT_TRIED = "NotTried"
    IN_COOLDOWN = "InCooldown"
    LIMITED_BY_MAX_NODES_TOTAL = "LimitedByMaxNodesTotal"


class Waiting(StrEnum):
    """Why a pending pod does not take part in this pass."""

    TOO_YOUNG = "TooYoung"
    EXPENDABLE = "Expendable"
    DAEMONSET = "DaemonSetPod"
    FITS = "FitsOnExistingOrUpcomingNode"
    TERMINATING = "Terminating"
    NOT_JUDGED = "NotJudgedByScheduler"
    NOMINATED = "Nominated"
    GATED = "SchedulingGated"
    FOREIGN_SCHEDULER = "SchedulerNotAllowed"
