"""Reads a cluster for offline commands: from scenario files, dumps, or a live cluster."""

import argparse
import gc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from autoscaler.cli.arguments import add_repeatable, moment
from autoscaler.cli.progress import progress
from autoscaler.clock import SystemClock
from autoscaler.config.arguments import parse_flags
from autoscaler.config.flags import flags
from autoscaler.config.load import load as load_config
from autoscaler.errors import ConfigError
from autoscaler.scenario.codec import collector_paused
from autoscaler.scenario.codec import load as load_scenario
from autoscaler.scenario.dump import Dump, DumpText, read_dump
from autoscaler.scenario.file_reader import read_bytes
from autoscaler.scenario.from_dump import Imported, ImportOptions, import_dump
from autoscaler.scenario.scenario import Scenario
from cloudprovider.document import parse_yaml
from cloudprovider.duration import parse_duration_s
from cloudprovider.file import text_of
from cloudprovider.interface import Misconfigured
from cloudprovider.number import parse_count
from cloudprovider.static.file import load_cloud

_MOST_RUNS = 1_000_000
_ENDINGS = {".json", ".yaml", ".yml"}


def add_objects_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names a dump."""
    add_repeatable(
        parser, "--objects", "FILE", "output of kubectl get -A -o json|yaml: a file, a directory or - ; repeatable"
    )


def add_dump_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say how a dump is read."""
    parser.add_argument(
        "--groups", metavar="FILE", help="groups file of the static provider (default: derived from nodes)"
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: the current one)")
    parser.add_argument(
        "--now", type=moment, metavar="TIME", help="time of the plan (default: the newest time in the input)"
    )
    parser.add_argument("--runs", type=_runs, metavar="N", help="passes to look ahead (default 1)")
    parser.add_argument("--step", type=_step, metavar="DURATION", help="time between passes (default 10s)")


def _runs(text: str) -> int:
    if not (runs := parse_count(text, _MOST_RUNS)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {_MOST_RUNS}")
    return runs


def _step(text: str) -> float:
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return seconds


def option_overrides(words: Sequence[str]) -> Mapping[str, Any]:
    """Return Cluster Autoscaler's flags in the form of a scenario's options; raises `ConfigError`."""
    settings = parse_flags(words)
    if settings.problems:
        raise ConfigError(settings.problems)
    known = flags()
    return {
        name: [known[name].show((item,)) for item in value] if known[name].syntax.repeated else known[name].show(value)
        for name, value in settings.values.items()
    }


def scenario_at(path: str, words: Sequence[str]) -> Scenario:
    """Read a scenario file; the flags in `words` override its options. Raises `ConfigError`."""
    scenario = load_scenario(path, option_overrides(words))
    gc.freeze()  # the cluster stays in memory, so the collector need not scan it in the middle of a pass
    return scenario


def imported(args: argparse.Namespace) -> Imported:
    """Read the dump or the live cluster that `add_dump_arguments` and the flags name.

    Raises `ConfigError`, and `AutoscalerError` if a live cluster cannot be read.
    """
    with collector_paused():
        imported_dump = _imported(args)
    gc.freeze()
    return imported_dump


def _imported(args: argparse.Namespace) -> Imported:
    config = load_config(args.flags)
    if args.objects:
        dump, name, now_s = _read_files(args.objects), Path(args.objects[0]).stem, args.now
    elif config.kube.kubeconfig or config.kube.kubernetes:
        clock = SystemClock()
        from autoscaler.cli.live_cluster import read_live

        dump, name = read_live(config, clock, args.context), "cluster"
        now_s = clock.now().wall if args.now is None else args.now
    else:
        raise ConfigError("nothing to plan for: give --scenario, --objects, or a cluster with --kubeconfig")
    wishes = ImportOptions(
        name=name,
        config=config,
        groups=None if args.groups is None else _groups(args.groups),
        now_s=now_s,
        runs=args.runs or ImportOptions(name="").runs,
        step_s=args.step or ImportOptions(name="").step_s,
    )
    imported_dump = import_dump(dump, wishes)
    return msgspec.structs.replace(imported_dump, warnings=(*_unused(dump), *imported_dump.warnings))


def _groups(path: str) -> Mapping[str, Any]:
    """Return the content of a groups file after checking it."""
    try:
        load_cloud(path)
    except Misconfigured as error:
        raise ConfigError(str(error).splitlines()) from error
    document: Mapping[str, Any] = parse_yaml(text_of(read_bytes(path)))
    return document


def _read_files(paths: Sequence[str]) -> Dump:
    with progress("reading") as bar:
        return read_dump(_texts(paths), bar)


def _texts(paths: Sequence[str]) -> Iterator[DumpText]:
    for path in paths:
        if Path(path).is_dir():
            files = sorted(file for file in Path(path).rglob("*") if file.suffix.lower() in _ENDINGS and file.is_file())
            if not files:
                raise ConfigError(f"{path}: holds no .json, .yaml or .yml file")
            yield from (DumpText(str(file), read_bytes(str(file))) for file in files)
        else:
            yield DumpText(path, read_bytes(path))


def _unused(dump: Dump) -> Iterator[str]:
    if dump.unused:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(dump.unused.items()))
        yield f"objects that no decision reads: {kinds}"
