"""The metrics of a `World`, scraped as Prometheus would, with the alerts that they set off."""

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType

from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from autoscaler.app.wiring import make_metrics
from autoscaler.clock import Instant
from autoscaler.config.headroom import read_headroom
from autoscaler.config.load import from_options
from autoscaler.config.reservations import read_reservations
from autoscaler.config.tree import Config
from autoscaler.eta.metrics import ETA, EXPIRY
from autoscaler.headroom.metrics import HEADROOM
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node
from autoscaler.observe.http.health import HealthCheck, limits_of
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.metrics.watches import WatchFigures
from autoscaler.observe.publish import Publisher
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import ProcessStatus
from autoscaler.observe.status_board import StatusBoard
from autoscaler.observe.summary import WHOLE_PASS
from autoscaler.reasons import RemovedAs
from autoscaler.reservations.metrics import RESERVATIONS
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.simulator.replica import Replica, SilentPassListener
from autoscaler.simulator.world import Attached, World
from cloudprovider.static.spec import CloudSpec
from tests.promql import Alert, Database, Labels, Selector, Watchman, parts

SCRAPE_S = 60.0
_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
_COMPANIONS = {
    "cluster_autoscaler_companion_errors_total",
    *(metric.full_name for table in (HEADROOM, RESERVATIONS, ETA, EXPIRY) for metric in table),
}
"""What parts beside the passes count."""


def with_sections(config: Config, sections: Mapping[str, JsonObject]) -> Config:
    """Return a configuration with `headroom` and `reservations` as a file has them."""
    cutoff = config.pods.expendable_pods_priority_cutoff
    if "headroom" in sections:
        config = replace(config, headroom=read_headroom(sections["headroom"], cutoff))
    if "reservations" in sections:
        config = replace(config, reservations=read_reservations(sections["reservations"], cutoff))
    return config


def _text(metrics: Metrics) -> str:
    return metrics.scrape().decode()


@functools.cache
def _series_of(text: str) -> tuple[str, Labels]:
    """Return name and labels of a sample, from the text before its value."""
    (family,) = text_string_to_metric_families(f"{text} 0\n")
    (sample,) = family.samples
    return sample.name, frozenset(sample.labels.items())


def samples_of(text: str, wanted: Collection[str]) -> Iterator[tuple[str, Labels, float]]:
    """Return the samples of an exposition that are wanted by name; empty: all."""
    for line in text.splitlines():
        if line.startswith("#") or (wanted and line.partition(" ")[0].partition("{")[0] not in wanted):
            continue
        series, _, value = line.rpartition(" ")
        yield *_series_of(series), float(value)


class _Process:
    """What a process of the daemon publishes: real metrics behind the real publisher."""

    def __init__(self, config: Config, number: int, now: Instant) -> None:
        self.target = {"pod": f"cluster-autoscaler-{number}"}
        self.metrics = make_metrics(config)
        health = HealthCheck(limits_of(config.loop, config.rules.startup_health_limit), now)
        board = StatusBoard(ProcessStatus(identity=self.target["pod"], version="0", started_at=now.wall))
        self.publisher = Publisher(config, board, self.metrics, health, tuple, None)
        self.metrics.leading(config.leader.leader_elect_resource_name, leads=True)
        self.publisher.start(now)


