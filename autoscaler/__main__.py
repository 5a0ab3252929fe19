"""The `autoscaler` command, and `python -m autoscaler`."""

import sys

from autoscaler.cli.signals import quiet_exit


def run() -> int:
    """Run the command line of this process; Ctrl-C ends it without a word even while modules are imported."""
    with quiet_exit():
        from autoscaler.cli.main import main
    return main()


if __name__ == "__main__":
    sys.exit(run())
