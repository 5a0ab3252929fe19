"""A Kubernetes node autoscaler: decides like Cluster Autoscaler, faster, and says why."""

from autoscaler.errors import (
    AutoscalerError,
    Blocked,
    CloudUnavailable,
    ConfigError,
    Conflict,
    Gone,
    LeadershipLost,
    NeverStarted,
    Refused,
    RetryLater,
    Stopped,
)

__all__ = [
    "AutoscalerError",
    "Blocked",
    "CloudUnavailable",
    "ConfigError",
    "Conflict",
    "Gone",
    "LeadershipLost",
    "NeverStarted",
    "Refused",
    "RetryLater",
    "Stopped",
]