class Monitored(SilentPassListener):
    """A world under observation: it is scraped every minute, and its alerts are evaluated half a minute later.

    Each start of the autoscaler's process begins with metrics of its own; while there is none, nothing is scraped.
    Companions count in the world's own metrics, whichever process runs. As long as the API server answers, watches hear
    of it all the time. `sections` are those of a configuration file; `labels` are added to whatever is scraped;
    `pass_takes_s` makes passes slow in what is published of them.
    """

    def __init__(
        self,
        alerts: Sequence[Alert],
        options: Mapping[str, object],
        cloud: CloudSpec,
        *objects: JsonObject,
        timing: Timing = Timing(),  # noqa: B008 - frozen
        labels: Mapping[str, str] = MappingProxyType({}),
        sections: Mapping[str, JsonObject] = MappingProxyType({}),
    ) -> None:
        self._labels = labels
        config = with_sections(from_options(options, ()), sections)
        # Nothing is told from wide buckets but in plots, and they are most of a scrape.
        self._config = replace(config, rules=replace(config.rules, wide_duration_buckets=False))
        self.pass_takes_s: float | None = None
        self.world = World(self._config, cloud, objects, attached=Attached(self), timing=timing)
        self.world.metrics.start()
        self._heard_at = self.world.clock.now().mono
        self.database = Database()
        self.watchman = Watchman(alerts)
        self._processes: list[_Process] = []
        self._started: Replica | None = None
        self._wanted = {part.name for alert in alerts for part in parts(alert.expression) if isinstance(part, Selector)}
        self.world.at(0.0, self._look)
        self.world.at(SCRAPE_S / 2, self._scrape)

    def __enter__(self) -> "Monitored":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.close()

    @property
    def fired(self) -> set[str]:
        """Names of the alerts that fired at any time."""
        return set(self.watchman.firing)

    def firing(self) -> set[str]:
        """Names of the alerts that fired when they were last evaluated."""
        last = self.watchman.looked[-1]
        return {name for name, times in self.watchman.firing.items() if last in times}

    def _look(self) -> None:
        self.world.at(SCRAPE_S, self._look)
        self.watchman.looks(self.database, self.world.clock.now().wall)

    def _scrape(self) -> None:
        self.world.at(SCRAPE_S, self._scrape)
        now = self.world.clock.now().wall
        for process in self._processes:
            runs = process is self._processes[-1] and self.world.replica is not None
            samples = [*samples_of(_text(process.metrics), self._wanted), *self._of_companions()] if runs else []
            self.database.scraped(now, {**process.target, **self._labels}, samples)

    def _of_companions(self) -> Iterator[tuple[str, Labels, float]]:
        for sample in samples_of(_text(self.world.metrics), self._wanted):
            if _HISTOGRAM.sub("", sample[0]) in _COMPANIONS:
                yield sample

    @property
    def _publisher(self) -> Publisher:
        """That of the process that runs at present."""
        if not self._processes or self._started is not self.world.replica:
            self._started = self.world.replica
            self._processes.append(_Process(self._config, len(self._processes), self.world.clock.now()))
        return self._processes[-1].publisher

    def pass_started(self, now: Instant) -> None:
        """Hear that a pass begins."""
        self._publisher.pass_started(now)

    def pass_ended(self, report: PassReport) -> None:
        """Hear what a pass saw, decided and did."""
        if self.pass_takes_s is not None:
            report = replace(report, timings={**report.timings, WHOLE_PASS: self.pass_takes_s})
        if not self.world.api.faults.is_down:
            self._heard_at = report.now.mono
        self._publisher.pass_ended(report)
        silent_s = report.now.mono - self._heard_at
        self._processes[-1].metrics.watches({"/api/v1/pods": WatchFigures(silent_s=silent_s)})

    def deletions_pending(self, nodes: int) -> None:
        """Hear that removals are about to begin, and how many of earlier ones have not ended."""
        self._publisher.deletions_pending(nodes)

    def pod_evicted(self, succeeded: bool) -> None:
        """Hear that the eviction of a pod ended."""
        self._publisher.pod_evicted(succeeded)

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        """Hear that the cloud deletes a node's machine."""
        self._publisher.node_removed(group, node, removed_as)

    def machine_left(self, left: int, remained: int) -> None:
        """Hear that a machine left as announced."""
        self._publisher.machine_left(left, remained)

    def removal_failed(self, why: str) -> None:
        """Hear that a removal that had begun was given up."""
        self._publisher.removal_failed(why)
