"""Hours in which nodes fall ill: what is repaired, what the guard holds back, and what becomes of budgets."""

import math
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from autoscaler.objects.meta import JsonObject
from autoscaler.reasons import ReplacementTrigger
from autoscaler.simulator.world import World
from tests.worlds import a_budget, a_cloud, a_deployment, a_group, a_world, nodes, running, tainted

POLL_S = 5.0
SHARE = 0.2
ILLS = (("Ready", "Unknown"), ("KernelDeadlock", "True"))


def ill(world: World) -> set[str]:
    """Return the nodes that have an unhealthy condition."""
    return {
        node["metadata"]["name"]
        for node in world.storage.list("nodes")
        for condition in node["status"].get("conditions") or ()
        if (condition["type"], condition["status"]) in ILLS
    }


def lived(world: World, hours: float) -> Iterator[tuple[set[str], int, set[str]]]:
    """Let time go by; yield, every few seconds, who was ill before, of how many nodes, and who is tainted since."""
    known: set[str] = set()
    for _ in range(int(hours * 3600 / POLL_S)):
        sick, count = ill(world), len(nodes(world))
        world.run_for(POLL_S)
        fresh = set(tainted(world)) - known
        known |= fresh
        yield sick, count, fresh


def health(world: World, budget: str) -> tuple[int, int]:
    """Return how many pods of a budget are healthy, and how many should be."""
    (found,) = [one for one in world.storage.list("poddisruptionbudgets.policy") if one["metadata"]["name"] == budget]
    return found["status"]["currentHealthy"], found["status"]["desiredHealthy"]


def a_shop(*more: JsonObject, seed: int = 0, **options: Any) -> World:
    cloud = a_cloud(a_group(min_size=10, max_size=20, boot=(30.0, 60.0)), machines={"web": 10}, seed=seed)
    return a_world(
        cloud,
        a_deployment("shop", replicas=12, cpu="1500m"),
        *more,
        seed=seed,
        node_repair_policy=["Ready=Unknown;5m", "KernelDeadlock=True;5m"],
        max_node_repairs=2,
        **options,
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_budget_is_broken_and_the_guard_holds_however_nodes_fall_ill(seed: int) -> None:
    chance = random.Random(seed)
    with a_shop(a_budget("shop", minAvailable=10), seed=seed) as world:
        world.run_for(120)
        for moment in range(0, 7200, 1200):
            number, kind, lasts_s = chance.choice([1, 1, 2, 3]), chance.choice(ILLS), chance.choice([120.0, 1150.0])
            world.at(moment, partial(fall_ill, world, chance.random(), number, kind, lasts_s))
        repaired = 0
        for sick, count, fresh in lived(world, 2.5):
            healthy, wanted = health(world, "shop")
            assert healthy >= wanted
            assert not fresh & sick or len(sick) <= math.ceil(SHARE * count)
            repaired += len(fresh & sick)
            started = [one for one in world.reports[-1].replacements.all if not one.over]
            assert sum(one.trigger is ReplacementTrigger.UNHEALTHY for one in started) <= 2
        assert repaired > 0


def fall_ill(world: World, where: float, number: int, kind: tuple[str, str], lasts_s: float) -> None:
    names = sorted(nodes(world))
    first = int(where * len(names))
    for name in (names * 2)[first : first + number]:
        world.set_condition(name, *kind)
        world.at(lasts_s, partial(recover, world, name, kind[0]))


def recover(world: World, name: str, condition: str) -> None:
    if name in nodes(world):
        world.set_condition(name, condition, "True" if condition == "Ready" else "False")


def test_a_dead_node_and_its_stateful_pod_are_up_again_within_minutes() -> None:
    """Nobody but repair ends the pod: it starts elsewhere once the machine is gone, and never twice."""
    with a_shop(a_set(), seed=1) as world:
        world.run_for(300)
        (pod,) = world.storage.list("pods", label_selector="app=db")
        dead = pod["spec"]["nodeName"]
        world.set_condition(dead, "Ready", "Unknown")
        world.run_for(299)
        assert dead in nodes(world)
        assert world.run_until(lambda: dead not in nodes(world), timeout_s=900)
        assert world.run_until(lambda: running(world, "db") == 1, timeout_s=300)
        (pod,) = world.storage.list("pods", label_selector="app=db")
        assert pod["spec"]["nodeName"] != dead


def a_set() -> JsonObject:
    """Return a StatefulSet of one pod that takes half a node."""
    pod = a_deployment("db", cpu="2")
    spec = {**pod["spec"], "serviceName": "db"}
    return {**pod, "kind": "StatefulSet", "spec": spec}


def test_a_budget_that_allows_nothing_is_overruled_only_for_the_reason_that_says_so() -> None:
    for grace, goes in (("expiry=1m;overrule", False), ("repair=1m;overrule", True)):
        with a_shop(a_budget("shop", maxUnavailable=0), drain_grace=[grace]) as world:
            world.run_for(300)
            (sick, *_) = [pod["spec"]["nodeName"] for pod in world.storage.list("pods", label_selector="app=shop")]
            world.set_condition(sick, "KernelDeadlock", "True")
            assert world.run_until(lambda sick=sick: sick not in nodes(world), timeout_s=1800) is goes  # type: ignore[misc]
            told = [event for event in world.events if event.reason == "DisruptionBudgetOverruled"]
            assert bool(told) is goes
            assert all("budget default/shop allows no more disruptions" in event.message for event in told)
            world.run_for(120)
            assert running(world, "shop") == 12
