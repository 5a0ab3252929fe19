"""`autoscaler scenario`: creates scenario files, and anonymizes them."""

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

from autoscaler.cli import output, sources
from autoscaler.cli.arguments import accept_flags
from autoscaler.cli.output import OutputFormat
from autoscaler.cli.plan_text import import_notes
from autoscaler.errors import ConfigError
from autoscaler.recording.anonymizer import with_pseudonyms
from autoscaler.scenario.codec import decode
from autoscaler.scenario.file_reader import plain, read_bytes
from autoscaler.scenario.format import ScenarioFile
from autoscaler.scenario.from_dump import publishable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `from-dump`, where flags of Cluster Autoscaler become the file's options, and `anonymize`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="from-dump|anonymize")
    from_dump = actions.add_parser("from-dump", help="turn the output of kubectl get -o json into a scenario to edit")
    from_dump.add_argument("dump", nargs="+", metavar="DUMP", help="a file, a directory or -")
    sources.add_dump_arguments(from_dump)
    hide = actions.add_parser("anonymize", help="replace every user-chosen name; decisions stay the same")
    hide.add_argument("scenario", metavar="FILE", help="a scenario file or a recording")
    for action, first in ((from_dump, OutputFormat.YAML), (hide, OutputFormat.JSON)):
        action.add_argument("--to", metavar="FILE", help="write to this file instead of standard output")
        second = OutputFormat.JSON if first is OutputFormat.YAML else OutputFormat.YAML
        output.add_output(action, (first, second))
    accept_flags(from_dump)


def run(args: argparse.Namespace) -> int:
    """Write the scenario; print assumptions to standard error."""
    data = _anonymous(args.scenario) if args.action == "anonymize" else _imported(args)
    text = output.to_text(data, args.output)
    if args.to is None:
        output.write(text)
        return 0
    try:
        Path(args.to).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--to {args.to}: cannot be written: {error.strerror or error}") from error
    return 0


def _anonymous(path: str) -> dict[str, Any]:
    """Return the content of a file with pseudonyms. Equal files get equal pseudonyms; the key is not in the result."""
    body = read_bytes(path)
    decode(body, path)
    return with_pseudonyms(plain(body, path), hashlib.sha256(body).digest())


def _imported(args: argparse.Namespace) -> ScenarioFile:
    args.objects = args.dump
    imported = sources.imported(args)
    output.show(import_notes(imported), out=sys.stderr)
    return publishable(imported.file)
