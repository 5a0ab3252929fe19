"""`autoscaler eta`: estimates when pods will be ready. It uses the daemon's formulas but needs no daemon."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.cli import output, sources
from autoscaler.cli.arguments import accept_flags, add_repeatable, content_at
from autoscaler.cli.output import OutputFormat
from autoscaler.cli.table import Table
from autoscaler.errors import ConfigError
from autoscaler.eta.hypothetical_pod import read_pod
from autoscaler.objects.pod import Pod
from autoscaler.observe.figures import duration
from autoscaler.observe.http.routing import HttpProblem
from autoscaler.simulator.estimates import estimates
from cloudprovider.file import read_file

_GANG_HEADS = ("GANG", "WANTED", "RUNNING", "EXPECTED", "WORST", "REASON")
_HEADS = ("POD", "LEVEL", "EXPECTED", "WORST", "GROUP", "NODE OR REASON")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `plan`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="plan")
    plan = actions.add_parser("plan", help="play a scenario, a dump or a live cluster, and print the estimates")
    plan.add_argument("--scenario", metavar="FILE", help="scenario file (JSON or YAML)")
    sources.add_objects_argument(plan)
    sources.add_dump_arguments(plan)
    plan.add_argument("--boots", metavar="FILE", help="boot times in seconds by node group, a JSON object of lists")
    add_repeatable(plan, "--pod", "FILE", "a hypothetical pod, as JSON; repeatable")
    output.add_output(plan)
    accept_flags(plan)


def run(args: argparse.Namespace) -> int:
    """Print the estimates; raises `ConfigError` for unusable input."""
    boots, pods = _boots(args.boots), [_pod(path) for path in args.pod]
    if args.scenario is not None:
        scenario = sources.scenario_at(args.scenario, args.flags)
    else:
        imported = sources.imported(args)
        for warning in imported.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        scenario = imported.scenario
    answer = estimates(scenario, boots, pods)
    if args.output is OutputFormat.TABLE:
        rows: Sequence[Mapping[str, Any]] = [*answer["items"], *answer.get("new", ())]
        gangs = Table(_GANG_HEADS, [_gang_row(row) for row in answer["gangs"]], "Gangs that wait")
        estimated = Table(_HEADS, [_row(row) for row in rows])
        output.show([estimated, "", gangs] if gangs.rows else [estimated], args.color)
    else:
        output.write(output.to_text(answer, args.output))
    return 0


def _row(estimate: Mapping[str, Any]) -> tuple[object, ...]:
    seconds = (estimate["expectedSeconds"], estimate["worstSeconds"])
    expected, worst = ("" if second is None else duration(second) for second in seconds)
    pod, place = f"{estimate['namespace']}/{estimate['name']}", estimate["node"] or estimate["reason"] or ""
    return pod, estimate["level"], expected, worst, estimate["group"] or "", place


def _gang_row(gang: Mapping[str, Any]) -> tuple[object, ...]:
    expected, worst = (
        "" if second is None else duration(second) for second in (gang["expectedSeconds"], gang["worstSeconds"])
    )
    return gang["gang"], gang["wanted"], gang["running"], expected, worst, gang["reason"] or ""


def _boots(path: str | None) -> Mapping[str, Sequence[float]]:
    if path is None:
        return {}
    try:
        boots = msgspec.json.decode(content_at(path, "--boots", read_file), type=dict[str, list[float]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"--boots: {path} is not a JSON object of lists of seconds: {error}") from error
    if any(not 0 <= boot_s < 1e9 for seconds in boots.values() for boot_s in seconds):
        raise ConfigError(f"--boots: {path} contains something that is not a boot time")
    return boots


def _pod(path: str) -> Pod:
    try:
        return read_pod(content_at(path, "--pod", read_file))
    except HttpProblem as problem:
        where = f"{path}: {problem.field}" if problem.field else path
        raise ConfigError(f"--pod: {where}: {problem}") from problem
