"""Whether the process is alive and ready, as Cluster Autoscaler's health check tells it.

Until monitoring starts, which happens when this replica leads, every answer is OK: a standby replica is healthy.
"""

import threading

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.process import Loop


class Limits(msgspec.Struct, frozen=True):
    """How long nothing may happen before the process counts as stuck, in seconds."""

    max_inactivity_s: float
    max_failing_time_s: float
    max_startup_time_s: float | None = None
    """Replaces both until the first success; None: it does not."""


def limits_of(loop: Loop, startup_limit: bool) -> Limits:
    """Return the limits of the configuration; the start-up limit is at least as long as the other two."""
    startup_s = max(loop.max_startup_time_s, loop.max_inactivity_s, loop.max_failing_time_s)
    return Limits(loop.max_inactivity_s, loop.max_failing_time_s, startup_s if startup_limit else None)


class Activity(msgspec.Struct, frozen=True):
    """What is known of the loop's progress."""

    last_activity: Instant
    last_success: Instant
    monitored: bool = False
    succeeded: bool = False
    """Whether any pass has succeeded."""


class Verdict(msgspec.Struct, frozen=True):
    """Answer of a health check; `text` is the body of the HTTP answer."""

    ok: bool
    text: str = "OK"


OK = Verdict(True)


def liveness(activity: Activity, limits: Limits, now: Instant) -> Verdict:
    """Judge whether the loop still makes progress; exactly at a limit it does."""
    if not activity.monitored:
        return OK
    inactive_s = now.mono - activity.last_activity.mono
    failing_s = now.mono - activity.last_success.mono
    inactivity_limit_s, failing_limit_s = limits.max_inactivity_s, limits.max_failing_time_s
    if not activity.succeeded and limits.max_startup_time_s is not None:
        inactivity_limit_s = failing_limit_s = limits.max_startup_time_s
    if inactive_s > inactivity_limit_s or failing_s > failing_limit_s:
        text = f"Error: last activity more than {inactive_s:.1f}s ago, last success more than {failing_s:.1f}s ago"
        return Verdict(False, text)
    return OK


def readiness(activity: Activity, limits: Limits, now: Instant) -> Verdict:
    """Judge whether the process does its job: on standby always, else once a pass succeeded and while it lives."""
    if activity.monitored and not activity.succeeded:
        return Verdict(False, "Error: no pass has succeeded yet")
    return liveness(activity, limits, now)


class HealthCheck:
    """Hears from the loop and answers the HTTP threads."""

    def __init__(self, limits: Limits, now: Instant) -> None:
        self._limits = limits
        self._activity = Activity(now, now)
        self._writing = threading.Lock()

    def start_monitoring(self, now: Instant) -> None:
        """Begin to hold the loop to its limits, counted from now."""
        with self._writing:
            old = self._activity
            self._activity = Activity(
                _later(now, old.last_activity), _later(now, old.last_success), True, old.succeeded
            )

    def stand_by(self, now: Instant) -> None:
        """Stop holding the loop to limits: another replica leads, and we can see that it does."""
        with self._writing:
            self._activity = Activity(now, now, succeeded=self._activity.succeeded)

    def pass_started(self, now: Instant) -> None:
        """Note a sign of life."""
        with self._writing:
            old = self._activity
            self._activity = msgspec.structs.replace(old, last_activity=_later(now, old.last_activity))

    def pass_succeeded(self, now: Instant) -> None:
        """Note a success, which is a sign of life too."""
        with self._writing:
            old = self._activity
            self._activity = Activity(
                _later(now, old.last_activity), _later(now, old.last_success), old.monitored, succeeded=True
            )

    def alive(self, now: Instant) -> Verdict:
        """Answer `/health-check`."""
        return liveness(self._activity, self._limits, now)

    def ready(self, now: Instant) -> Verdict:
        """Answer `/readyz`."""
        return readiness(self._activity, self._limits, now)


def _later(one: Instant, other: Instant) -> Instant:
    return one if one.mono >= other.mono else other
