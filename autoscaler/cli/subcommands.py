"""The subcommands: their names, and their modules, which are imported when the user types the name."""

import argparse
import importlib
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from autoscaler.cli.signals import quiet_exit

if TYPE_CHECKING:
    from autoscaler.cli.arguments import Parser


class SubcommandModule(Protocol):
    """The functions that the module of a subcommand has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare options; `accept_flags` in `cli.arguments` adds Cluster Autoscaler's flags."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Run the subcommand and return the exit status; raises errors of `autoscaler.errors`."""
        ...


class Subcommand(msgspec.Struct, frozen=True):
    """One entry of the table."""

    name: str
    module: str
    help: str
    only_flags: bool = False
    """Every word after the name is a flag of Cluster Autoscaler and goes unparsed into `args.flags`."""

    def load(self) -> SubcommandModule:
        """Import the module."""
        with quiet_exit():
            return cast("SubcommandModule", importlib.import_module(self.module))

    def parser(self, program: str) -> "Parser":
        """Return the parser of the words after the name; `program` is what users type before it."""
        with quiet_exit():  # imports all flags, which the list of subcommands does not need
            from autoscaler.cli.arguments import Parser, accept_flags
        parser = Parser(f"{program} {self.name}", description=self.help)
        if self.only_flags:
            accept_flags(parser)
        else:
            self.load().add_arguments(parser)
        return parser


SUBCOMMANDS = (
    Subcommand("run", "autoscaler.cli.run", "run the daemon; flags without a subcommand do the same", only_flags=True),
    Subcommand(
        "demo", "autoscaler.cli.demo", "run a sandbox cluster, a simulated cloud and the daemon on this machine"
    ),
    Subcommand(
        "plan", "autoscaler.cli.plan", "show what a pass would do to a dump, a scenario or a live cluster, and why"
    ),
    Subcommand(
        "explain", "autoscaler.cli.explain", "say why a pod, node or group is left as it is, and what would change it"
    ),
    Subcommand("pause", "autoscaler.cli.pause", "leave a cluster or groups alone for a while: no removals, no moves"),
    Subcommand("resume", "autoscaler.cli.resume", "lift pauses, those of the autoscaler itself too"),
    Subcommand("simulate", "autoscaler.cli.simulate", "simulate days in seconds: costs, waiting times of pods"),
    Subcommand("scenario", "autoscaler.cli.scenario_command", "turn a dump into a scenario file to edit and replay"),
    Subcommand("eta", "autoscaler.cli.eta", "estimate when pending pods will be ready, with the daemon's formulas"),
    Subcommand("load", "autoscaler.cli.load", "create pods in a test cluster, and report how they start"),
    Subcommand("headroom", "autoscaler.cli.headroom", "check, plan and remove pools of pause pods"),
    Subcommand("reservations", "autoscaler.cli.reservations", "check and plan reservations for announced work"),
    Subcommand("provider", "autoscaler.cli.provider", "check, list and serve cloud providers"),
    Subcommand("config", "autoscaler.cli.config_command", "check a configuration file, list flags and rules"),
    Subcommand("completion", "autoscaler.cli.completion", "print the script that completes commands in a shell"),
    Subcommand("version", "autoscaler.cli.version", "print the version"),
)
