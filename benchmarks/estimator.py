"""Counting the nodes of every group that pending pods need, against packing pod by pod on a small size."""

import argparse
from collections.abc import Sequence
from functools import partial

from autoscaler.scaleup.estimator import PodGroup, estimate, pod_groups
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView, view_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template
from benchmarks.clusters import pending_pods, running_nodes, running_pods, templates
from benchmarks.measure import Row, seconds_of, show
from tests.properties.random_clusters import slow_twin
from tests.properties.slow_estimator import slow_estimate


def count_nodes(view: ClusterView, candidates: Sequence[Template], groups: Sequence[PodGroup]) -> list[int]:
    placer = Placer(Trial(view))
    return [estimate(placer, template, groups, None).nodes for template in candidates]


def count_slowly(view: ClusterView, candidates: Sequence[Template], groups: Sequence[PodGroup]) -> list[int]:
    return [
        slow_estimate(slow_twin(view), template, groups, None, topology_fallback=True).nodes for template in candidates
    ]


def rows(pods: int, nodes: int, groups: int) -> list[Row]:
    view = view_of(running_nodes(nodes), running_pods(nodes, 30))
    small = view_of(running_nodes(20), running_pods(20, 20, classes=50))
    table = []
    for constrained in (False, True):
        few = pod_groups(pending_pods(200, classes=10, constrained=constrained))
        slow = seconds_of(partial(count_slowly, small, templates(2), few))
        ratio = slow / seconds_of(partial(count_nodes, small, templates(2), few), repeat=3)
        waiting = pod_groups(pending_pods(pods, constrained=constrained))
        seconds = seconds_of(partial(count_nodes, view, templates(groups), waiting), repeat=2)
        counts = count_nodes(view, templates(groups), waiting)
        kind = "some apart or spread" if constrained else "resources only"
        note = f"{min(counts):,} to {max(counts):,} nodes each"
        table.append(Row(f"estimate {groups} groups: {kind}", pods * groups, "pods", seconds, ratio, "slow twin", note))
    return table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.estimator", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--groups", type=int, default=20)
    sizes = parser.parse_args(argv)
    show(f"Estimator beside {sizes.nodes:,} nodes", rows(sizes.pods, sizes.nodes, sizes.groups))


if __name__ == "__main__":
    main()
