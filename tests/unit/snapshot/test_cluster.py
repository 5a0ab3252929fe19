import gc
import random
import weakref
from collections.abc import Iterable

import numpy as np
import pytest

from autoscaler.objects.meta import NEVER_KNOWN, UNDECODED
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.snapshot.cluster import ClusterBuilder, ClusterView, Related, view_of
from autoscaler.snapshot.groups import Groups
from tests.builders import a_group, a_node, a_pod, replicas
from tests.seeds import seeds

NOTHING = Related()
NO_GROUPS = Groups()


def a_builder(nodes: Iterable[Node] = (), pods: Iterable[Pod] = ()) -> ClusterBuilder:
    builder = ClusterBuilder(expendable_below=-10)
    for node in nodes:
        builder.node_changed(None, node)
    for pod in pods:
        builder.pod_changed(None, pod)
    return builder


def some_nodes(count: int) -> list[Node]:
    return [a_node(f"node-{number}") for number in range(count)]


def seen(builder: ClusterBuilder) -> ClusterView:
    return builder.view(NO_GROUPS, NOTHING)


def meaning(view: ClusterView) -> dict[str, object]:
    """What a view says, free of the numbers that only make sense with its own vocabulary."""
    columns = view.columns
    columns.widen()
    rows = columns.vocabulary.rows.items()
    by_name = {row: dict(zip(view.positions, columns.used[at].tolist(), strict=True)) for row, at in rows}
    on_nodes = [
        (view.nodes[node].name, view.classes[cls].key)
        for node, cls in zip(view.pod_nodes.tolist(), view.pod_classes.tolist(), strict=True)
    ]
    return {
        "nodes": view.nodes,
        "positions": view.positions,
        "pods": [sorted(pods, key=lambda pod: pod.key) for pods in view.pods],
        "pending": sorted(view.pending, key=lambda pod: pod.key),
        "terminating": sorted(view.terminating, key=lambda pod: pod.key),
        "used": {row: used for row, used in by_name.items() if any(used.values())},
        "allocatable": {row: columns.allocatable[at].tolist() for row, at in rows if columns.allocatable[at].any()},
        "on nodes": sorted(on_nodes),
        "cordoned": columns.cordoned.tolist(),
        "taints": [columns.vocabulary.taints[code] for code in columns.taint_codes.tolist()],
        "zones": [node.labels.get("zone") for node in view.nodes],
        "zone codes agree": _agree(columns.labels("zone").tolist(), [node.labels.get("zone") for node in view.nodes]),
    }


def _agree(codes: list[int], values: list[str | None]) -> bool:
    pairs = set(zip(codes, values, strict=True))
    return len(pairs) == len(set(codes)) == len(set(values))


def test_a_view_tells_nodes_and_the_pods_on_them() -> None:
    one, waiting = a_pod("one", node="n1"), a_pod("waiting")
    groups = Groups((a_group(),))
    view = view_of([a_node("n0"), a_node("n1")], [one, waiting], groups=groups)
    assert view.node("n1") is view.nodes[1]
    assert (view.pods_on("n1"), view.pods_on("n0"), view.pending) == ((one,), (), (waiting,))
    assert (view.node("gone"), view.pods_on("gone")) == (None, ())
    assert view.groups is groups


