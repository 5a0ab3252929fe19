"""The world of a scenario file, run by run."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from autoscaler.errors import Conflict, Gone
from autoscaler.kube.paths import ObjectRef
from autoscaler.objects.meta import unix_seconds
from autoscaler.objects.node import Node, Taint
from autoscaler.sandbox.recorded_cloud import CloudVerb
from autoscaler.scenario.codec import decode
from autoscaler.scenario.scenario import node_ref
from autoscaler.simulator.scenario_world import ScenarioWorld
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups
from cloudprovider.interface import NodeRef, Pricing, ProviderError
from tests.manifests import a_group, a_node, a_pod

NOW = "2026-01-05T12:00:00Z"
TAINT = Taint(key="ToBeDeleted", effect="NoSchedule", value="1")


def a_world(**fields: Any) -> ScenarioWorld:
    """Two nodes of a group with a pod each, one pod pending; three runs a minute apart."""
    document: dict[str, Any] = {
        "now": NOW,
        "runs": 3,
        "step": "1m",
        "nodeGroups": [a_group("web", targetSize=2)],
        "nodes": [a_node("n1"), a_node("n2")],
        "nodeToGroup": {"n1": "web", "n2": "web"},
        "pods": [a_pod("one", nodeName="n1"), a_pod("two", nodeName="n2"), a_pod("waiting")],
        **fields,
    }
    return ScenarioWorld(decode(json.dumps(document).encode(), "world.json"))


def seen(world: ScenarioWorld) -> ClusterView:
    return world.observe(groups_of(world))


def groups_of(world: ScenarioWorld) -> Callable[[Sequence[Node]], Groups]:
    def read(nodes: Sequence[Node]) -> Groups:
        owners = {node.name: world.cloud.group_of(node_ref(node)) for node in nodes}
        return Groups(of_node={name: group for name, group in owners.items() if group is not None})

    return read


def names(view: ClusterView) -> list[str]:
    return [node.name for node in view.nodes]


def ref(world: ScenarioWorld, node: str) -> NodeRef:
    return node_ref(world.cluster.nodes[node])


def test_the_first_view_is_the_file() -> None:
    world = a_world()
    world.begin_run(0)
    view = seen(world)
    assert names(view) == ["n1", "n2"]
    assert [pod.name for pod in view.pods_on("n1")] == ["one"]
    assert [pod.name for pod in view.pending] == ["waiting"]
    assert view.groups.of_node == {"n1": "web", "n2": "web"}
    assert [instance.provider_id for instance in world.cloud.groups()[0].instances()] == ["n1", "n2"]


def test_each_run_has_its_time_and_time_never_runs_back() -> None:
    world = a_world()
    start = unix_seconds(NOW)
    world.begin_run(0)
    assert world.clock.now().wall == start + 1
    world.clock.advance(100)
    world.begin_run(1)
    assert world.clock.now().wall == start + 101
    world.begin_run(2)
    assert world.clock.now().wall == start + 121


def test_an_increase_only_raises_the_target() -> None:
    world = a_world()
    world.begin_run(0)
    world.cloud.groups()[0].increase(2)
    world.begin_run(1)
    assert world.target_sizes() == {"web": 4}
    assert names(seen(world)) == ["n1", "n2"]
    assert len(world.cloud.groups()[0].instances()) == 2


def test_an_increase_beyond_the_maximum_fails_and_is_noted() -> None:
    world = a_world()
    world.begin_run(0)
    with pytest.raises(ProviderError):
        world.cloud.groups()[0].increase(4)
    (call,) = world.calls_of(0)
    assert (call.verb, call.delta) == (CloudVerb.INCREASE, 0)
    assert call.error is not None


def test_a_deleted_machine_is_gone_at_once_and_its_node_before_the_next_run() -> None:
    world = a_world()
    world.begin_run(0)
    seen(world)
    group = world.cloud.groups()[0]
    group.delete([ref(world, "n1")])
    assert world.target_sizes() == {"web": 1}
    assert [instance.provider_id for instance in group.instances()] == ["n2"]
    assert names(seen(world)) == ["n1", "n2"]
    world.begin_run(1)
    view = seen(world)
    assert names(view) == ["n2"]
    assert [pod.name for on_node in view.pods for pod in on_node] == ["two"]
    assert [pod.name for pod in view.pending] == ["waiting"]


def test_calls_belong_to_the_run_they_were_made_in_even_after_its_pass() -> None:
    world = a_world()
    world.begin_run(0)
    world.cloud.groups()[0].increase(1)
    world.clock.advance(5)
    world.cloud.groups()[0].delete([ref(world, "n2")])
    world.begin_run(1)
    world.cloud.groups()[0].decrease_target(1)
    world.finish()
    assert [(call.verb, call.delta) for call in world.calls_of(0)] == [(CloudVerb.INCREASE, 1), (CloudVerb.DELETE, -1)]
    assert [(call.verb, call.delta) for call in world.calls_of(1)] == [(CloudVerb.DECREASE_TARGET, -1)]


def test_deletions_after_the_last_run_still_take_effect() -> None:
    world = a_world(runs=1)
    world.begin_run(0)
    world.cloud.groups()[0].delete([ref(world, "n1")])
    world.finish()
    assert world.clock.now().wall == unix_seconds(NOW) + 121
    assert names(seen(world)) == ["n2"]


def test_taints_show_in_the_next_view_and_can_be_taken_back() -> None:
    world = a_world()
    world.begin_run(0)
    seen(world)
    assert world.writes.add_taint("n1", TAINT, cordon=True)
    assert not world.writes.add_taint("n1", TAINT, cordon=True)
    world.begin_run(1)
    node = seen(world).node("n1")
    assert node is not None
    assert (node.taints, node.unschedulable) == ((TAINT,), True)
    assert world.writes.remove_taint("n1", TAINT.key, uncordon=True)
    assert not world.writes.remove_taint("n1", TAINT.key)
    node = seen(world).node("n1")
    assert node is not None
    assert (node.taints, node.unschedulable) == ((), False)
    assert [record.verb for record in world.writes.log] == ["addTaint", "removeTaint"]


def test_a_node_that_is_not_there_cannot_be_tainted() -> None:
    world = a_world()
    with pytest.raises(Gone):
        world.writes.add_taint("n9", TAINT)
    assert not world.writes.remove_taint("n9", TAINT.key)


def test_an_evicted_pod_is_gone_and_not_recreated() -> None:
    world = a_world()
    world.begin_run(0)
    seen(world)
    world.writes.evict("default", "one", "default/one", None)
    view = seen(world)
    assert view.pods_on("n1") == ()
    assert [pod.name for pod in view.pending] == ["waiting"]
    with pytest.raises(Gone):
        world.writes.evict("default", "one", "default/one", None)


def test_a_pod_of_the_same_name_but_another_uid_is_not_evicted() -> None:
    world = a_world()
    with pytest.raises(Gone):
        world.writes.evict("default", "one", "other", None)
    assert "default/one" in world.cluster.pods


def test_annotations_are_set_and_removed() -> None:
    world = a_world()
    assert world.writes.annotate_node("n1", {"a": "1"})
    assert not world.writes.annotate_node("n1", {"a": "1"})
    assert world.writes.annotate_node("n1", {"a": None})
    assert dict(world.cluster.nodes["n1"].annotations) == {}


def test_other_objects_are_kept_as_they_come() -> None:
    world = a_world()
    world.writes.put_config_map("kube-system", "status", {"status": "one"}, {"note": "x"})
    world.writes.put_config_map("kube-system", "status", {"status": "two"})
    ref = ObjectRef("v1", "ConfigMap", "status", "kube-system")
    held = world.writes.objects[ref]
    assert held["data"] == {"status": "two"}
    assert held["metadata"]["annotations"] == {"note": "x"}
    with pytest.raises(Conflict):
        world.writes.create(held)
    world.writes.delete(ref)
    with pytest.raises(Gone):
        world.writes.delete(ref)


def test_a_node_object_is_deleted_with_its_pods() -> None:
    world = a_world()
    world.writes.delete(ObjectRef("v1", "Node", "n1"))
    assert "default/one" not in world.cluster.pods
    assert names(seen(world)) == ["n2"]


def test_changes_happen_before_their_run() -> None:
    updated = a_node("n2", unschedulable=True)
    change = {
        "beforeRun": 1,
        "addPods": [a_pod("late")],
        "removePods": ["default/one", "default/never-there"],
        "addNodes": [a_node("n3")],
        "nodeToGroup": {"n3": "web"},
        "updateNodes": [updated],
        "addInstances": [{"group": "web", "id": "i-9", "state": "creating"}],
    }
    world = a_world(changes=[change])
    world.begin_run(0)
    assert names(seen(world)) == ["n1", "n2"]
    world.begin_run(1)
    view = seen(world)
    assert names(view) == ["n1", "n2", "n3"]
    assert view.groups.of_node["n3"] == "web"
    assert [pod.name for pod in view.pending] == ["waiting", "late"]
    assert view.pods_on("n1") == ()
    node = view.node("n2")
    assert node is not None
    assert node.unschedulable
    assert [instance.provider_id for instance in world.cloud.groups()[0].instances()] == ["n1", "n2", "n3", "i-9"]
    assert world.target_sizes() == {"web": 2}


def test_an_instance_that_registers_later_stays_one_machine() -> None:
    world = a_world(
        instances=[{"group": "web", "id": "i-3", "state": "creating"}],
        changes=[
            {
                "beforeRun": 1,
                "addNodes": [a_node("n3", providerID="i-3")],
                "nodeToGroup": {"n3": "web"},
            }
        ],
    )
    world.begin_run(0)
    world.begin_run(1)
    assert sorted(instance.provider_id for instance in world.cloud.groups()[0].instances()) == ["i-3", "n1", "n2"]
    assert seen(world).groups.of_node["n3"] == "web"


def test_a_new_node_of_a_deleted_ones_name_stays() -> None:
    again = a_node("n1", providerID="another")
    world = a_world(changes=[{"beforeRun": 1, "addNodes": [again], "nodeToGroup": {"n1": "web"}}])
    world.begin_run(0)
    world.cloud.groups()[0].delete([ref(world, "n1")])
    world.begin_run(1)
    world.begin_run(2)
    assert sorted(names(seen(world))) == ["n1", "n2"]


def test_a_missing_machine_is_told_apart_from_one_that_is_there() -> None:
    world = a_world(missingInstances=["n2"])
    assert world.cloud.has_instance(ref(world, "n1"))
    assert not world.cloud.has_instance(ref(world, "n2"))
    assert world.cloud.group_of(ref(world, "n2")) == "web"


def test_running_expendable_pods_do_not_show() -> None:
    pods = [a_pod("cheap", nodeName="n1", priority=-20), a_pod("dear", nodeName="n1")]
    world = a_world(pods=pods)
    world.begin_run(0)
    assert [pod.name for pod in seen(world).pods_on("n1")] == ["dear"]


def test_the_cloud_has_prices_only_where_the_file_does() -> None:
    assert not isinstance(a_world().cloud, Pricing)
    priced = a_world(prices={"cpuPerHour": 2.0, "memoryGiBPerHour": 0, "gpuPerHour": 0}).cloud
    assert isinstance(priced, Pricing)
    assert priced.pod_price({"cpu": "500m"}, 2.0) == 2.0
