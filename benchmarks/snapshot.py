"""The next view after a few changes, against building it afresh."""

import argparse
from collections.abc import Sequence
from functools import partial

import msgspec

from autoscaler.objects.pod import Pod
from autoscaler.snapshot.cluster import ClusterBuilder, ClusterView, Related
from autoscaler.snapshot.groups import Groups
from autoscaler.snapshot.overlay import Trial
from benchmarks.clusters import running_nodes, running_pods
from benchmarks.measure import Row, seconds_of, show


def rows(nodes: int, per_node: int) -> list[Row]:
    builder = ClusterBuilder(expendable_below=-10)
    pods = running_pods(nodes, per_node)
    for node in running_nodes(nodes):
        builder.node_changed(None, node)
    telling = seconds_of(partial(tell, builder, pods))
    rebuilt = seconds_of(partial(next_view, builder))
    table = [
        Row("tell the builder of every pod", len(pods), "pods", telling),
        Row("build a view afresh", len(pods), "pods", rebuilt),
        Row("next view: nothing changed", len(pods), "pods", seconds_of(partial(next_view, builder), repeat=3)),
    ]
    for changes in (10, 100, 1000):
        moved = pods[:: max(1, len(pods) // changes)][:changes]
        seconds = seconds_of(partial(move, builder, moved, nodes))
        table.append(Row(f"next view: {changes} pods moved", len(pods), "pods", seconds, rebuilt / seconds, "afresh"))
    table.append(
        Row("start a trial on a view", nodes, "nodes", seconds_of(partial(Trial, next_view(builder)), repeat=5))
    )
    return table


def next_view(builder: ClusterBuilder) -> ClusterView:
    return builder.view(Groups(), Related())


def tell(builder: ClusterBuilder, pods: Sequence[Pod]) -> None:
    for pod in pods:
        builder.pod_changed(None, pod)


def move(builder: ClusterBuilder, pods: Sequence[Pod], nodes: int) -> None:
    """Move each pod one node on, take a view, and move it back for the next measurement."""
    moved = [msgspec.structs.replace(pod, node=f"node-{(number + 1) % nodes}") for number, pod in enumerate(pods)]
    for old, new in zip(pods, moved, strict=True):
        builder.pod_changed(old, new)
    next_view(builder)
    for old, new in zip(pods, moved, strict=True):
        builder.pod_changed(new, old)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.snapshot", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--per-node", type=int, default=30)
    sizes = parser.parse_args(argv)
    show(f"Snapshot of {sizes.nodes:,} nodes", rows(sizes.nodes, sizes.per_node))


if __name__ == "__main__":
    main()
