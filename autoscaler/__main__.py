"""`python -m autoscaler` is the `autoscaler` command."""

import sys

from autoscaler.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
