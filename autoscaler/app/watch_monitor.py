"""Reports how well the API server responds, for metrics, health check and status page."""

from autoscaler.clock import Instant
from autoscaler.kube.client import Client
from autoscaler.kube.feed import ClusterFeed
from autoscaler.kube.watch import ReflectorStats
from autoscaler.observe.http.health import ApiServerHealth
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.metrics.watches import WatchFigures
from autoscaler.observe.status import UndecodedKind
from autoscaler.observe.status_board import StatusBoard


class WatchMonitor:
    """Reports the state of the watches at any time and on any thread."""

    def __init__(self, feed: ClusterFeed, client: Client) -> None:
        self._feed = feed
        self._client = client

    def api_server(self, now: Instant) -> ApiServerHealth:
        """Return the state of the API server."""
        kinds = {path: _watch_figures(stats, now) for path, stats in self._feed.stats().items()}
        return ApiServerHealth(kinds, self._client.clock_ahead_s)

    def publish(self, metrics: Metrics, board: StatusBoard, now: Instant) -> None:
        """Publish the state as metrics, and undecodable objects on the board."""
        odd = ((path, stats) for path, stats in self._feed.stats().items() if stats.undecoded)
        board.undecoded_changed(
            tuple(UndecodedKind(path, stats.undecoded, stats.undecoded_examples) for path, stats in odd)
        )
        server = self.api_server(now)
        metrics.watches(server.kinds)
        metrics.calls_retried(self._client.retries)
        if server.clock_ahead_s is not None:
            metrics.clock_is_ahead(server.clock_ahead_s)


def _watch_figures(stats: ReflectorStats, now: Instant) -> WatchFigures:
    heard_at, failing_since = stats.last_received_mono, stats.failing_since_mono
    return WatchFigures(
        restarts=stats.watch_restarts,
        relists=stats.relists,
        failures=stats.failures,
        decode_s=stats.decode_s,
        undecoded=stats.undecoded,
        silent_s=None if heard_at is None else max(0.0, now.mono - heard_at),
        failing_s=0.0 if failing_since is None else max(0.0, now.mono - failing_since),
        error=stats.last_error or "",
    )
