"""Every metric of Cluster Autoscaler moves in some situation, to the value that it must have; none has other labels.

A situation is whole passes in virtual time; what is scraped after each of its steps is held against its rows.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from autoscaler.config.load import from_options
from autoscaler.errors import Blocked
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.node import Node
from autoscaler.objects.workload import Replicas, Replicated
from autoscaler.observe.metrics.definitions import TABLE, MetricCondition
from autoscaler.reasons import UnremovableReason
from autoscaler.snapshot.cluster import Related
from cloudprovider.interface import ErrorClass, InstanceError, OutOfCapacity, ProviderError
from cloudprovider.static.spec import GPU_LABEL, Call
from tests.builders import a_node, a_pod, replicas
from tests.devices import a_slice, with_devices
from tests.their_metrics import REMOVED, THEIRS, UNREMOVABLE, family_of, labels_of, wrong_values
from tests.unit.loop.loop_world import NOW, a_spec, waiting
from tests.unit.observe.published_world import PublishedWorld

QUICK: dict[str, Any] = {"scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "0s"}
TRACKED: dict[str, Any] = {
    "node-removal-latency-tracking-enabled": True,
    "max-node-skip-eval-time-tracker-enabled": True,
}
NONE = 'gpu_resource_name="",gpu_name="",dra_drivers=""'
A100 = 'gpu_resource_name="nvidia.com/gpu",gpu_name="a100"'
STOCK_OUT = InstanceError(ErrorClass.OUT_OF_RESOURCES, "RESOURCE_POOL_EXHAUSTED", "no more")

Steps = Iterator[PublishedWorld]


def a_world(*specs: Any, nodes: Any = (), **options: Any) -> PublishedWorld:
    return PublishedWorld(*(specs or (a_spec(),)), nodes=nodes, config=from_options({**TRACKED, **options}))


def gpu_spec() -> Any:
    return a_spec("gpu", labels={GPU_LABEL: "a100"}, extra={"nvidia.com/gpu": "1"})


def a_gpu_node(name: str, *, ready: bool = True) -> Node:
    return a_node(name, labels={GPU_LABEL: "a100"}, extra={"nvidia.com/gpu": "1"}, ready=ready)


def nodes_break() -> Steps:
    world = a_world(a_spec(max_size=20), nodes=[(a_node(f"n{number}"), "web") for number in range(5)])
    world.run()
    yield world
    for number in range(5):
        world.cluster.put_node(a_node(f"n{number}", ready=False))
    world.run(after_s=15)
    yield world


def nodes_of_every_kind() -> Steps:
    nodes = [
        (a_node("new", ready=False, created=NOW), "web"),
        (a_node("paused", conditions=[{"type": "Suspended", "status": "True"}]), "web"),
    ]
    world = a_world(a_spec(min_size=3, boot_s=0), nodes=nodes)
    world.static.group("web").increase(1)
    world.run()
    yield world
    world.run(after_s=901)
    yield world


def a_group_vanishes() -> Steps:
    world = a_world(a_spec("web", cpu="4", min_size=1, max_size=7), a_spec("other"), nodes=[(a_node("n1"), "web")])
    world.run()
    yield world
    world.cluster.put_node(a_node("n2", cpu="6"))
    world.cloud.taken.add("other")
    world.run(after_s=15)
    yield world


def pods_wait() -> Steps:
    world = a_world(a_spec(max_size=0), **{"bypassed-scheduler-names": "fast"})
    world.run()
    yield world
    world.submit(waiting("a"), a_pod("b", scheduler="fast", created=NOW - 60))
    world.run(after_s=15)
    yield world
    world.cluster.remove_pod("default/a")
    world.run(after_s=15)
    yield world


def more_replicas_are_wanted() -> Steps:
    world = a_world(a_spec(max_size=0), **{"enable-proactive-scaleup": True})
    world.run()
    yield world
    pod = a_pod("web-1", owner="ReplicaSet/web", created=NOW - 60, unschedulable=True)
    assert pod.cls.owner is not None
    wanted = Replicated(
        metadata=ObjectMeta(name="web", namespace="default", uid=pod.cls.owner.uid), spec=Replicas(replicas=4)
    )
    world.related = Related(replica_sets={wanted.key: wanted})
    world.submit(pod)
    world.run(after_s=15)
    yield world


def limits_are_set() -> Steps:
    yield a_world()
    yield a_world(**{"cores-total": "8:80", "memory-total": "1:10"})


def buffers_are_followed() -> Steps:
    world = a_world(**{"capacity-buffer-controller-enabled": True})
    world.run()
    yield world
    world.run(after_s=15)
    yield world


def time_passes() -> Steps:
    world = a_world(nodes=[(a_node("n1"), "web")])
    world.run()
    yield world
    world.static.fail_next("web", ProviderError("down"), Call.REFRESH)
    world.run(after_s=15)
    yield world
    world.submit(*replicas(waiting("p", "4"), 2))
    world.run(after_s=15)
    yield world
    world.unreachable = "away"
    world.run(after_s=15)
    yield world


def groups_grow() -> Steps:
    world = a_world(a_spec("web", cpu="4"), gpu_spec())
    world.run()
    yield world
    world.submit(*replicas(waiting("p"), 3))
    world.submit(a_pod("t", requests={"nvidia.com/gpu": "1"}, unschedulable=True, created=NOW - 60, namespace="ml"))
    world.run(after_s=15)
    yield world


def scale_ups_fail() -> Steps:
    world = a_world(a_spec("web", boot_s=60), gpu_spec(), **{"initial-node-group-backoff-duration": "1s"})
    world.run()
    yield world
    world.static.fail_next("web", ProviderError("odd"))
    world.static.fail_next("gpu", OutOfCapacity("none"))
    world.submit(*replicas(waiting("p"), 2))
    world.submit(a_pod("t", requests={"nvidia.com/gpu": "1"}, unschedulable=True, created=NOW - 60))
    world.run(after_s=15)
    yield world
    world.cluster.remove_pod("default/t")
    world.static.fail_next("web", STOCK_OUT)
    world.run(after_s=15)
    world.run(after_s=15)
    yield world


def machines_are_late() -> Steps:
    world = a_world(a_spec("lost", boot_s=0, max_size=2))
    world.submit(*replicas(waiting("p"), 2))
    world.run()
    world.run(after_s=1)
    yield world
    world.run(after_s=901)
    yield world


def nodes_go() -> Steps:
    """One is empty, one is drained, one is not ready; and the same with GPUs."""
    nodes = [(a_node(name), "web") for name in ("empty", "drained", "stays")]
    nodes += [(a_node("broken", ready=False), "web"), (a_gpu_node("gpu-1"), "gpu")]
    nodes += [(a_gpu_node("gpu-2"), "gpu"), (a_gpu_node("gpu-3", ready=False), "gpu")]
    options = {**QUICK, "scale-down-unready-time": "1m", "skip-nodes-with-custom-controller-pods": False}
    world = a_world(a_spec(), gpu_spec(), nodes=nodes, **options, **{"max-drain-parallelism": 2})
    world.submit(a_pod("moves", cpu="1", node="drained"), a_pod("fixed", cpu="2500m", node="stays"))
    world.submit(a_pod("moves-too", cpu="500m", node="gpu-2"))
    world.run()
    yield world
    world.run(after_s=61)
    world.run(after_s=1)
    yield world
    world.drive(120)
    world.run()
    yield world


def a_pod_stays() -> Steps:
    nodes = [(a_node(name), "web") for name in ("n1", "n2")]
    world = a_world(nodes=nodes, **QUICK, **{"skip-nodes-with-custom-controller-pods": False})
    world.submit(a_pod("moves", cpu="1", node="n1"), a_pod("fixed", cpu="2500m", node="n2"))
    world.writes.refused["moves"] = Blocked("budget", 429)
    world.run()
    world.run(after_s=61)
    yield world
    world.drive(300)
    yield world


def nodes_stay() -> Steps:
    disabled = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    nodes = [(a_node("kept", annotations=disabled), "web"), (a_node("used"), "web"), (a_node("blocked"), "web")]
    world = a_world(nodes=nodes, **QUICK)
    world.submit(a_pod("runs", cpu="3", node="used"), a_pod("alone", cpu="1", node="blocked", owner=None))
    world.run()
    yield world
    world.cluster.put_node(a_node("kept"))
    world.run(after_s=15)
    yield world


def limits_hold_back() -> Steps:
    for options in ({"cores-total": "0:4"}, {"memory-total": "0:1"}):
        world = a_world(a_spec("a", cpu="8"), a_spec("b", cpu="16"), **options)
        world.submit(waiting("p1"))
        world.run()
        yield world


def nodes_are_tainted() -> Steps:
    world = a_world(nodes=[(a_node("n1", taints=["team=a", "node.kubernetes.io/not-ready"]), "web")])
    world.run()
    yield world
    world.cluster.put_node(a_node("n1", taints=["team=a"]))
    world.run(after_s=15)
    yield world


def many_namespaces() -> Steps:
    world = a_world(a_spec(cpu="64", labels={"node.kubernetes.io/instance-type": "m5.huge"}, max_size=50))
    for namespaces in (1, 2, 3, 4, 5, 6, 11):
        for number in range(namespaces):
            name, own = f"p{namespaces}", f"ns{number}"
            world.submit(a_pod(name, namespace=own, cpu="64", unschedulable=True, created=NOW - 60))
        world.run(after_s=15)
    yield world


def an_unneeded_node_is_held_up() -> Steps:
    world = a_world(a_spec(min_size=1), nodes=[(a_node("n1"), "web"), (a_node("n2"), "web")], **QUICK)
    world.run()
    (going,) = world.run(after_s=61).scale_down.deletions.empty
    world.submit(a_pod("comes", cpu="3", node="n1" if going.node.name == "n2" else "n2"))
    world.run(after_s=2)
    yield world


def there_is_no_time() -> Steps:
    nodes = [(a_node(f"n{number}"), "web") for number in range(3)]
    config = from_options({**TRACKED, "scale-down-simulation-timeout": "1s"})
    seconds = itertools.count(0.0, 10.0)  # of a machine on which ten pass between two looks
    world = PublishedWorld(a_spec(), nodes=nodes, config=config, limits=lambda: next(seconds))
    world.run()
    world.run(after_s=30)
    yield world


def devices_differ() -> Steps:
    nodes = [(a_node(name, created=NOW - age), "web") for name, age in (("a", 30.0), ("b", 20.0), ("c", 10.0))]
    world = a_world(nodes=nodes)
    slices = [a_slice(name, devices=4) for name in ("a", "b", "c")]
    world.related = with_devices(slices)
    world.run()
    yield world
    world.related = with_devices([slices[0], a_slice("b", devices=3), slices[2], a_slice("c", pool="more", devices=2)])
    world.run(after_s=15)
    yield world


Story = Callable[[], Steps]
Value = float | None


@functools.cache
def scrapes(story: Story) -> Sequence[Mapping[str, float]]:
    """Return what is scraped after each step of a situation."""
    return [world.series() for world in story()]


def row(story: Story, series: str, *values: Value) -> Any:
    return pytest.param(story, series, values, id=f"{story.__name__}: {series}")


def seconds(function: str, *counts: Value, story: Story = time_passes) -> list[Any]:
    return [
        row(story, f'{name}_count{{function="{function}"}}', *counts)
        for name in ("function_duration_seconds", "function_duration_quantile_seconds")
    ]


ROWS = [
    row(nodes_break, "cluster_safe_to_autoscale", 1, 0),
    row(nodes_break, 'nodes_count{state="ready"}', 5, 0),
    row(nodes_break, 'nodes_count{state="unready"}', 0, 5),
    row(nodes_break, 'node_group_healthiness{node_group="web"}', 1, 0),
    row(nodes_of_every_kind, 'nodes_count{state="notStarted"}', 1, 0),
    row(nodes_of_every_kind, 'nodes_count{state="suspended"}', 1, 1),
    row(nodes_of_every_kind, 'nodes_count{state="unregistered"}', 1, 0),
    row(nodes_of_every_kind, 'nodes_count{state="longUnregistered"}', 0, 1),
    row(a_group_vanishes, 'node_groups_count{node_group_type="autoscaled"}', 2, 1),
    row(a_group_vanishes, 'node_groups_count{node_group_type="autoprovisioned"}', 0, 0),
    row(a_group_vanishes, "max_nodes_count", 17, 7),
    row(a_group_vanishes, "cluster_cpu_current_cores", 4, 10),
    row(a_group_vanishes, "cluster_memory_current_bytes", 16 * 1024**3, 32 * 1024**3),
    row(a_group_vanishes, 'node_group_min_count{node_group="web"}', 1, 1),
    row(a_group_vanishes, 'node_group_max_count{node_group="other"}', 10, None),
    row(a_group_vanishes, 'node_group_target_count{node_group="web"}', 1, 1),
    row(a_group_vanishes, 'node_group_target_count{node_group="other"}', 0, None),
    row(a_group_vanishes, 'node_group_healthiness{node_group="other"}', 1, None),
    row(pods_wait, 'unschedulable_pods_count{type="unschedulable"}', 0, 1, 0),
    row(pods_wait, 'unschedulable_pods_count{type="scheduler_unprocessed"}', 0, 1, 1),
    row(more_replicas_are_wanted, 'unschedulable_pods_count{type="injected"}', 0, 3),
    row(limits_are_set, 'cpu_limits_cores{direction="minimum"}', 0, 8),
    row(limits_are_set, 'cpu_limits_cores{direction="maximum"}', 320000, 80),
    row(limits_are_set, 'memory_limits_bytes{direction="minimum"}', 0, 1024**3),
    row(limits_are_set, 'memory_limits_bytes{direction="maximum"}', 6400000 * 1024**3, 10 * 1024**3),
    *(
        row(
            buffers_are_followed,
            f'capacity_buffer_oldest_reconciliation_timestamp_seconds{{new_buffer="{new}"}}',
            NOW,
            NOW + 15,
        )
        for new in ("true", "false")
    ),
    row(time_passes, 'last_activity{activity="main"}', NOW, NOW + 15, NOW + 30, NOW + 45),
    row(time_passes, 'last_activity{activity="mainSuccessful"}', NOW, NOW, NOW + 30, NOW + 30),
    row(time_passes, 'last_activity{activity="autoscaling"}', NOW, NOW, NOW + 30, NOW + 30),
    row(time_passes, 'last_activity{activity="scaleUp"}', None, None, NOW + 30, NOW + 30),
    row(nodes_go, 'last_activity{activity="scaleDown"}', NOW, NOW + 62, NOW + 182),
    row(time_passes, 'errors_total{type="cloudProviderError"}', 0, 1, 1, 1),
    row(time_passes, 'errors_total{type="apiCallError"}', 0, 0, 0, 1),
    *seconds("main", 1, 2, 3, 4),
    *seconds("cloudProviderRefresh", 1, 1, 2, 3),
    *seconds("updateClusterState", 1, 1, 2, 2),
    *seconds("filterOutSchedulable", 1, 1, 2, 2),
    *seconds("findUnneeded", 1, 1, 2, 2),
    *seconds("scaleUp", None, None, 1, 1),
    *seconds("scaleUp:estimate", None, None, 1, 1),
    *seconds("scaleDown", 1, 1, 2, 2),
    *seconds("scaleDown:nodeDeletion", 1, 1, 1, 1),
    *seconds("scaleDown:softTaintUnneeded", 1, 1, 2, 2),
    *seconds("loopWait", None, 1, 2, 3),
    row(groups_grow, f"scaled_up_nodes_total{{{NONE}}}", 0, 3),
    row(groups_grow, f'scaled_up_nodes_total{{{A100},dra_drivers=""}}', None, 1),
    row(groups_grow, f"scaled_up_gpu_nodes_total{{{A100}}}", None, 1),
    row(scale_ups_fail, f'failed_scale_ups_total{{reason="cloudProviderError",{NONE}}}', 0, 1, 1),
    row(scale_ups_fail, f'failed_scale_ups_total{{reason="RESOURCE_POOL_EXHAUSTED",{NONE}}}', None, None, 1),
    row(scale_ups_fail, f'failed_scale_ups_total{{reason="OUT_OF_RESOURCES",{A100},dra_drivers=""}}', None, 1, 1),
    row(scale_ups_fail, f'failed_gpu_scale_ups_total{{reason="OUT_OF_RESOURCES",{A100}}}', None, 1, 1),
    row(scale_ups_fail, 'failed_node_creations_total{reason="cloudProviderError"}', 0, 2, 2),
    row(scale_ups_fail, 'failed_node_creations_total{reason="RESOURCE_POOL_EXHAUSTED"}', None, None, 1),
    row(scale_ups_fail, 'node_group_backoff_status{node_group="web",reason=""}', 0, None, None),
    row(scale_ups_fail, 'node_group_backoff_status{node_group="web",reason="RESOURCE_POOL_EXHAUSTED"}', None, None, 1),
    row(machines_are_late, f'failed_scale_ups_total{{reason="timeout",{NONE}}}', 0, 1),
    row(machines_are_late, 'failed_node_creations_total{reason="timeout"}', 0, 2),
    row(machines_are_late, "old_unregistered_nodes_removed_count", 0, 2),
    row(nodes_go, f'scaled_down_nodes_total{{reason="empty",{NONE}}}', 0, 0, 1),
    row(nodes_go, f'scaled_down_nodes_total{{reason="underutilized",{NONE}}}', 0, 0, 1),
    row(nodes_go, f'scaled_down_nodes_total{{reason="unready",{NONE}}}', 0, 0, 1),
    row(nodes_go, f'scaled_down_nodes_total{{reason="empty",{A100},dra_drivers=""}}', None, None, 1),
    *(row(nodes_go, f'scaled_down_gpu_nodes_total{{reason="{one}",{A100}}}', None, None, 1) for one in REMOVED),
    row(nodes_go, 'evicted_pods_total{eviction_result="succeeded"}', 0, 0, 2),
    row(a_pod_stays, 'evicted_pods_total{eviction_result="failed"}', 0, 1),
    row(nodes_go, "unneeded_nodes_count", 6, 0, 0),
    row(nodes_go, "pending_node_deletions", 0, 6, 0),
    row(nodes_stay, 'unremovable_nodes_count{reason="ScaleDownDisabledAnnotation"}', 1, 0),
    row(nodes_stay, 'unremovable_nodes_count{reason="NotUnderutilized"}', 1, 1),
    row(nodes_stay, 'unremovable_nodes_count{reason="BlockedByPod"}', 1, 0),
    row(time_passes, "scale_down_in_cooldown", 0, 0, 1, 1),
    row(
        limits_hold_back,
        'skipped_scale_events_count{direction="up",reason="CpuResourceLimit"}',
        2,
        0,
    ),
    row(
        limits_hold_back,
        'skipped_scale_events_count{direction="up",reason="MemoryResourceLimit"}',
        0,
        2,
    ),
    row(nodes_are_tainted, 'node_taints_count{type="other"}', 1, 1),
    row(nodes_are_tainted, 'node_taints_count{type="node.kubernetes.io/not-ready"}', 1, None),
    row(
        groups_grow,
        'binpacking_heterogeneity_count{instance_type="",cpu_count="4",namespace_count="2"}',
        None,
        1,
    ),
    *(
        row(
            many_namespaces,
            'binpacking_heterogeneity_sum{instance_type="m5.huge",cpu_count="64",namespace_count="' + count + '"}',
            kinds,
        )
        for count, kinds in (("1", 1), ("2", 2), ("3", 3), ("4", 4), ("5", 5), ("6-10", 6), ("11+", 11))
    ),
    row(nodes_go, 'node_removal_latency_seconds_count{deleted="true",delay_reason="none"}', None, 6, 6),
    row(
        an_unneeded_node_is_held_up,
        'node_removal_latency_seconds_count{deleted="false",delay_reason="NodeGroupMinSizeReached"}',
        1,
    ),
    row(there_is_no_time, "max_node_skip_eval_duration_seconds", 30),
    row(
        devices_differ,
        'dra_node_template_resources_mismatch{driver="gpu.nvidia.com",mismatch_type="mismatch"}',
        0,
        1,
    ),
    row(devices_differ, 'dra_node_template_resources_mismatch{driver="gpu.nvidia.com",mismatch_type="extra"}', 0, 1),
]

NEVER_MOVES = {
    "nap_enabled": "node groups are never made on demand: always 0",
    "skipped_pods_count": "all pending pods are tried in every pass: always 0",
    "overflowing_controllers_count": "pods are told apart by all that matters, however many kinds there are: always 0",
}

NEVER_SEEN = {
    ("unschedulable_pods_count", "type"): {"skipped_injection": "docs/metrics.md does not list it"},
    ("errors_total", "type"): {
        "internalError": "the daemon counts bugs with it",
        "transientError": "no failure of a pass is of this type",
        "configurationError": "ends the process at its start",
        "nodeGroupDoesNotExistError": "a group that vanishes is an error of the cloud",
        "unexpectedScaleDownStateError": "there is no such state",
    },
    ("skipped_scale_events_count", "direction"): {"down": "nothing counts these, there as here"},
    ("node_groups_count", "node_group_type"): {"autoprovisioned": "no provider creates groups"},
    ("dra_node_template_resources_mismatch", "mismatch_type"): {
        "missing": "a node that lacks a pool is not ready, and only ready ones are compared"
    },
}
"""Values that do not move, and why."""


@pytest.mark.parametrize(("story", "series", "values"), ROWS)
def test_moves_as_it_must(story: Story, series: str, values: tuple[Value, ...]) -> None:
    assert tuple(scraped.get(series) for scraped in scrapes(story)) == values


@pytest.mark.parametrize("name", NEVER_MOVES)
def test_there_is_nothing_to_count(name: str) -> None:
    found = {series: value for series, value in scrapes(pods_wait)[-1].items() if family_of(series) == name}
    assert list(found.values()) == [0]


def test_every_metric_moves_in_some_situation() -> None:
    moved = {family_of(str(one.values[1])) for one in ROWS}
    assert THEIRS.keys() - moved == NEVER_MOVES.keys()
    assert moved <= THEIRS.keys()


def stories() -> set[Story]:
    return {one.values[0] for one in ROWS}


def test_labels_have_the_values_of_cluster_autoscaler_and_no_others() -> None:
    for story in stories():
        theirs = {one for scraped in scrapes(story) for one in scraped if family_of(one) in THEIRS}
        assert {one: wrong_values(one) for one in theirs if wrong_values(one)} == {}


@pytest.mark.parametrize(
    ("name", "label"),
    [(name, label) for name, one in THEIRS.items() for label, values in one.labels.items() if values],
)
def test_every_value_of_a_label_is_seen_at_work(name: str, label: str) -> None:
    moved = {
        labels_of(str(one.values[1]))[label]
        for one in ROWS
        if family_of(str(one.values[1])) == name and any(one.values[2])
    }
    moved |= {values[0] for values in (THEIRS[name].labels[label],) if name in NEVER_MOVES}
    assert set(THEIRS[name].labels[label]) - moved == NEVER_SEEN.get((name, label), {}).keys()


def test_reasons_why_nodes_stay_are_cluster_autoscalers_and_some_more() -> None:
    assert set(UNREMOVABLE) - {one.value for one in UnremovableReason} == {"NoNodeInfo"}


def test_types_labels_and_buckets_are_those_of_cluster_autoscaler() -> None:
    ours = {one.name: one for one in TABLE}
    assert THEIRS.keys() <= ours.keys()
    for name, theirs in THEIRS.items():
        one = ours[name]
        assert (name, one.kind, tuple(one.labels), one.buckets) == (
            name,
            theirs.kind,
            tuple(theirs.labels),
            theirs.buckets,
        )
    asked_for = {one.name for one in TABLE if one.when is not MetricCondition.ALWAYS}
    assert {name for name in THEIRS if name.startswith("node_group_")} <= asked_for
