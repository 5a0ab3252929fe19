"""Durations in the sandbox: much shorter than in reality, long enough to watch."""

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Delays in seconds. Boot delays of machines are the simulated cloud's."""

    cloud_poll_s: float = 1.0
    """How often the list of machines is compared with the nodes."""
    register_s: float = 1.0
    """From a running machine to its node, which is not Ready."""
    ready_s: float = 2.0
    """From the node to the node being Ready."""
    heartbeat_s: float = 300.0
    """Between reports of a node with no news."""
    lost_s: float = 5.0
    """From the machine's end to the end of its node."""
    orphan_s: float = 1.0
    """How long a pod may be bound to a node that does not exist."""
    pull_s: float = 2.0
    """For each image that the node does not have yet."""
    start_s: float = 0.5
    """From images at hand to running containers."""
    stop_s: float = 2.0
    """For a deleted pod to stop, if its grace period is not shorter."""
    job_s: float = 10.0
    """How long a Job's pod runs if it does not say."""
    autoscale_s: float = 5.0
    """Between two looks of a HorizontalPodAutoscaler at its pods."""
    autoscale_down_s: float = 30.0
    """How long a HorizontalPodAutoscaler that does not say waits before it takes replicas away."""
    flush_s: float = 30.0
    """How often unschedulable pods are tried again though nothing seems to have changed."""
    event_repeat_s: float = 30.0
    """Least time between two reports of the same event."""
    event_ttl_s: float = 3600.0
    """How long events are kept."""
