"""What the plans of several expanders cost for the same backlog: nodes, price for an hour, and time to decide."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

from autoscaler.scenario.codec import load
from autoscaler.simulator.play import play
from autoscaler.stopwatch import stopwatch

EXPANDERS = ("least-waste", "price", "cost")
SCENARIOS = tuple(sorted(Path(__file__).parents[1].glob("docs/scenarios/cost-*.yaml")))


class Bill(msgspec.Struct, frozen=True):
    """One plan: groups that grow, pods left over, price for an hour, and seconds that the pass took."""

    groups: tuple[tuple[str, int], ...]
    left: int
    price: float
    seconds: float

    @property
    def nodes(self) -> int:
        return sum(count for _, count in self.groups)


def bill(path: Path, expander: str, more: Sequence[str] = ()) -> Bill:
    """The first pass of a scenario by an expander; `more` are further flags, `name=value`."""
    scenario = load(str(path), {"expander": expander, **dict(option.split("=", 1) for option in more)})
    prices = {group.id: group.price_per_hour or 0.0 for group in scenario.cloud.groups}
    start = stopwatch()
    first = play(scenario).runs[0]
    seconds = stopwatch() - start
    groups = tuple((change.group, change.increase) for change in first.scale_ups)
    price = sum(prices[group] * count for group, count in groups)
    left = len(first.pods_remain_unschedulable) + len(first.pods_await_evaluation)
    return Bill(groups, left, price, seconds)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.cost", description=__doc__)
    parser.add_argument("scenarios", nargs="*", type=Path, default=SCENARIOS, help="scenario files with pricePerHour")
    parser.add_argument("--margin", default="0.05", help="cost-stability-margin")
    wanted = parser.parse_args(argv)
    print("\nPrice of the first pass for an hour, and what is saved against the first expander")
    print(
        f"  {'scenario':<16} {'expander':<12} {'per hour':>9} {'saved':>6} {'nodes':>6} {'left':>5} {'ms':>6}  groups"
    )
    for path in wanted.scenarios:
        first: Bill | None = None
        for expander in EXPANDERS:
            run = bill(path, expander, (f"cost-stability-margin={wanted.margin}",))
            first = first or run
            saved = 1 - run.price / first.price if first.price else 0.0
            grown = " ".join(f"{group}+{count}" for group, count in run.groups)
            print(
                f"  {path.stem:<16} {expander:<12} {run.price:>9.3f} {saved:>6.1%} {run.nodes:>6} {run.left:>5} "
                f"{run.seconds * 1000:>6.0f}  {grown}"
            )


if __name__ == "__main__":
    main()