@pytest.mark.parametrize(
    ("pod", "where"),
    [
        pytest.param(a_pod(node="n"), "placed", id="a running pod"),
        pytest.param(a_pod(node="n", phase="Pending"), "placed", id="a pod that is about to start"),
        pytest.param(a_pod(), "pending", id="a pod without a node"),
        pytest.param(a_pod(node="n", phase="Succeeded"), "nowhere", id="a pod that has succeeded"),
        pytest.param(a_pod(node="n", phase="Failed"), "nowhere", id="a pod that has failed"),
        pytest.param(a_pod(phase="Failed"), "nowhere", id="a pod that failed before it had a node"),
        pytest.param(a_pod(node="n", priority=-11), "nowhere", id="an expendable pod: its room counts as free"),
        pytest.param(a_pod(priority=-11), "pending", id="an expendable pod without a node: somebody will tell why"),
        pytest.param(a_pod(node="n", priority=-10), "placed", id="a pod at the cut-off"),
        pytest.param(a_pod(node="gone"), "nowhere", id="a pod of an unknown node"),
        pytest.param(a_pod(node="n", deleted=9.0), "placed, terminating", id="a pod that is being deleted"),
    ],
)
def test_where_a_pod_shows_up(pod: Pod, where: str) -> None:
    view = view_of([a_node("n")], [pod])
    found = [name for name, pods in {"placed": view.pods[0], "pending": view.pending}.items() if pod in pods]
    found += ["terminating"] if pod in view.terminating else []
    assert (", ".join(found) or "nowhere") == where
    assert int(view.columns.used[view.columns.vocabulary.rows["pods"], 0]) == len(view.pods[0])


def test_pods_wait_for_their_node() -> None:
    pod = a_pod(node="late", cpu="1")
    builder = a_builder([a_node("n")], [pod])
    assert seen(builder).pods_on("late") == ()
    builder.node_changed(None, a_node("late"))
    assert seen(builder).pods_on("late") == (pod,)
    assert seen(builder).columns.used[0].tolist() == [0, 1000]


def test_a_node_that_comes_back_has_its_pods_again() -> None:
    pod, node = a_pod(node="n"), a_node("n")
    builder = a_builder([node], [pod])
    seen(builder)
    builder.node_changed(node, None)
    assert seen(builder).nodes == ()
    builder.node_changed(None, node)
    assert seen(builder).pods_on("n") == (pod,)


def test_a_pod_of_the_same_name_that_is_not_being_deleted_any_more() -> None:
    going = a_pod(node="n", deleted=9.0)
    back = a_pod(node="n")
    builder = a_builder([a_node("n")], [going])
    assert seen(builder).terminating == (going,)
    builder.pod_changed(going, back)
    assert seen(builder).terminating == ()


def test_a_heartbeat_shows_the_new_conditions_and_rebuilds_no_column() -> None:
    old, new = a_node("n", since=1.0), a_node("n", since=2.0, ready=False)
    builder = a_builder([old], [a_pod(node="n")])
    before = seen(builder)
    builder.node_changed(old, new)
    after = seen(builder)
    assert (before.nodes, after.nodes) == ((old,), (new,))
    assert after.columns is before.columns


def test_nothing_changed_nothing_is_rebuilt() -> None:
    builder = a_builder(some_nodes(8), replicas(a_pod(node="node-0"), 3))
    before = seen(builder)
    after = builder.view(Groups((a_group(),)), NOTHING)
    assert after.columns is before.columns
    assert after.pods is before.pods
    assert after.groups.all[0].id == "group"


def test_only_what_a_pod_touched_is_recounted() -> None:
    builder = a_builder(some_nodes(8), replicas(a_pod(node="node-0", cpu="1"), 3))
    before = seen(builder)
    builder.pod_changed(None, a_pod("new", node="node-7", cpu="2"))
    after = seen(builder)
    assert after.pods[0] is before.pods[0]
    assert after.columns.allocatable is before.columns.allocatable
    assert after.columns.used[0].tolist() == [3000, 0, 0, 0, 0, 0, 0, 2000]


def test_classes_without_pods_are_forgotten_in_time() -> None:
    decoder = PodInterner().decoder()
    builder = a_builder(some_nodes(20))
    first: weakref.ref[object] | None = None
    for number in range(2000):
        job = decoder.one({"metadata": {"name": "job", "labels": {"n": str(number)}}, "spec": {"nodeName": "node-0"}})
        first = first or weakref.ref(job.cls)
        builder.pod_changed(None, job)
        view = seen(builder)
        builder.pod_changed(job, None)
        assert len(view.classes) < 600
    del view, job
    gc.collect()
    assert first is not None
    assert first() is None


