"""Every benchmark, one after another, or those that are named; `python -m benchmarks.decode --help` shows sizes."""

import argparse

from benchmarks import cost, daemon, decode, estimator, page, placement, snapshot

ALL = {
    "snapshot": snapshot,
    "placement": placement,
    "estimator": estimator,
    "decode": decode,
    "cost": cost,
    "page": page,
    "daemon": daemon,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, []], metavar="NAME", help=", ".join(ALL))
    for name in parser.parse_args().names or ALL:
        ALL[name].main([])


if __name__ == "__main__":
    main()
