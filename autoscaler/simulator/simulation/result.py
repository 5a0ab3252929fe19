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
    """How some numbers are spread; all 0 where there are none."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    most: float = 0.0


class WindowFigures(ResultPart, frozen=True, kw_only=True):
    """What windows of headroom pools and reservation targets asked for, in pods, and what of it was Ready in time.

    Windows that began before five boots were known, or too soon after for any lead time, are counted apart.
    """

    began: int = 0
    asked: int = 0
    ready_at_start: int = 0
    """Pause pods that ran, and pods of targets that ran or had room on ready nodes, when the window began."""
    share: float = 1.0
    """Of what was asked for; 1 where nothing was."""
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
    """None where nobody knows prices."""
    mean_cpu_requested_share: float
    """Of the allocatable CPU of nodes, pods of workloads and Jobs alone."""
    passes: int
    failed_passes: int
    events: dict[str, int]
    """Warnings that the autoscaler reported, by reason."""


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
    """What was expected, and what it came to."""

    that: str
    holds: bool
    value: float | None = None
    """None: the summary has no such figure."""
    at_most: float | None = None
    at_least: float | None = None


class SimulationResult(ResultPart, frozen=True, kw_only=True):
    """One simulation under one configuration."""

    scenario: str
    seed: int
    configuration: str
    """Name of the configuration file; empty where the simulation's own options are all."""
    summary: Summary
    assertions: list[Assertion]
    waits: dict[str, int]
    """How many pods waited how long until they ran."""
    timeline: list[Point]
    warnings: list[str] = []
    """What the file asked for and could not happen, by the place in the file."""

    @property
    def holds(self) -> bool:
        """Whether every expectation was met."""
        return all(assertion.holds for assertion in self.assertions)


def spread(values: Sequence[float]) -> Distribution:
    """Return how values are spread; percentiles are values that occur, the next higher one."""
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
    """Return how many pods waited up to 5 s, from there up to 30 s, and so on."""
    limits = [limit for limit, _ in _WAITS]
    counts = Counter(bisect.bisect_left(limits, seconds) for seconds in waits)
    return {name: counts[number] for number, (_, name) in enumerate(_WAITS)}


def assertion_of(expected: Expectation, summary: Summary) -> Assertion:
    """Return whether the summary is as expected."""
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