def test_host_names_of_nodes_that_are_gone_are_forgotten_in_time() -> None:
    builder = a_builder()
    for number in range(3000):
        node = a_node(f"n{number}")
        builder.node_changed(None, node)
        view = seen(builder)
        view.columns.labels("kubernetes.io/hostname")
        builder.node_changed(node, None)
    assert len(view.columns.vocabulary.values["kubernetes.io/hostname"]) < 2000


class ChangingCluster:
    """Nodes and pods as the API server has them, and a builder that is told of every change."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.builder = ClusterBuilder(expendable_below=-10)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}

    def change(self) -> None:
        self.random.choice((self.node, self.pod, self.pod, self.pod))()

    def node(self) -> None:
        name = f"n{self.random.randrange(12)}"
        old = self.nodes.get(name)
        if old is None:
            new: Node | None = a_node(name, labels={"zone": self.random.choice("ab")})
        else:
            new = self.random.choice((self.heartbeat, self.reshaped, lambda _: None))(old)
        if new is None:
            del self.nodes[name]
        else:
            self.nodes[name] = new
        self.builder.node_changed(old, new)

    def heartbeat(self, node: Node) -> Node:
        return a_node(node.name, labels={"zone": node.labels["zone"]}, since=self.random.randrange(100))

    def reshaped(self, node: Node) -> Node:
        return a_node(
            node.name,
            cpu=self.random.choice("24"),
            labels={"zone": self.random.choice("abc")},
            taints=self.random.choice(([], ["gpu"])),
            cordoned=self.random.random() < 0.3,
            extra=self.random.choice((None, {"example.com/x": "1"})),
        )

    def pod(self) -> None:
        name = f"p{self.random.randrange(25)}"
        old = self.pods.pop(f"default/{name}", None)
        if old is None or self.random.random() < 0.7:
            new = a_pod(
                name,
                cpu=self.random.choice((None, "1", "2")),
                requests=self.random.choice((None, None, {"example.com/y": "1"})),
                node=self.random.choice((None, old.node if old else None, f"n{self.random.randrange(12)}")),
                priority=self.random.choice((None, 5, -20)),
                phase=self.random.choice((None, None, None, "Succeeded")),
                deleted=self.random.choice((None, None, 9.0)),
            )
            self.pods[new.key] = new
            self.builder.pod_changed(old, new)
        else:
            self.builder.pod_changed(old, None)


@pytest.mark.parametrize("seed", seeds(30))
def test_following_changes_gives_what_starting_afresh_gives_and_leaves_earlier_views_alone(seed: int) -> None:
    world = ChangingCluster(seed)
    history: list[tuple[ClusterView, dict[str, object]]] = []
    for _ in range(25):
        for _ in range(world.random.choice((0, 1, 1, 2, 10))):
            world.change()
        view = seen(world.builder)
        found = meaning(view)
        assert found == meaning(view_of(world.nodes.values(), world.pods.values()))
        history.append((view, found))
    for view, found in history:
        assert meaning(view) == found


def test_columns_of_a_view_are_numbers_of_the_engine() -> None:
    view = view_of([a_node("n", cpu="1500m")], [a_pod(node="n", cpu="250m")])
    assert view.columns.allocatable.dtype == np.int64
    assert (view.columns.allocatable[0, 0], view.columns.used[0, 0]) == (1500, 250)
    assert (view.pod_nodes.tolist(), view.pod_classes.tolist()) == ([0], [0])


def test_a_pod_of_which_nothing_is_known_takes_all_room_of_its_node_and_no_more() -> None:
    odd = a_pod("odd", node="node-1", annotations={UNDECODED: NEVER_KNOWN})
    builder = a_builder(some_nodes(6), [odd, a_pod("web", cpu="1", node="node-2")])

    def free() -> list[bool]:
        columns = seen(builder).columns
        return [bool(column.any()) for column in (columns.allocatable - columns.used).T]

    others = [True, False, True, True, True, True]
    assert free() == others
    builder.pod_changed(None, a_pod("web-2", cpu="1", node="node-1"))
    assert free()[0] == others[0]
    assert not (seen(builder).columns.allocatable - seen(builder).columns.used)[0, 1] > 0
    builder.pod_changed(odd, None)
    assert all(free())
