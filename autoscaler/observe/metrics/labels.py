"""Values of the labels of metrics, as Cluster Autoscaler has them where it has the metric."""

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
    """Why a scale-up failed where the provider gave no code of its own."""

    CLOUD_PROVIDER = "cloudProviderError"
    API_CALL = "apiCallError"
    TIMEOUT = "timeout"


class EvictionResult(StrEnum):
    """How an eviction ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Direction(StrEnum):
    """Which way a skipped scaling would have gone."""

    UP = "up"
    DOWN = "down"


class LimitedResource(StrEnum):
    """Which limit made a scaling be skipped."""

    CPU = "CpuResourceLimit"
    MEMORY = "MemoryResourceLimit"


class Recorded(StrEnum):
    """What became of the recording of a pass."""

    WRITTEN = "written"
    DROPPED = "dropped"
    """The one before was still being written."""
    FAILED = "failed"
    """The disk refused it."""


class AskedExpander(StrEnum):
    """How asking the gRPC expander ended: values of the label `result`."""

    ANSWERED = "answered"
    UNUSABLE = "unusable"
    FAILED = "failed"


class Reload(StrEnum):
    """How reading the configuration anew ended: values of the label `result`."""

    APPLIED = "applied"
    REFUSED = "refused"


class Mismatch(StrEnum):
    """How pools of devices differ from what a group's nodes are expected to have."""

    MISSING = "missing"
    EXTRA = "extra"
    MISMATCH = "mismatch"
    """There are as many pools, and some have more or fewer devices."""


class PendingKind(StrEnum):
    """What kind of pods wait."""

    UNSCHEDULABLE = "unschedulable"
    UNPROCESSED = "scheduler_unprocessed"


PLACING = "filter-out-pod-list-processor"
"""Who tries to place pending pods on nodes that are there: a value of the label `requestor`."""
