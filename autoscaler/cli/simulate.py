"""`autoscaler simulate`: simulates days of cluster life in seconds, with their costs."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autoscaler import logs
from autoscaler.cli import output
from autoscaler.cli.output import Colour, OutputFormat
from autoscaler.cli.progress import progress
from autoscaler.cli.table import Block, Style, Styled, Table
from autoscaler.errors import ConfigError
from autoscaler.simulator.simulation.file import Simulation, load
from autoscaler.simulator.simulation.page import page
from autoscaler.simulator.simulation.result import Assertion, SimulationResult
from autoscaler.simulator.simulation.run import simulate
from autoscaler.simulator.simulation.text import bounds, rows
from autoscaler.simulator.simulation.traffic import never_due
from cloudprovider.file import read_text

_AS_GIVEN = "as given"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the files, `--compare`, `--seed`, `--html` and `-o`."""
    parser.add_argument("scenario", nargs="+", metavar="SCENARIO", help="simulation file (JSON or YAML)")
    parser.add_argument(
        "--compare",
        nargs="+",
        action="extend",
        default=[],
        metavar="CONFIG",
        help="configuration files to simulate side by side",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of all random values (default: the file's)")
    parser.add_argument("--html", metavar="FILE", help="write a report with plots to this file")
    output.add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Play every file and print the results; return 1 if an assertion of a file fails."""
    logs.silence()
    simulations = [_loaded(path, args.seed) for path in args.scenario]
    if args.html is not None and len(simulations) > 1:
        raise ConfigError("--html: takes one simulation; name one file")
    if args.html is not None:
        _try_to_write(args.html)
    met = True
    for simulation in simulations:
        results = _played(simulation, args.compare, args.seed)
        met = met and all(result.holds for result in results)
        for warning in dict.fromkeys(warning for result in results for warning in result.warnings):
            print(f"{simulation.name}: warning: {warning}", file=sys.stderr)
        _write(results, args.output, args.color, comparing=bool(args.compare))
        if args.html is not None:
            _write_page(args.html, results)
    return 0 if met else 1


def _loaded(path: str, seed: int | None) -> Simulation:
    """Return a simulation in which every Job can be created; raises `ConfigError`."""
    simulation = load(path)
    if problems := list(never_due(simulation, simulation.file.seed if seed is None else seed)):
        raise ConfigError(f"{path}: {problem}" for problem in problems)
    return simulation


def _try_to_write(path: str) -> None:
    """Check before a long simulation that its report can be written; an existing file stays unchanged."""
    file = Path(path)
    there = file.exists()
    try:
        file.open("ab").close()
        if not there:
            file.unlink()
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: str, error: OSError) -> ConfigError:
    return ConfigError(f"--html {path}: cannot be written: {error.strerror or error}")


def _played(simulation: Simulation, paths: Sequence[str], seed: int | None) -> list[SimulationResult]:
    variants = [(path, {path: _content(path)}) for path in paths] or [("", {})]
    configs = [(Path(path).stem, simulation.config(documents)) for path, documents in variants]
    results = []
    for name, config in configs:
        with progress(f"{simulation.name} {name}".rstrip()) as bar:
            results.append(simulate(simulation, config, seed=seed, configuration=name, progress=bar))
    return results


def _write(results: Sequence[SimulationResult], form: OutputFormat, colour: Colour, *, comparing: bool) -> None:
    if form is OutputFormat.TABLE:
        output.show(_blocks(results), colour)
        return
    for result in results if not comparing else [results]:
        output.write_document(result, form)


def _blocks(results: Sequence[SimulationResult]) -> Iterator[Block]:
    yield Styled(f"{results[0].scenario}, seed {results[0].seed}", Style.BOLD)
    heads = ["FIGURE", *(result.configuration or _AS_GIVEN for result in results)]
    yield Table(heads, list(rows(results)))
    for result in results:
        for assertion in result.assertions:
            line = f"{'met' if assertion.holds else 'NOT MET'}: {assertion.that}{_figures(assertion)}"
            yield Styled(line, Style.FINE if assertion.holds else Style.BAD)


def _figures(assertion: Assertion) -> str:
    if assertion.value is None:
        return ": the summary has no such figure"
    return f" is {assertion.value:g}, expected {bounds(assertion)}"


def _write_page(path: str, results: Sequence[SimulationResult]) -> None:
    try:
        Path(path).write_text(page(results), encoding="utf-8")
    except OSError as error:
        raise _not_written(path, error) from error
    print(f"report written to {path}", file=sys.stderr)


def _content(path: str) -> str:
    try:
        return read_text(path)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
