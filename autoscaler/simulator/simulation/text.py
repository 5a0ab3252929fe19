"""The report of simulations as text for a terminal."""

from collections.abc import Callable, Iterator, Sequence

from autoscaler.simulator.simulation.result import Assertion, SimulationResult, Summary

Figure = Callable[[Summary], float | int | str | None]

FIGURES: tuple[tuple[str, Figure], ...] = (
    ("pods started", lambda one: one.pods_started),
    ("waiting at the end", lambda one: one.pods_waiting_at_end),
    ("pod start, median (s)", lambda one: one.pending_seconds.p50),
    ("pod start, 90 % within (s)", lambda one: one.pending_seconds.p90),
    ("pod start, 99 % within (s)", lambda one: one.pending_seconds.p99),
    ("pod start, longest (s)", lambda one: one.pending_seconds.most),
    ("asked for by windows", lambda one: one.windows.asked),
    ("ready when they began", lambda one: f"{100 * one.windows.share:.2f} %" if one.windows.asked else "nothing asked"),
    ("pods evicted", lambda one: one.pods_evicted),
    ("nodes bought", lambda one: one.nodes_bought),
    ("nodes removed", lambda one: one.nodes_removed),
    ("node-hours", lambda one: one.node_hours),
    ("cost", lambda one: one.cost),
    ("CPU requested, mean", lambda one: f"{100 * one.mean_cpu_requested_share:.1f} %"),
    ("failed passes", lambda one: one.failed_passes),
)
"""What is shown of a summary, in order."""


def shown(value: float | int | str | None) -> str:
    """Return a figure as people read it."""
    if value is None:
        return "not known"
    if isinstance(value, float):
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{value}"


def bounds(one: Assertion) -> str:
    """Return what a figure is expected to be."""
    parts = [f"at least {one.at_least:g}"] if one.at_least is not None else []
    parts += [f"at most {one.at_most:g}"] if one.at_most is not None else []
    return " and ".join(parts)


def rows(results: Sequence[SimulationResult]) -> Iterator[list[str]]:
    """Yield a row for each figure: its title, and a cell for each result."""
    for title, figure in FIGURES:
        yield [title, *(shown(figure(result.summary)) for result in results)]
