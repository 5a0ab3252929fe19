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
"""A watch that fails for so long is worth a word, however quiet its kind is otherwise."""


class StuckLimits(msgspec.Struct, frozen=True):
    """How long nothing may happen before the process counts as stuck, in seconds."""

    max_inactivity_s: float
    max_failing_time_s: float
    max_startup_time_s: float | None = None
    """Replaces both until the first success; None: it does not."""
    max_watch_silence_s: float = 0.0
    """How long the API server may say nothing about a kind of objects; 0: for ever."""


def limits_of(loop: Loop, startup_limit: bool, max_watch_silence_s: float = 0.0) -> StuckLimits:
    """Return the limits of the configuration; the start-up limit is at least as long as the other two."""
    startup_s = max(loop.max_startup_time_s, loop.max_inactivity_s, loop.max_failing_time_s)
    until_success_s = startup_s if startup_limit else None
    return StuckLimits(loop.max_inactivity_s, loop.max_failing_time_s, until_success_s, max_watch_silence_s)


class LoopActivity(msgspec.Struct, frozen=True):
    """What is known of the loop's progress."""

    last_activity: Instant
    last_success: Instant
    monitored: bool = False
    succeeded: bool = False
    """Whether any pass has succeeded."""


class HealthResult(msgspec.Struct, frozen=True):
    """Answer of a health check; `text` is the body of the HTTP answer."""

    ok: bool
    text: str = "OK"


OK = HealthResult(True)


def liveness(activity: LoopActivity, limits: StuckLimits, now: Instant) -> HealthResult:
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
        return HealthResult(False, text)
    return OK


def readiness(activity: LoopActivity, limits: StuckLimits, now: Instant) -> HealthResult:
    """Judge whether the process does its job: on standby always, else once a pass succeeded and while it lives."""
    if activity.monitored and not activity.succeeded:
        return HealthResult(False, "Error: no pass has succeeded yet")
    return liveness(activity, limits, now)


class ApiServerHealth(msgspec.Struct, frozen=True):
    """What is known of the API server at one moment."""

    kinds: Mapping[str, WatchFigures] = {}
    """What the watches have come to, by path."""
    clock_ahead_s: float | None = None
    """How far our wall clock is ahead of the server's; None: not known."""


def freshness(server: ApiServerHealth, limits: StuckLimits) -> HealthResult:
    """Judge whether what is known of the cluster is what it is now.

    No kind may be silent beyond the limit. Quiet kinds are silent for a minute or two, so a watch that fails, and goes
    on failing for half a minute, tells earlier.
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
    """Yield what people should know who look at anything that was learned from the API server."""
    fresh = freshness(server, limits)
    if not fresh.ok:
        yield f"What follows may be out of date. {fresh.text}"
    ahead_s = server.clock_ahead_s or 0.0
    if abs(ahead_s) > CLOCKS_DIFFER_S:
        direction = "ahead of" if ahead_s > 0 else "behind"
        yield f"The clock of this machine is {abs(ahead_s):.0f}s {direction} that of the API server."


class HealthCheck:
    """Hears from the loop and answers the HTTP threads."""

    def __init__(
        self,
        limits: StuckLimits,
        now: Instant,
        api_server: Callable[[Instant], ApiServerHealth] = lambda _: ApiServerHealth(),
    ) -> None:
        """`api_server` tells at any time what is known of it."""
        self._limits = limits
        self._api_server = api_server
        self._activity = LoopActivity(now, now)
        self._lock = threading.Lock()

    def start_monitoring(self, now: Instant) -> None:
        """Begin to hold the loop to its limits, counted from now."""
        with self._lock:
            old = self._activity
            self._activity = LoopActivity(
                _later(now, old.last_activity), _later(now, old.last_success), True, old.succeeded
            )

    def on_standby(self, now: Instant) -> None:
        """Stop holding the loop to limits: another replica leads, and we can see that it does."""
        with self._lock:
            self._activity = LoopActivity(now, now, succeeded=self._activity.succeeded)

    def pass_started(self, now: Instant) -> None:
        """Note a sign of life."""
        with self._lock:
            old = self._activity
            self._activity = msgspec.structs.replace(old, last_activity=_later(now, old.last_activity))

    def pass_succeeded(self, now: Instant) -> None:
        """Note a success, which is a sign of life too."""
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
        return freshness(self._api_server(now), self._limits) if verdict.ok else verdict

    def api_server(self, now: Instant) -> ApiServerHealth:
        """Return what is known of the API server."""
        return self._api_server(now)

    def complaints(self, now: Instant) -> tuple[str, ...]:
        """Return what the status page says of the API server above all else."""
        return tuple(complaints(self._api_server(now), self._limits))


def _later(first: Instant, second: Instant) -> Instant:
    return first if first.mono >= second.mono else second
