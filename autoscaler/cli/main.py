"""The `autoscaler` command: finds the subcommand, runs it, and turns errors into an exit status.

Exit status: 0 done, 1 failed while running, 2 bad input or configuration, 130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from autoscaler.cli.signals import INTERRUPTED, quiet_exit
from autoscaler.cli.stdin import standard_input_as_file
from autoscaler.cli.subcommands import SUBCOMMANDS, Subcommand
from autoscaler.errors import AutoscalerError, ConfigError
from autoscaler.printable import spelled_out
from cloudprovider.nearest import nearest

DONE, FAILED, BAD_INPUT = 0, 1, 2
COMPLETE = "__complete"
"""Asks for the possible next words, like the completion scripts of kubectl and many other programs."""
_HELP = frozenset({"-h", "-help", "--help"})
_VERSION = "--version"


def main(
    argv: Sequence[str] | None = None,
    subcommands: Sequence[Subcommand] = SUBCOMMANDS,
    program: str = "autoscaler",
) -> int:
    """Run the command line and return its exit status; only programming errors escape.

    `program` is what users type before a subcommand.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch(words, {command.name: command for command in subcommands}, program)
        sys.stdout.flush()
    except ConfigError as error:
        for line in error.problems:
            print(spelled_out(line), file=sys.stderr)
        return BAD_INPUT
    except AutoscalerError as error:
        print(spelled_out(f"{program}: {error}"), file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # The reader has closed the pipe. The interpreter flushes at exit and must not complain about that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _dispatch(words: list[str], commands: Mapping[str, Subcommand], program: str) -> int:
    match words:
        case []:
            print(_usage(commands, program), file=sys.stderr)
            return BAD_INPUT
        case ["help", *_]:
            print(_usage(commands, program))
            return DONE
        case [word, *_] if word in _HELP:
            print(_usage(commands, program))
            return DONE
        case [word, *rest] if word == COMPLETE:
            from autoscaler.cli.completion import completions

            print("\n".join(completions(rest, commands)))
            return DONE
        case [flag, *_] if flag.startswith("-"):
            return _run(commands["run"], words, commands, program)
        case [name, *rest] if name in commands:
            return _run(commands[name], rest, commands, program)
        case _:
            raise ConfigError(
                f"{words[0]}: unknown subcommand{nearest(words[0], commands)} ({program} --help lists them)"
            )


def _run(command: Subcommand, words: list[str], commands: Mapping[str, Subcommand], program: str) -> int:
    if _VERSION in words:
        command, words = commands["version"], []
    if command.only_flags and not _HELP.isdisjoint(words):
        with quiet_exit():
            from autoscaler.cli.arguments import flags_help
        print(f"usage: {program} {command.name} [flags]\n\n{command.help}\n\n{flags_help()}")
        return DONE
    with standard_input_as_file(words) as given:
        if command.only_flags:
            return command.load().run(argparse.Namespace(flags=given))
        parser = command.parser(program)
        try:
            args = parser.parse_args(given)
        except SystemExit:  # argparse has printed the help
            return DONE
        return command.load().run(args)


def _usage(commands: Mapping[str, Subcommand], program: str) -> str:
    width = max(map(len, commands))
    listed = "\n".join(f"  {command.name:{width}}  {command.help}" for command in commands.values())
    return (
        f"usage: {program} SUBCOMMAND [options]\n"
        f"       {program} [flags of Cluster Autoscaler]\n\n"
        "A node autoscaler for Kubernetes that decides like Cluster Autoscaler and explains its decisions.\n\n"
        f"{listed}\n\n"
        f"{program} SUBCOMMAND --help describes one; {program} run --help lists the flags.\n"
        "Exit status: 0 done, 1 failed while running, 2 bad input or configuration."
    )
