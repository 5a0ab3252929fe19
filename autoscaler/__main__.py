"""The `autoscaler` command, and `python -m autoscaler`."""

import os
import sys

from autoscaler.cli.signals import quiet_exit

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""How many threads numpy starts for products of large matrices. There are none here, and each thread costs memory."""


def run() -> int:
    """Run the command line of this process; Ctrl-C ends it without a word even while modules are imported."""
    os.environ.setdefault(_BLAS_THREADS, "1")
    with quiet_exit():
        from autoscaler.cli.main import main
    return main()


if __name__ == "__main__":
    sys.exit(run())
