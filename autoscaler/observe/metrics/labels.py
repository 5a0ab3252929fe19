"""Label values of metrics, equal to Cluster Autoscaler's if it has the metric."""

from enum import StrEnum


class Function(StrEnum):
    """Parts of a pass whose duration is measured: values of the label `function`."""

    MAIN = "main"
    REFRESH = "cloudProviderRefresh"
    UPDATE_STATE = "updateClusterState"
    FILTER_SCHEDULABLE = "filterOutSchedulable"
    FIND_UNNEEDED = "findUnneeded"
    SCALE_UP = "scaleUp"
    SCALE_UP_ESTIMATE = "scaleUp:estimate"
    SCALE_DOWN = "scaleDown"
    SCALE_DOWN_DELETION = "scaleDown:nodeDeletion"
    SCALE_DOWN_SOFT_TAINTS = "scaleDown:softTaintUnneeded"
    LOOP_WAIT = "loopWait"


class PassActivity(StrEnum):
    """Steps whose last time is published: values of the label `activity`."""

    MAIN = "main"
    MAIN_SUCCESSFUL = "mainSuccessful"
    AUTOSCALING = "autoscaling"
    SCALE_UP = "scaleUp"
    SCALE_DOWN = "scaleDown"


class ScaleUpFailure(StrEnum):
    """Why a scale-up failed, if the provider gave no code."""

    CLOUD_PROVIDER = "cloudProviderError"
    API_CALL = "apiCallError"
    TIMEOUT = "timeout"


class EvictionResult(StrEnum):
    """How an eviction ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


class NoticedPodResult(StrEnum):
    """Whether a pod left before its machine did."""

    LEFT = "left"
    REMAINED = "remained"


class Direction(StrEnum):
    """The direction of a scaling that was skipped."""

    UP = "up"
    DOWN = "down"


class LimitedResource(StrEnum):
    """The limit that caused a scaling to be skipped."""

    CPU = "CpuResourceLimit"
    MEMORY = "MemoryResourceLimit"


class Recorded(StrEnum):
    """The result of recording a pass."""

    WRITTEN = "written"
    DROPPED = "dropped"
    """The previous recording was still being written."""
    FAILED = "failed"
    """Writing to the disk failed."""


class AskedExpander(StrEnum):
    """The result of a call to the gRPC expander: values of the label `result`."""

    ANSWERED = "answered"
    UNUSABLE = "unusable"
    FAILED = "failed"


class Reload(StrEnum):
    """The result of reloading the configuration: values of the label `result`."""

    APPLIED = "applied"
    REFUSED = "refused"


class Mismatch(StrEnum):
    """How device pools differ from those expected on a group's nodes."""

    MISSING = "missing"
    EXTRA = "extra"
    MISMATCH = "mismatch"
    """The number of pools matches, but some have more or fewer devices."""


class PendingKind(StrEnum):
    """The kind of waiting pods."""

    UNSCHEDULABLE = "unschedulable"
    UNPROCESSED = "scheduler_unprocessed"
    INJECTED = "injected"


PLACING = "filter-out-pod-list-processor"
"""The part that places pending pods on existing nodes: a value of the label `requestor`."""
