"""The result of a simulation as data: the same bytes for the same file, configuration and seed."""

import bisect
import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from autoscaler.simulator.simulation.file import Expectation


class ResultPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts of a result."""


class Distribution(ResultPart, frozen=True, kw_only=True):
    """The distribution of some numbers; all 0 without numbers."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    most: float = 0.0


class WindowFigures(ResultPart, frozen=True, kw_only=True):
    """How many pods the windows of headroom pools and reservation targets asked for, and how many were Ready in time.

    Windows that began before five boots were known, or too soon afterwards for any lead time, are counted separately.
    """

    began: int = 0
    asked: int = 0
    ready_at_start: int = 0
    """When the window began: running pause pods, and pods of targets that ran or had room on ready nodes."""
    share: float = 1.0
    """Share of the requested pods; 1 if none were requested."""
    while_learning: int = 0
    asked_while_learning: int = 0
    ready_while_learning: int = 0


class Summary(ResultPart, frozen=True, kw_only=True):
    """The figures of a simulation. Times are seconds, costs in the provider's currency."""

    pods_created: int
    """Pods of workloads and Jobs."""
    pods_started: int
    pods_waiting_at_end: int
    pending_seconds: Distribution
    """From the creation of a pod until it runs."""
    pending_seconds_by_workload: dict[str, Distribution]
    windows: WindowFigures
    pods_evicted: int
    nodes_bought: int
    nodes_removed: int
    nodes_at_end: int
    node_hours: float
    cost: float | None
    """None if no prices are known."""
    mean_cpu_requested_share: float
    """Share of the nodes' allocatable CPU that pods of workloads and Jobs request."""
    passes: int
    failed_passes: int
    events: dict[str, int]
    """Number of warnings from the autoscaler, by reason."""


class Point(ResultPart, frozen=True, kw_only=True):
    """One measurement."""

    at_seconds: float
    machines: int
    ready_nodes: int
    pods_running: int
    pods_pending: int
    cost_per_hour: float | None
    cpu_requested_share: float


class Assertion(ResultPart, frozen=True, kw_only=True, omit_defaults=True):
    """An assertion of the file, and its outcome."""

    that: str
    holds: bool
    value: float | None = None
    """None if the summary has no such figure."""
    at_most: float | None = None
    at_least: float | None = None


class SimulationResult(ResultPart, frozen=True, kw_only=True):
    """One simulation under one configuration."""

    scenario: str
    seed: int
    configuration: str
    """Name of the configuration file; empty if only the simulation's own options apply."""
    summary: Summary
    assertions: list[Assertion]
    waits: dict[str, int]
    """Number of pods by how long they waited."""
    timeline: list[Point]
    warnings: list[str] = []
    """Actions of the file that were impossible, each with its place in the file."""

    @property
    def holds(self) -> bool:
        """Whether every assertion holds."""
        return all(assertion.holds for assertion in self.assertions)


def spread(values: Sequence[float]) -> Distribution:
    """Return the distribution of values; a percentile is the next higher value that occurs."""
    if not values:
        return Distribution()
    ordered = sorted(values)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    return Distribution(
        count=len(ordered),
        mean=round(sum(ordered) / len(ordered), 3),
        p50=at(0.50),
        p90=at(0.90),
        p99=at(0.99),
        most=round(ordered[-1], 3),
    )


_WAITS = (
    (5.0, "5 s"),
    (30.0, "30 s"),
    (60.0, "1 min"),
    (120.0, "2 min"),
    (300.0, "5 min"),
    (900.0, "15 min"),
    (math.inf, "more"),
)


def wait_histogram(waits: Sequence[float]) -> dict[str, int]:
    """Return how many pods waited up to 5 s, from 5 s to 30 s, and so on."""
    limits = [limit for limit, _ in _WAITS]
    counts = Counter(bisect.bisect_left(limits, seconds) for seconds in waits)
    return {name: counts[number] for number, (_, name) in enumerate(_WAITS)}


def assertion_of(expected: Expectation, summary: Summary) -> Assertion:
    """Return whether the summary satisfies the assertion."""
    value_at: object = msgspec.to_builtins(summary)
    for key in expected.that.split("."):
        value_at = value_at.get(key) if isinstance(value_at, dict) else None
    value = float(value_at) if isinstance(value_at, int | float) and not isinstance(value_at, bool) else None
    holds = (
        value is not None
        and (expected.at_most is None or value <= expected.at_most)
        and (expected.at_least is None or value >= expected.at_least)
    )
    return Assertion(that=expected.that, holds=holds, value=value, at_most=expected.at_most, at_least=expected.at_least)
