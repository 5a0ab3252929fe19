"""The `autoscaler` command, `python -m autoscaler`, and the plugin of kubectl."""

import os
import sys
from collections.abc import Sequence

from autoscaler.cli.signals import quiet_exit

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""How many threads numpy starts for products of large matrices. There are none here, and each thread costs memory."""


def run(words: Sequence[str] | None = None, program: str = "autoscaler") -> int:
    """Run a command line, by default that of this process; Ctrl-C ends it quietly even while modules are imported.

    `program` is what users type before a subcommand.
    """
    os.environ.setdefault(_BLAS_THREADS, "1")
    with quiet_exit():
        from autoscaler.cli.main import main
    return main(words, program=program)


def run_plugin() -> int:
    """Run the command line of this process as `kubectl autoscaler`: kubectl starts the program `kubectl-autoscaler`."""
    return run(program="kubectl autoscaler")


def complete_plugin() -> int:
    """Print what may follow: kubectl starts the program `kubectl_complete-autoscaler` at each press of Tab."""
    return run(["__complete", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(run())
