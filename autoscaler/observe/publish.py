"""What a pass leaves behind: status, metrics, health, log lines and the status ConfigMap, made from its report."""

from collections.abc import Callable
from typing import Protocol

from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.observe.health import HealthCheck
from autoscaler.observe.metrics import Metrics
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import Board, RecentEvent


class StatusMapWriter(Protocol):
    """Where the status ConfigMap is kept."""

    def put(self, text: str, last_updated: str) -> None:
        """Write the text; raises `AutoscalerError`."""
        ...

    def remove(self) -> None:
        """Delete the ConfigMap; raises `AutoscalerError`."""
        ...


class Publisher:
    """Tells everybody about passes. Owned by the deciding thread."""

    def __init__(
        self,
        config: Config,
        board: Board,
        metrics: Metrics,
        health: HealthCheck,
        tail: Callable[[], tuple[RecentEvent, ...]],
        status_map: StatusMapWriter | None,
    ) -> None:
        self._config = config
        self._board = board
        self._metrics = metrics
        self._health = health
        self._tail = tail
        self._status_map = status_map

    def starting(self, now: Instant) -> None:
        """Passes are about to begin."""
        self._metrics.start()

    def begins(self, now: Instant) -> None:
        """A pass begins."""
        self._health.pass_started(now)

    def passed(self, report: PassReport) -> None:
        """A pass ended."""
        self._health.pass_succeeded(report.now)

    def stopped(self) -> None:
        """The process ends in good order."""
