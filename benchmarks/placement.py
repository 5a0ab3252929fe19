"""Placing pending pods on nodes that exist, one after another, against the plain definition on a small cluster."""

import argparse
from collections.abc import Sequence
from functools import partial

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Pods
from autoscaler.objects.pod import Pod
from autoscaler.scaleup.pending import filter_schedulable
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView, view_of
from autoscaler.snapshot.hints import Hints
from autoscaler.snapshot.overlay import Trial
from benchmarks.clusters import pending_pods, running_nodes, running_pods
from benchmarks.measure import Row, seconds_of, show
from tests.properties.random_clusters import slow_twin


def place(view: ClusterView, pods: Sequence[Pod]) -> int:
    """Place what fits; return how many pods found no room."""
    return len(filter_schedulable(Placer(Trial(view)), pods, Pods(), Hints(), Rules()).pods)


def place_slowly(view: ClusterView, pods: Sequence[Pod]) -> None:
    twin = slow_twin(view)
    for pod in pods:
        if (node := twin.search(pod.cls, lambda _: True)) is not None:
            twin.place(pod.cls, node)


def rows(pods: int, nodes: int) -> list[Row]:
    roomy = view_of(running_nodes(nodes), running_pods(nodes, 30))
    full = view_of(running_nodes(nodes, cpu="6"), running_pods(nodes, 30))
    small = view_of(running_nodes(100), running_pods(100, 30))
    table = []
    for constrained in (False, True):
        waiting = pending_pods(pods, constrained=constrained)
        few = pending_pods(200, classes=10, constrained=constrained)
        kind = "some apart or spread" if constrained else "resources only"
        ratio = seconds_of(partial(place_slowly, small, few)) / seconds_of(partial(place, small, few), repeat=3)
        seconds = seconds_of(partial(place, roomy, waiting), repeat=2)
        table.append(Row(f"place where there is room: {kind}", pods, "pods", seconds, ratio, "slow twin"))
        seconds = seconds_of(partial(place, full, waiting), repeat=2)
        table.append(Row(f"find no room: {kind}", pods, "pods", seconds, note=f"{place(full, waiting):,} left"))
    return table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.placement", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    sizes = parser.parse_args(argv)
    show(f"Placement on {sizes.nodes:,} nodes", rows(sizes.pods, sizes.nodes))


if __name__ == "__main__":
    main()
