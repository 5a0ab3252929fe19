"""Gangs in virtual time: the scheduler starts them whole, and the autoscaler buys for them whole."""

from collections.abc import Mapping
from typing import Any

from autoscaler.objects.meta import JsonObject
from autoscaler.simulator.world import World
from tests.worlds import a_cloud, a_deployment, a_group, a_world, nodes, running, targets

ZONE = "topology.kubernetes.io/zone"


def a_gang(count: int, wanted: int, key: str = "") -> list[JsonObject]:
    """Return a Deployment whose pods start together, one on each node, and its PodGroup."""
    constraints: Mapping[str, Any] = {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "job", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": wanted}}, **constraints},
        },
        a_deployment("train", count, cpu="3", schedulingGroup={"podGroupName": "job"}),
    ]


def never_in_part(world: World, seconds: int, wanted: int) -> int:
    """Run a world; return how many pods of the gang run in the end, and check that never fewer than wanted did."""
    for _ in range(seconds // 10):
        world.run_for(10)
        bound = sum("nodeName" in pod["spec"] for pod in world.storage.list("pods") if "train" in str(pod["metadata"]))
        assert bound == 0 or bound >= wanted
    return running(world, "train")


def test_a_gang_starts_once_all_its_nodes_are_there() -> None:
    world = a_world(a_cloud(a_group("a", max_size=3), a_group("b", max_size=5, boot=(120, 120))), *a_gang(5, 5))
    assert never_in_part(world, 400, 5) == 5
    assert sum(targets(world).values()) == 5


def test_nothing_is_bought_for_a_gang_that_does_not_fit() -> None:
    world = a_world(a_cloud(a_group("a", max_size=3)), *a_gang(5, 5))
    assert never_in_part(world, 300, 5) == 0
    assert (targets(world), nodes(world)) == ({"a": 0}, [])


def test_a_gang_runs_in_the_cheaper_zone_that_holds_it() -> None:
    groups = [
        a_group(zone, max_size=size, price=price, labels={ZONE: zone})
        for zone, size, price in (("a", 5, 3.0), ("b", 5, 2.0), ("c", 4, 1.0))
    ]
    world = a_world(a_cloud(*groups), *a_gang(5, 5, ZONE), expander="cost")
    assert never_in_part(world, 300, 5) == 5
    assert targets(world) == {"a": 0, "b": 5, "c": 0}


def test_machines_without_a_use_are_given_back_when_the_others_never_come() -> None:
    groups = (a_group("a", max_size=3, boot=(200, 200)), a_group("b", max_size=5, stock=0))
    world = a_world(a_cloud(*groups), *a_gang(5, 5))
    assert never_in_part(world, 120, 5) == 0
    assert targets(world) == {"a": 0, "b": 0}


def test_nodes_that_came_for_a_gang_in_vain_are_scaled_down() -> None:
    groups = (a_group("a", max_size=3, boot=(20, 20)), a_group("b", max_size=2, boot=(5000, 5000)))
    options: Any = {
        "max_node_provision_time": "3m",
        "scale_down_unneeded_time": "1m",
        "scale_down_delay_after_add": "1m",
    }
    world = a_world(a_cloud(*groups), *a_gang(5, 5), **options)
    world.run_for(150)
    assert targets(world) == {"a": 3, "b": 2}
    assert never_in_part(world, 250, 5) == 0
    assert targets(world) == {"a": 0, "b": 0}
