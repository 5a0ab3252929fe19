"""The report of simulations as text for a terminal."""

from collections.abc import Callable, Iterator, Sequence

from autoscaler.simulator.simulation.result import Assertion, SimulationResult, Summary

Figure = Callable[[Summary], float | int | str | None]

FIGURES: tuple[tuple[str, Figure], ...] = (
    ("pods started", lambda summary: summary.pods_started),
    ("waiting at the end", lambda summary: summary.pods_waiting_at_end),
    ("pod start, median (s)", lambda summary: summary.pending_seconds.p50),
    ("pod start, 90 % within (s)", lambda summary: summary.pending_seconds.p90),
    ("pod start, 99 % within (s)", lambda summary: summary.pending_seconds.p99),
    ("pod start, longest (s)", lambda summary: summary.pending_seconds.most),
    ("asked for by windows", lambda summary: summary.windows.asked),
    (
        "ready when they began",
        lambda summary: f"{100 * summary.windows.share:.2f} %" if summary.windows.asked else "nothing asked",
    ),
    ("pods evicted", lambda summary: summary.pods_evicted),
    ("nodes bought", lambda summary: summary.nodes_bought),
    ("nodes removed", lambda summary: summary.nodes_removed),
    ("node-hours", lambda summary: summary.node_hours),
    ("cost", lambda summary: summary.cost),
    ("CPU requested, mean", lambda summary: f"{100 * summary.mean_cpu_requested_share:.1f} %"),
    ("failed passes", lambda summary: summary.failed_passes),
)
"""The figures of a summary, in the order of the report."""


def figure_text(value: float | int | str | None) -> str:
    """Return a figure as people read it."""
    if value is None:
        return "not known"
    if isinstance(value, float):
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{value}"


def bounds(assertion: Assertion) -> str:
    """Return the expected value in words."""
    parts = [f"at least {assertion.at_least:g}"] if assertion.at_least is not None else []
    parts += [f"at most {assertion.at_most:g}"] if assertion.at_most is not None else []
    return " and ".join(parts)


def rows(results: Sequence[SimulationResult]) -> Iterator[list[str]]:
    """Yield a row for each figure: its title, and a cell for each result."""
    for title, figure in FIGURES:
        yield [title, *(figure_text(figure(result.summary)) for result in results)]
