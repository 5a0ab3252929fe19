"""`autoscaler scenario`: make scenario files."""

import argparse
import sys
from pathlib import Path

from autoscaler.cli import output, sources
from autoscaler.cli.arguments import accept_flags
from autoscaler.cli.output import Format
from autoscaler.cli.plan_text import inference_text
from autoscaler.errors import ConfigError
from autoscaler.scenario.from_dump import publishable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `from-dump`; flags of Cluster Autoscaler become the file's options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="from-dump")
    from_dump = actions.add_parser("from-dump", help="turn what kubectl get -o json printed into a scenario to edit")
    from_dump.add_argument("dump", nargs="+", metavar="DUMP", help="a file, a directory or -")
    sources.add_dump_arguments(from_dump)
    from_dump.add_argument("--to", metavar="FILE", help="write there instead of to standard output")
    output.add_output(from_dump, (Format.YAML, Format.JSON))
    accept_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Write the scenario; what was assumed goes to standard error."""
    args.objects = args.dump
    found = sources.imported(args)
    for warning in found.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for line in inference_text(() if found.inference is None else found.inference.groups):
        print(line, file=sys.stderr)
    file = publishable(found.file)
    text = output.to_json(file) if args.output is Format.JSON else output.to_yaml(file)
    if args.to is None:
        output.write(text)
        return 0
    try:
        Path(args.to).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--to {args.to}: cannot be written: {error.strerror or error}") from error
    return 0
