"""`autoscaler plan`: shows what a pass would do, and why. It writes nothing to the cluster."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from autoscaler import logs
from autoscaler.cli import output, sources
from autoscaler.cli.arguments import accept_flags, add_repeatable
from autoscaler.cli.comparison_text import comparison_text
from autoscaler.cli.explanation_text import explanation_text
from autoscaler.cli.output import OutputFormat
from autoscaler.cli.plan_text import import_notes, plan_text
from autoscaler.cli.table import Block
from autoscaler.errors import ConfigError
from autoscaler.explain.answer import PlanExplanation
from autoscaler.scenario.inference import InferredGroup
from autoscaler.scenario.scenario import Scenario
from autoscaler.simulator.answer import PlanAnswer
from autoscaler.simulator.comparison import Comparison, Variant, parse_variant
from autoscaler.simulator.play import play_and_advise, play_and_explain

if TYPE_CHECKING:
    from autoscaler.explain.explain import ExplainTarget

PlanResult = PlanAnswer | PlanExplanation | Comparison
_FLAGS_NOTE = (
    "Cluster Autoscaler's flags, such as --expander=most-pods or --compatibility=1.31, apply to "
    "dumps and live clusters, and override a scenario file's options. --kubeconfig alone plans for a "
    "live cluster: the command reads objects (get, list) and writes nothing."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sources of the cluster and the options of the output; Cluster Autoscaler's flags are accepted too."""
    add_repeatable(
        parser, "--scenario", "FILE", "scenario file (JSON or YAML), for example a recorded pass; repeatable"
    )
    sources.add_objects_argument(parser)
    sources.add_dump_arguments(parser)
    add_repeatable(
        parser,
        "--explain",
        "TARGET",
        "explain pod/NAMESPACE/NAME, node/NAME or group/ID instead of printing the plan; repeatable",
    )
    parser.add_argument(
        "--run", type=int, metavar="N", help="the run to explain, counted from 0 (default: the last one)"
    )
    add_repeatable(
        parser,
        "--compare",
        "FLAG=VALUE,...",
        "plan again with these flags, and print the plans side by side; repeatable",
    )
    output.add_output(parser, (OutputFormat.TABLE, OutputFormat.WIDE, OutputFormat.JSON, OutputFormat.YAML))
    accept_flags(parser)
    parser.epilog = _FLAGS_NOTE


def run(args: argparse.Namespace) -> int:
    """Print the answer for each input in order. Unusable inputs are skipped, and one `ConfigError` names them at the
    end.
    """
    logs.silence()
    targets, variants = _targets(args.explain), [parse_variant(text) for text in args.compare]
    _refuse_contradictions(args)
    if not args.scenario:
        _run_dump(args, targets, variants)
        return 0
    problems: list[str] = []
    for path in args.scenario:
        try:
            scenario = sources.scenario_at(path, args.flags)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        for warning in scenario.warnings:
            print(f"{path}: warning: {warning}", file=sys.stderr)
        try:
            _write(_answer(scenario, targets, args.run, variants), args)
        except ConfigError as error:
            problems.extend(problem if targets else f"{path}: options: {problem}" for problem in error.problems)
    if problems:
        raise ConfigError(problems)
    return 0


def _targets(words: Sequence[str]) -> Sequence["ExplainTarget"]:
    if not words:
        return ()
    from autoscaler.explain.explain import parse_targets

    return parse_targets(words)


def _refuse_contradictions(args: argparse.Namespace) -> None:
    if args.run is not None and not args.explain:
        raise ConfigError(f"--run {args.run}: requires --explain")
    if args.compare and args.explain:
        raise ConfigError("--compare: cannot be used with --explain; explain one variant at a time, with its flags")
    of_dumps = {"--objects": args.objects, "--groups": args.groups, "--now": args.now}
    of_dumps |= {"--runs": args.runs, "--step": args.step}
    given = [name for name, value in of_dumps.items() if value]
    if args.scenario and given:
        raise ConfigError(f"{given[0]}: cannot be used with --scenario, whose file defines it")


def _run_dump(args: argparse.Namespace, targets: Sequence["ExplainTarget"], variants: Sequence[Variant]) -> None:
    imported = sources.imported(args)
    output.show(import_notes(imported), args.color, sys.stderr)
    groups = () if imported.inference is None else imported.inference.groups
    _write(_answer(imported.scenario, targets, args.run, variants, groups), args)


def _answer(
    scenario: Scenario,
    targets: Sequence["ExplainTarget"],
    run_: int | None,
    variants: Sequence[Variant],
    inferred: Sequence[InferredGroup] = (),
) -> PlanResult:
    if targets:
        return play_and_explain(scenario, targets, run_)
    if variants:
        return Comparison.of(scenario, variants)
    return msgspec.structs.replace(play_and_advise(scenario), inferred_groups=list(inferred))


def _write(result: PlanResult, args: argparse.Namespace) -> None:
    if args.output in (OutputFormat.JSON, OutputFormat.YAML):
        output.write_document(result, args.output)
    else:
        output.show(_blocks(result, wide=args.output is OutputFormat.WIDE), args.color)


def _blocks(result: PlanResult, *, wide: bool) -> Iterator[Block]:
    match result:
        case PlanExplanation():
            return explanation_text(result)
        case Comparison():
            return comparison_text(result)
        case PlanAnswer():
            return plan_text(result, wide=wide)
