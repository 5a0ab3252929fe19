"""Publishes the results of a pass: status, metrics, health, log lines and the status ConfigMap, all from its report."""

from collections.abc import Callable, Mapping
from typing import Protocol

from autoscaler.clock import Instant
from autoscaler.config.expanders import BY_PRICE
from autoscaler.config.rules import Rules
from autoscaler.config.tree import Config
from autoscaler.errors import AutoscalerError
from autoscaler.logs import Log
from autoscaler.objects.node import Node
from autoscaler.observe.http.health import HealthCheck
from autoscaler.observe.metrics.labels import EvictionResult, Function, NoticedPodResult, PassActivity
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.metrics.pass_metrics import PassMetrics, failed
from autoscaler.observe.pass_log import PassLog
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import AutoscalerState, PublishedStatus, RecentEvent
from autoscaler.observe.status_board import StatusBoard
from autoscaler.observe.status_map import status_config_map, status_time
from autoscaler.observe.summary import WHOLE_PASS, summarise
from autoscaler.reasons import RemovedAs

log = Log(__name__)


class StatusMapWriter(Protocol):
    """Writes the status ConfigMap."""

    def put(self, text: str, last_updated: str) -> None:
        """Write the text; raises `AutoscalerError`."""
        ...

    def remove(self) -> None:
        """Delete the ConfigMap; succeeds if it does not exist; raises `AutoscalerError`."""
        ...


class Publisher:
    """Publishes passes to all outputs; a failing output raises no exception.

    Owned by the deciding thread. It is also the `actuation.removal_events.RemovalListener`, which counts in parallel to
    the passes.
    """

    def __init__(
        self,
        config: Config,
        board: StatusBoard,
        metrics: Metrics,
        health: HealthCheck,
        recent_events: Callable[[], tuple[RecentEvent, ...]],
        status_map: StatusMapWriter | None,
        etas: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        """`recent_events` returns the newest events. Without `status_map`, or with its flag off, no ConfigMap is
        written.

        `etas` returns the seconds until pods are ready, by pod key, as of the last pass.
        """
        self._etas = etas
        self._rules = config.rules
        self._board = board
        self._metrics = metrics
        self._health = health
        self._recent_events = recent_events
        self._pass_metrics = PassMetrics(metrics, config)
        self._pass_log = PassLog(prices_matter=_prices_matter(config))
        self._status_map = _StatusMap(status_map if config.observe.write_status_configmap else None, config.rules)
        self._passes = 0
        self._ended: Instant | None = None

    def configure(self, config: Config) -> None:
        """Use other options from the next pass on."""
        self._pass_metrics.configure(config)
        self._pass_log.prices_matter = _prices_matter(config)

    def start(self, now: Instant) -> None:
        """Publish that this replica is about to begin its first pass."""
        self._pass_metrics.start()
        initializing = PublishedStatus(process=self._board.view.status.process, state=AutoscalerState.INITIALIZING)
        self._status_map.put(initializing, now.wall)

    def pass_started(self, now: Instant) -> None:
        """Publish that a pass begins."""
        self._health.pass_started(now)
        self._metrics.step_began(PassActivity.MAIN, now)
        if self._ended is not None:
            self._metrics.observe_duration(Function.LOOP_WAIT, max(0.0, now.mono - self._ended.mono))

    def pass_ended(self, report: PassReport) -> None:
        """Publish the observations, decisions and actions of a pass.

        The ConfigMap is written only if the pass observed the cluster; an outage of the provider leaves the old one in
        place.
        """
        self._passes += 1
        self._ended = report.now.later(report.timings.get(WHOLE_PASS, 0.0))
        before = self._board.view.status
        summary = summarise(
            report,
            before,
            number=self._passes,
            events=self._recent_events(),
            rules=self._rules,
            etas=self._etas(),
        )
        status = self._board.publish(summary)
        self._pass_metrics.pass_ended(report, status.groups)
        if not failed(report):
            self._health.pass_succeeded(self._ended)
        self._pass_log.pass_ended(report, status)
        if report.view is not None:
            self._status_map.put(status, report.now.wall)

    def deletions_pending(self, nodes: int) -> None:
        """Publish the number of removals in progress while others begin.

        Any thread may call this and the next four methods.
        """
        self._metrics.pending_deletions(nodes)

    def pod_evicted(self, succeeded: bool) -> None:
        """Count a completed eviction."""
        self._metrics.evicted(1, EvictionResult.SUCCEEDED if succeeded else EvictionResult.FAILED)

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        """Count a node whose machine the cloud is deleting."""
        self._pass_metrics.node_removed(group, node, removed_as)

    def removal_failed(self, why: str) -> None:
        """Count a removal that was aborted."""
        self._metrics.scale_down_failed(why)

    def machine_left(self, left: int, remained: int) -> None:
        """Count the pods of a node whose machine left as announced."""
        self._metrics.noticed_pods(left, NoticedPodResult.LEFT)
        self._metrics.noticed_pods(remained, NoticedPodResult.REMAINED)

    def stop(self) -> None:
        """Publish that the process ends: an outdated ConfigMap would mislead its readers."""
        self._status_map.remove()


def _prices_matter(config: Config) -> bool:
    return not set(BY_PRICE).isdisjoint(config.scale_up.expander)


class _StatusMap:
    """The ConfigMap, or none. Failures are logged when they begin, and counted until they end."""

    def __init__(self, writer: StatusMapWriter | None, rules: Rules) -> None:
        self._writer = writer
        self._rules = rules
        self._failures = 0

    def put(self, status: PublishedStatus, wall: float) -> None:
        if self._writer is None:
            return
        try:
            self._writer.put(status_config_map(status, wall, self._rules), status_time(wall))
        except AutoscalerError as error:
            self._failures += 1
            if self._failures == 1:
                log.warning("status_map.not_written", error=error)
            return
        if self._failures:
            log.info("status_map.written_again", failures=self._failures)
            self._failures = 0

    def remove(self) -> None:
        if self._writer is None:
            return
        try:
            self._writer.remove()
        except AutoscalerError as error:
            log.warning("status_map.not_removed", error=error)
