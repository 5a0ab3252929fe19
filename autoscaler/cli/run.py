"""`autoscaler run`: the daemon. A command line without a subcommand, as Cluster Autoscaler has it, starts it too."""

import argparse
import os
import signal
import sys
from functools import partial

from autoscaler import logs
from autoscaler.app.daemon import Daemon
from autoscaler.app.watchdog import Watchdog
from autoscaler.cli.arguments import daemon_config
from autoscaler.cli.signals import on_signals
from autoscaler.clock import SystemClock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing, because every word is a flag of Cluster Autoscaler."""


def run(args: argparse.Namespace) -> int:
    """Run until SIGINT, SIGTERM or SIGQUIT, or until leadership is lost; SIGHUP reloads the configuration."""
    read = partial(daemon_config, args, needs_provider=True)
    config = read()
    clock = SystemClock()
    logs.configure(config.observe.v, config.observe.logging_format, clock, sys.stderr)
    daemon = Daemon(config, clock, os.environ, read, Watchdog(config.loop))
    on_signals((signal.SIGINT, signal.SIGTERM, signal.SIGQUIT), daemon.stop)
    on_signals((signal.SIGHUP,), daemon.reload)
    return daemon.run()
