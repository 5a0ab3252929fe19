"""Health and readiness of the process, as in Cluster Autoscaler's health check.

Until monitoring starts, which happens when this replica leads, every answer is OK: a standby replica is healthy.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.process import Loop
from autoscaler.kube.client import CLOCKS_DIFFER_S
from autoscaler.observe.metrics.watches import WatchFigures

_FAILING_S = 30.0
"""A watch that fails for this many seconds is reported, even if its kind is usually quiet."""


class StuckLimits(msgspec.Struct, frozen=True):
    """Seconds without progress after which the process counts as stuck."""

    max_inactivity_s: float
    max_failing_time_s: float
    max_startup_time_s: float | None = None
    """Replaces both limits until the first success; None if it does not."""
    max_watch_silence_s: float = 0.0
    """Seconds that the API server may send nothing about a kind of objects; 0 means no limit."""


def limits_of(loop: Loop, startup_limit: bool, max_watch_silence_s: float = 0.0) -> StuckLimits:
    """Return the configured limits; the start-up limit is at least as long as the other two."""
    startup_s = max(loop.max_startup_time_s, loop.max_inactivity_s, loop.max_failing_time_s)
    until_success_s = startup_s if startup_limit else None
    return StuckLimits(loop.max_inactivity_s, loop.max_failing_time_s, until_success_s, max_watch_silence_s)


class LoopActivity(msgspec.Struct, frozen=True):
    """The progress of the loop."""

    last_activity: Instant
    last_success: Instant
    monitored: bool = False
    succeeded: bool = False
    """Whether any pass has succeeded."""


class HealthResult(msgspec.Struct, frozen=True):
    """The result of a health check; `text` is the body of the HTTP response."""

    ok: bool
    text: str = "OK"


OK = HealthResult(True)


def liveness(activity: LoopActivity, limits: StuckLimits, now: Instant) -> HealthResult:
    """Return whether the loop makes progress; at exactly a limit it still does."""
    if not activity.monitored:
        return OK
    inactive_s = now.mono - activity.last_activity.mono
    failing_s = now.mono - activity.last_success.mono
    inactivity_limit_s, failing_limit_s = limits.max_inactivity_s, limits.max_failing_time_s
    if not activity.succeeded and limits.max_startup_time_s is not None:
        inactivity_limit_s = failing_limit_s = limits.max_startup_time_s
    if inactive_s > inactivity_limit_s or failing_s > failing_limit_s:
        text = f"Error: last activity more than {inactive_s:.1f}s ago, last success more than {failing_s:.1f}s ago"
        return HealthResult(False, text)
    return OK


def readiness(activity: LoopActivity, limits: StuckLimits, now: Instant) -> HealthResult:
    """Return whether the process is ready: always on standby, otherwise after a successful pass while it is alive."""
    if activity.monitored and not activity.succeeded:
        return HealthResult(False, "Error: no pass has succeeded yet")
    return liveness(activity, limits, now)


class ApiServerHealth(msgspec.Struct, frozen=True):
    """The state of the API server at one moment."""

    kinds: Mapping[str, WatchFigures] = {}
    """Figures of the watches, by path."""
    clock_ahead_s: float | None = None
    """Seconds by which our wall clock is ahead of the server's; None if unknown."""


def freshness(server: ApiServerHealth, limits: StuckLimits) -> HealthResult:
    """Return whether our view of the cluster is up to date.

    No kind may be silent beyond the limit. Quiet kinds are silent for a minute or two, so a watch that has failed for
    half a minute is reported earlier.
    """
    limit_s = limits.max_watch_silence_s
    silent = {
        path: watch.silent_s
        for path, watch in server.kinds.items()
        if watch.silent_s is not None and (0 < limit_s < watch.silent_s or watch.failing_s > _FAILING_S)
    }
    if not silent:
        return OK
    path, silent_s = max(silent.items(), key=itemgetter(1))
    others = f", nor for long about {len(silent) - 1} other kinds" if len(silent) > 1 else ""
    error = server.kinds[path].error
    text = f"Error: the API server has said nothing about {path} for {silent_s:.0f}s{others}"
    return HealthResult(False, f"{text}: {error}" if error else text)


def complaints(server: ApiServerHealth, limits: StuckLimits) -> Iterator[str]:
    """Yield problems that readers of any data from the API server should know about."""
    fresh = freshness(server, limits)
    if not fresh.ok:
        yield f"What follows may be out of date. {fresh.text}"
    ahead_s = server.clock_ahead_s or 0.0
    if abs(ahead_s) > CLOCKS_DIFFER_S:
        direction = "ahead of" if ahead_s > 0 else "behind"
        yield f"The clock of this machine is {abs(ahead_s):.0f}s {direction} that of the API server."


class HealthCheck:
    """Receives the loop's progress, and answers the HTTP threads."""

    def __init__(
        self,
        limits: StuckLimits,
        now: Instant,
        api_server: Callable[[Instant], ApiServerHealth] = lambda _: ApiServerHealth(),
    ) -> None:
        """`api_server` returns the current state of the API server."""
        self._limits = limits
        self.api_server = api_server
        self._activity = LoopActivity(now, now)
        self._lock = threading.Lock()

    def start_monitoring(self, now: Instant) -> None:
        """Apply the limits to the loop from now on."""
        with self._lock:
            old = self._activity
            self._activity = LoopActivity(
                _later(now, old.last_activity), _later(now, old.last_success), True, old.succeeded
            )

    def on_standby(self, now: Instant) -> None:
        """Stop applying the limits: another replica leads, and we have confirmed that it does."""
        with self._lock:
            self._activity = LoopActivity(now, now, succeeded=self._activity.succeeded)

    def pass_started(self, now: Instant) -> None:
        """Record that a pass started."""
        with self._lock:
            old = self._activity
            self._activity = msgspec.structs.replace(old, last_activity=_later(now, old.last_activity))

    def pass_succeeded(self, now: Instant) -> None:
        """Record that a pass succeeded."""
        with self._lock:
            old = self._activity
            self._activity = LoopActivity(
                _later(now, old.last_activity), _later(now, old.last_success), old.monitored, succeeded=True
            )

    def alive(self, now: Instant) -> HealthResult:
        """Answer `/health-check`."""
        return liveness(self._activity, self._limits, now)

    def ready(self, now: Instant) -> HealthResult:
        """Answer `/readyz`."""
        verdict = readiness(self._activity, self._limits, now)
        return freshness(self.api_server(now), self._limits) if verdict.ok else verdict

    def complaints(self, now: Instant) -> tuple[str, ...]:
        """Return the problems that the status page shows first."""
        return tuple(complaints(self.api_server(now), self._limits))


def _later(first: Instant, second: Instant) -> Instant:
    return first if first.mono >= second.mono else second
