"""Consolidation in the simulated cluster, with a real scheduler that spreads pods: it settles, and then leaves be."""

from typing import Any

import pytest

from autoscaler.objects.meta import JsonObject
from autoscaler.simulator.world import World
from cloudprovider.static.spec import CloudSpec
from tests.worlds import a_budget, a_cloud, a_deployment, a_group, a_world, pods_of, running, targets

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
DEAR = (("big", "16", 1.0), ("mid", "8", 0.45), ("small", "4", 0.2))


def dear_cloud(**machines: int) -> CloudSpec:
    groups = [a_group(name, cpu=cpu, price=price) for name, cpu, price in DEAR]
    return a_cloud(*groups, machines=machines)


def consolidating(cloud: CloudSpec, *objects: JsonObject, **options: Any) -> World:
    return a_world(cloud, *objects, **{"consolidation": True, "scan_interval": "60s", **options})


def price(world: World) -> float:
    each = {name: price for name, _, price in DEAR}
    return sum(each[group] * size for group, size in targets(world).items())


def test_a_constant_workload_is_disturbed_until_it_has_settled_and_then_not_in_seven_days() -> None:
    objects = [
        a_deployment("app", replicas=8),
        a_deployment("web", replicas=3, cpu="2"),
        a_budget("app", minAvailable=6),
    ]
    with consolidating(dear_cloud(big=3), *objects, scan_interval="300s") as world:
        world.run_for(4 * HOUR_S)
        settled, calls, pods = (
            targets(world),
            len(world.calls),
            {pod["metadata"]["uid"] for pod in pods_of(world, "app")},
        )
        assert price(world) < 1.0
        assert (running(world, "app"), running(world, "web")) == (8, 3)
        world.run_for(7 * DAY_S)
        assert len(world.calls) == calls, world.calls[calls:]
        assert targets(world) == settled
        assert {pod["metadata"]["uid"] for pod in pods_of(world, "app")} == pods


def test_a_packing_that_the_scheduler_undoes_is_not_tried_again_and_again() -> None:
    """Four small nodes would do, packed tightly; the scheduler spreads, and scale-up brings a fifth."""
    sizes = (("g0", "2", "8Gi", 0.122), ("g1", "4", "32Gi", 0.288), ("g2", "16", "64Gi", 1.234))
    groups = [a_group(name, cpu=cpu, memory=memory, price=price) for name, cpu, memory, price in sizes]
    cloud = a_cloud(*groups, machines={"g1": 3, "g2": 1}, seed=2)
    apps = [
        a_deployment("app0", replicas=5, cpu="500m", memory="1024Mi"),
        a_deployment("app1", replicas=5, cpu="1000m", memory="3000Mi"),
    ]
    with consolidating(cloud, *apps, seed=2, scan_interval="120s") as world:
        world.run_for(4 * HOUR_S)
        calls = len(world.calls)
        assert targets(world) == {"g0": 5, "g1": 0, "g2": 0}
        world.run_for(DAY_S)
        assert len(world.calls) == calls, world.calls[calls:]
        assert (running(world, "app0"), running(world, "app1")) == (5, 5)


def test_pods_are_never_without_a_node_for_longer_than_a_boot() -> None:
    objects = [a_deployment("app", replicas=8), a_budget("app", maxUnavailable=2)]
    with consolidating(dear_cloud(big=2), *objects) as world:
        world.run_for(600)
        fewest = 8
        for _ in range(240):
            world.run_for(30)
            fewest = min(fewest, running(world, "app"))
        assert fewest >= 6
        assert price(world) < 1.0


@pytest.mark.parametrize("after_s", [5, 65, 90, 130, 200])
def test_a_process_that_is_killed_in_the_middle_is_continued_by_the_next(after_s: float) -> None:
    objects = [a_deployment("app", replicas=8)]
    with consolidating(dear_cloud(big=1), *objects, scan_interval="15s", consolidation_min_node_age="10m") as world:
        assert world.run_until(lambda: any(call.verb.value == "increase" for call in world.calls), timeout_s=HOUR_S)
        world.run_for(after_s)
        world.restart(after_s=20)
        world.run_for(HOUR_S)
        bought = sum(call.delta for call in world.calls if call.delta > 0)
        assert targets(world) == {"big": 0, "mid": 0, "small": bought}
        assert price(world) < 1.0
        assert running(world, "app") == 8


def test_a_stock_out_in_the_middle_leaves_everything_where_it_was() -> None:
    groups = [a_group("big", cpu="16", price=1.0), a_group("small", cpu="4", price=0.2, stock=0)]
    cloud = a_cloud(*groups, machines={"big": 1})
    with consolidating(cloud, a_deployment("app", replicas=8)) as world:
        world.run_for(DAY_S)
        assert targets(world) == {"big": 1, "small": 0}
        assert running(world, "app") == 8
        tries = sum(call.delta > 0 for call in world.calls)
        assert 1 <= tries <= 4
        assert {pod["spec"]["nodeName"] for pod in pods_of(world, "app")} == {"big-m0"}


def test_old_nodes_are_renewed_one_after_the_other() -> None:
    cloud = a_cloud(a_group("web", boot=(60.0, 60.0)), machines={"web": 3})
    objects = [a_deployment("app", replicas=9), a_budget("app", maxUnavailable=1)]
    with a_world(cloud, *objects, scan_interval="60s", max_node_age="24h") as world:
        world.run_for(DAY_S - 60)
        assert not world.calls
        world.run_for(3 * HOUR_S)
        deleted = sum(-call.delta for call in world.calls if call.delta < 0)
        assert deleted >= 3
        assert all(not name.startswith("web-m") for name in {pod["spec"]["nodeName"] for pod in pods_of(world, "app")})
        assert running(world, "app") == 9
