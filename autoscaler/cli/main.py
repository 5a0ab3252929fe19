"""The `autoscaler` command: finds the subcommand, runs it, and turns errors into an exit status.

Exit status: 0 done, 1 failed while running, 2 bad input or configuration, 130 interrupted.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import msgspec

from autoscaler.cli.signals import INTERRUPTED, quiet_exit
from autoscaler.cli.stdin import standard_input_as_file
from autoscaler.errors import AutoscalerError, ConfigError
from cloudprovider.nearest import nearest

DONE, FAILED, BAD_INPUT = 0, 1, 2


class Subcommand(msgspec.Struct, frozen=True):
    """One entry of the table: the module is imported only when its name is typed."""

    name: str
    module: str
    help: str
    only_flags: bool = False
    """Every word after the name is a flag of Cluster Autoscaler and is left in `args.flags`."""


class SubcommandModule(Protocol):
    """What the module of a subcommand offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare options; `accept_flags` in `cli.arguments` lets Cluster Autoscaler's through."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do the job and return the exit status; errors of `autoscaler.errors` may be raised."""
        ...


SUBCOMMANDS = (
    Subcommand("run", "autoscaler.cli.run", "run the daemon; flags without a subcommand do the same", only_flags=True),
    Subcommand(
        "demo", "autoscaler.cli.demo", "run a sandbox cluster, a simulated cloud and the daemon on this machine"
    ),
    Subcommand(
        "plan", "autoscaler.cli.plan", "show what a pass would do to a dump, a scenario or a live cluster, and why"
    ),
    Subcommand("simulate", "autoscaler.cli.simulate", "simulate days in seconds: costs, waiting times of pods"),
    Subcommand("scenario", "autoscaler.cli.scenario_command", "turn a dump into a scenario file to edit and replay"),
    Subcommand("eta", "autoscaler.cli.eta", "estimate when pending pods will be ready, with the daemon's formulas"),
    Subcommand("load", "autoscaler.cli.load", "create pods in a test cluster, and report how they start"),
    Subcommand("headroom", "autoscaler.cli.headroom", "check, plan and remove pools of pause pods"),
    Subcommand("reservations", "autoscaler.cli.reservations", "check and plan reservations for announced work"),
    Subcommand("provider", "autoscaler.cli.provider", "check, list and serve cloud providers"),
    Subcommand("config", "autoscaler.cli.config_command", "check a configuration file, list flags and rules"),
    Subcommand("version", "autoscaler.cli.version", "print the version"),
)


def main(argv: Sequence[str] | None = None, subcommands: Sequence[Subcommand] = SUBCOMMANDS) -> int:
    """Run the command line and return its exit status; only programming errors escape."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch(words, {command.name: command for command in subcommands})
        sys.stdout.flush()
    except ConfigError as error:
        for line in error.problems:
            print(line, file=sys.stderr)
        return BAD_INPUT
    except AutoscalerError as error:
        print(f"autoscaler: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # The reader has gone; the interpreter's own flush at exit must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _dispatch(words: list[str], commands: Mapping[str, Subcommand]) -> int:
    match words:
        case []:
            print(_usage(commands), file=sys.stderr)
            return BAD_INPUT
        case ["-h" | "-help" | "--help" | "help", *_]:
            print(_usage(commands))
            return DONE
        case ["--version", *_]:
            return _run(commands["version"], [])
        case [flag, *_] if flag.startswith("-"):
            return _run(commands["run"], words)
        case [name, *rest] if name in commands:
            return _run(commands[name], rest)
        case _:
            raise ConfigError(
                f"{words[0]}: unknown subcommand{nearest(words[0], commands)} (autoscaler --help lists them)"
            )


def _run(command: Subcommand, words: list[str]) -> int:
    with quiet_exit():  # with all flags, which the list of subcommands can spare
        from autoscaler.cli.arguments import Parser, flags_help
    if command.only_flags and not {"-h", "-help", "--help"}.isdisjoint(words):
        print(f"usage: autoscaler {command.name} [flags]\n\n{command.help}\n\n{flags_help()}")
        return DONE
    module = _load(command)
    with standard_input_as_file(words) as given:
        if command.only_flags:
            return module.run(argparse.Namespace(flags=given))
        parser = Parser(f"autoscaler {command.name}", description=command.help)
        module.add_arguments(parser)
        try:
            args = parser.parse_args(given)
        except SystemExit:  # the help has been printed
            return DONE
        return module.run(args)


def _load(command: Subcommand) -> SubcommandModule:
    with quiet_exit():
        return cast("SubcommandModule", importlib.import_module(command.module))


def _usage(commands: Mapping[str, Subcommand]) -> str:
    width = max(map(len, commands))
    listed = "\n".join(f"  {command.name:{width}}  {command.help}" for command in commands.values())
    return (
        "usage: autoscaler SUBCOMMAND [options]\n"
        "       autoscaler [flags of Cluster Autoscaler]\n\n"
        "A node autoscaler for Kubernetes that decides like Cluster Autoscaler and explains its decisions.\n\n"
        f"{listed}\n\n"
        "autoscaler SUBCOMMAND --help describes one; autoscaler run --help lists the flags.\n"
        "Exit status: 0 done, 1 failed while running, 2 bad input or configuration."
    )
