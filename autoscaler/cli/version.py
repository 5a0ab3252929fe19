"""`autoscaler version`: prints the version."""

import argparse

from autoscaler.cli import output
from autoscaler.version import version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing, because the version has no options."""


def run(args: argparse.Namespace) -> int:
    """Print the version of the installed package."""
    output.write(f"autoscaler {version()}")
    return 0
