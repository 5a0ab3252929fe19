"""A node autoscaler for Kubernetes that decides like Cluster Autoscaler and explains its decisions."""

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
