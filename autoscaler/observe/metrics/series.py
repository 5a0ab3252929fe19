"""The series of a table of metrics, by metric name."""

import contextlib

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary

from autoscaler.observe.metrics.definitions import Metric, MetricType
from autoscaler.observe.metrics.exposition import PlainCounter
from autoscaler.printable import spelled_out

_MAX_LABEL = 300

MAX_SERIES = 2000
"""Maximum number of series of one counter, histogram or summary; later ones are counted together under `OTHER`."""
OTHER = "other"


class MetricSeries:
    """Changes metrics by their names without prefix. Threads may share it. An unknown name raises `KeyError`."""

    def __init__(self) -> None:
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter | PlainCounter] = {}
        self._distributions: dict[str, Histogram | Summary] = {}
        self._counted: dict[str, set[tuple[str, ...]]] = {}

    def add_metric(self, metric: Metric, registry: CollectorRegistry) -> None:
        """Add one metric; a metric with labels has no series until its first change."""
        name, text, labels = metric.full_name, metric.help, tuple(metric.labels)
        if metric.kind is MetricType.GAUGE:
            self._gauges[metric.name] = Gauge(name, text, labels, registry=registry)
        elif metric.kind is MetricType.SUMMARY:
            self._distributions[metric.name] = Summary(name, text, labels, registry=registry)
        elif metric.kind is MetricType.HISTOGRAM:
            self._distributions[metric.name] = Histogram(name, text, labels, registry=registry, buckets=metric.buckets)
        elif metric.name.endswith("_total"):
            self._counters[metric.name] = Counter(name, text, labels, registry=registry)
        else:
            plain = self._counters[metric.name] = PlainCounter(name, text, labels)
            registry.register(plain)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        gauge = self._gauges[name]
        (gauge.labels(*_shown(labels)) if labels else gauge).set(value)

    def add(self, name: str, amount: float, *labels: str) -> None:
        """Increase a counter; raises for negative amounts."""
        counter, labels = self._counters[name], self._bounded(name, _shown(labels))
        if isinstance(counter, PlainCounter):
            counter.inc(amount, *labels)
        else:
            (counter.labels(*labels) if labels else counter).inc(amount)

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Add a value to a histogram or summary."""
        distribution, labels = self._distributions[name], self._bounded(name, _shown(labels))
        (distribution.labels(*labels) if labels else distribution).observe(value)

    def _bounded(self, name: str, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Return the labels under which to count; beyond the maximum, all new series share one.

        Counters stay for the life of the process, and clouds and users may produce ever new names.
        """
        known = self._counted.setdefault(name, set())
        if labels in known or not labels:
            return labels
        if len(known) >= MAX_SERIES:
            return (OTHER,) * len(labels)
        known.add(labels)
        return labels

    def remove(self, name: str, *labels: str) -> None:
        """Remove one series of a gauge; raises `KeyError` if it does not exist."""
        self._gauges[name].remove(*_shown(labels))

    def discard(self, name: str, *labels: str) -> None:
        """Remove one series of a gauge if it exists."""
        with contextlib.suppress(KeyError):
            self._gauges[name].remove(*_shown(labels))

    def clear(self, name: str) -> None:
        """Remove all series of a gauge."""
        self._gauges[name].clear()


def _shown(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels in a form that every scraper accepts, because names may be long and contain any character."""
    return tuple(spelled_out(label[:_MAX_LABEL]) for label in labels)
