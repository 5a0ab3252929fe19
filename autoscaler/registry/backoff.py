"""Backoff of a node group after failed scale-ups; repeated failures make it longer.

The behaviour is that of Cluster Autoscaler's exponential backoff. A failure during a backoff window restarts the window
with the same length. A failure after the window doubles the length. A success changes nothing; a group is forgotten
only after a time without failures.
"""

from collections.abc import Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.scaleup import HealthOptions
from cloudprovider.interface import InstanceError

_LONGEST_MESSAGE = 500
_CUT = "<truncated>"


class Backoff(msgspec.Struct, frozen=True):
    """The last backoff of a group: its reason and duration."""

    last_failure: Instant
    duration_s: float
    error: InstanceError

    @property
    def until(self) -> Instant:
        """The last moment of the window."""
        return self.last_failure.later(self.duration_s)

    def holds(self, now: Instant) -> bool:
        """Whether the window is open at `now`; its last moment is included."""
        return now.mono <= self.last_failure.mono + self.duration_s


Backoffs = Mapping[str, Backoff]
"""By group id. An entry is kept after its window, so that the next failure has a longer one."""


def failed(backoffs: Backoffs, group_id: str, error: InstanceError, now: Instant, health: HealthOptions) -> Backoffs:
    """Return the backoffs after another failure of a group; the error's message is cut to 500 characters."""
    before = backoffs.get(group_id)
    if before is None:
        duration_s = health.initial_node_group_backoff_duration_s
    elif before.holds(now):
        duration_s = before.duration_s
    else:
        duration_s = min(2 * before.duration_s, health.max_node_group_backoff_duration_s)
    return {**backoffs, group_id: Backoff(now, duration_s, _shortened(error))}


def backed_off(backoffs: Backoffs, group_id: str, now: Instant) -> Backoff | None:
    """Return the backoff of a group if its window is open, otherwise None."""
    backoff = backoffs.get(group_id)
    return backoff if backoff is not None and backoff.holds(now) else None


def expire(backoffs: Backoffs, now: Instant, health: HealthOptions) -> Backoffs:
    """Remove groups whose last failure is older than the reset time-out."""
    reset_s = health.node_group_backoff_reset_timeout_s
    return {group: backoff for group, backoff in backoffs.items() if backoff.last_failure.mono + reset_s >= now.mono}


def _shortened(error: InstanceError) -> InstanceError:
    if len(error.message) <= _LONGEST_MESSAGE:
        return error
    return msgspec.structs.replace(error, message=error.message[:_LONGEST_MESSAGE] + _CUT)
