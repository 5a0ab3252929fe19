"""`autoscaler version`: prints the version."""

import argparse
from importlib import metadata

from autoscaler.cli import output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: the version has no options."""


def run(args: argparse.Namespace) -> int:
    """Print the version of the installed package."""
    try:
        output.write(f"autoscaler {metadata.version('node-autoscaler')}")
    except metadata.PackageNotFoundError:
        output.write("autoscaler, from a source tree that is not installed")
    return 0
