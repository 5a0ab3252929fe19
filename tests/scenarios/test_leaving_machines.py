"""Machines that leave as announced, in virtual time: capacity is bought at once, and pods are away in time."""

import contextlib
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from autoscaler.reasons import ReplacementHold
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.recorded_cloud import CloudVerb
from autoscaler.scaledown.notices import NOTICE, annotation_of
from autoscaler.simulator.world import World
from cloudprovider.interface import NotFound, NoticeKind
from tests.worlds import (
    a_budget,
    a_cloud,
    a_daemon_set,
    a_deployment,
    a_group,
    a_world,
    nodes,
    running,
    tainted,
    targets,
)

ITN = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule", "value": "c3f1"}
SPOT = NoticeKind.SPOT_INTERRUPTION


def pods_on(world: World, node: str) -> list[str]:
    """Return the pods on a node, those of DaemonSets left out."""
    return [
        pod["metadata"]["name"]
        for pod in world.storage.list("pods")
        if pod["spec"].get("nodeName") == node and pod["metadata"]["ownerReferences"][0]["kind"] != "DaemonSet"
    ]


def change(world: World, node: str, patch: Mapping[str, object]) -> None:
    """Change a node."""
    world.storage.patch("nodes", node, patch)
    world.at(0.0, lambda: None)


def taint(world: World, node: str) -> None:
    """Let the node termination handler announce an interruption."""
    spec = next(one["spec"] for one in world.storage.list("nodes") if one["metadata"]["name"] == node)
    change(world, node, {"spec": {"taints": [*spec.get("taints", []), ITN]}})


def annotate(world: World, node: str, kind: NoticeKind, in_s: float | None = None) -> None:
    """Write what a cloud said of a node."""
    deadline = None if in_s is None else world.clock.now().wall + in_s
    change(world, node, {"metadata": {"annotations": {NOTICE: annotation_of(kind, deadline)}}})


def take_back(world: World, node: str) -> int:
    """Take a machine away; return how many pods were still on it."""
    left = len(pods_on(world, node)) if node in nodes(world) else 0
    with contextlib.suppress(NotFound):
        world.cloud.remove_machine(f"static://{node}")
    return left


def bought(world: World) -> list[tuple[str, int, float]]:
    """Return group, number and time of what was bought."""
    return [(call.group, call.delta, call.at_s) for call in world.calls if call.verb is CloudVerb.INCREASE]


def a_settled_world(machines: int = 3, replicas: int = 9, **options: Any) -> World:
    """Return a world whose nodes are full of pods."""
    options.setdefault("node_notices", "spot-interruption")
    world = a_world(
        a_cloud(a_group(max_size=300), machines={"web": machines}),
        a_deployment(replicas=replicas, terminationGracePeriodSeconds=30),
        a_daemon_set(),
        timing=Timing(stop_s=25.0),
        **options,
    )
    assert world.run_until(lambda: running(world, "app") == replicas)
    world.run_for(60)
    return world


def test_a_node_is_replaced_in_the_pass_that_sees_its_notice_and_is_empty_in_time() -> None:
    with a_settled_world() as world:
        world.at(0.0, lambda: taint(world, "web-m0"))
        began = world.elapsed_s
        assert world.run_until(lambda: "web-m0" in tainted(world), timeout_s=30)
        assert [(group, count) for group, count, _ in bought(world)] == [("web", 1)]
        assert world.run_until(lambda: not pods_on(world, "web-m0"), timeout_s=110 - (world.elapsed_s - began))
        world.run_for(300)
        assert (running(world, "app"), targets(world), len(nodes(world))) == (9, {"web": 3}, 3)
        assert "web-m0" not in nodes(world)


def test_by_default_a_notice_changes_nothing() -> None:
    with a_settled_world(node_notices="") as world:
        annotate(world, "web-m0", SPOT, 120)
        world.run_for(120)
        assert (bought(world), tainted(world), len(pods_on(world, "web-m0"))) == ([], [], 3)


def test_a_kind_that_was_not_chosen_changes_nothing() -> None:
    with a_settled_world() as world:
        annotate(world, "web-m0", NoticeKind.REBALANCE_RECOMMENDATION)
        world.run_for(120)
        assert (bought(world), tainted(world)) == ([], [])


def test_an_advice_replaces_gently_new_nodes_come_first() -> None:
    with a_settled_world(node_notices="rebalance-recommendation") as world:
        annotate(world, "web-m0", NoticeKind.REBALANCE_RECOMMENDATION)
        assert world.run_until(lambda: bool(bought(world)), timeout_s=60)
        assert tainted(world) == []
        assert world.run_until(lambda: "web-m0" in tainted(world), timeout_s=300)
        assert len([name for name in nodes(world) if name != "web-m0"]) == 3, "the new node is there"
        world.run_for(300)
        assert (running(world, "app"), targets(world)) == (9, {"web": 3})
        assert world.reports[-1].replacements.all == ()


def test_a_notice_is_urgent_even_if_the_pass_grew_and_no_replacement_may_begin() -> None:
    with a_settled_world(max_replacements=1) as world:
        world.scale("app", 30)
        for name in ("web-m0", "web-m1"):
            taint(world, name)
        assert world.run_until(lambda: {"web-m0", "web-m1"} <= set(tainted(world)), timeout_s=30)
        world.run_for(400)
        assert running(world, "app") == 30
        assert not {"web-m0", "web-m1"} & set(nodes(world))


def test_a_group_that_cannot_grow_does_not_keep_pods_on_a_machine_that_leaves() -> None:
    cloud = a_cloud(a_group(min_size=2, max_size=2), machines={"web": 2})
    with a_world(cloud, a_deployment(replicas=6), node_notices="spot-interruption") as world:
        assert world.run_until(lambda: running(world, "app") == 6)
        annotate(world, "web-m0", SPOT, 120)
        world.run_for(60)
        assert (pods_on(world, "web-m0"), tainted(world)) == ([], ["web-m0"])
        assert take_back(world, "web-m0") == 0
        world.run_for(300)
        assert (running(world, "app"), len(nodes(world))) == (6, 2), "the group has replaced it by itself"


def test_a_notice_that_is_withdrawn_returns_the_node_to_service() -> None:
    budget = a_budget("app", minAvailable=9)
    with a_settled_world() as world:
        world.apply(budget)
        world.run_for(30)
        annotate(world, "web-m0", SPOT, 600)
        world.run_for(60)
        assert tainted(world) == ["web-m0"]
        assert len(pods_on(world, "web-m0")) == 3, "the budget is honoured"
        change(world, "web-m0", {"metadata": {"annotations": {NOTICE: None}}})
        world.run_for(60)
        assert tainted(world) == []
        assert "web-m0" in nodes(world)
        assert running(world, "app") == 9


def test_a_machine_that_stays_is_in_service_again_and_left_alone() -> None:
    with a_settled_world() as world:
        world.apply(a_budget("app", minAvailable=9))
        taint(world, "web-m0")
        world.run_for(400)
        assert tainted(world) == []
        ended = [report for report in world.reports if report.replacements.held.get("web-m0")]
        assert ended[-1].replacements.held["web-m0"].hold is ReplacementHold.OUTLIVED
        assert len(pods_on(world, "web-m0")) == 3


def test_nodes_of_others_are_left_alone() -> None:
    with a_settled_world() as world:
        foreign = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "foreign", "annotations": {NOTICE: "spot-interruption"}},
            "spec": {"providerID": "other://foreign"},
        }
        world.apply(foreign)
        world.run_for(100)
        assert (bought(world), tainted(world)) == ([], [])


@pytest.mark.parametrize("disturb", ["none", "restart", "leader"])
@pytest.mark.parametrize("seed", range(1))
def test_two_hundred_notices_leave_hardly_a_pod_behind(seed: int, disturb: str) -> None:
    """Storms of interruptions over a world of mixed workloads, with budgets and changes of the leader in between."""
    luck = random.Random(seed)
    apps = [
        a_deployment(
            f"app{number}",
            luck.randint(20, 60),
            cpu=luck.choice(["250m", "500m", "1"]),
            terminationGracePeriodSeconds=luck.choice([5, 30, 60, 300]),
        )
        for number in range(6)
    ]
    budgets = [a_budget(f"app{number}", maxUnavailable="25%") for number in (0, 1)]
    groups = [a_group("web", max_size=200), a_group("big", cpu="8", memory="32Gi", max_size=100)]
    cloud = a_cloud(*groups, machines={"web": 30, "big": 8}, seed=seed)
    options: dict[str, Any] = {"node_notices": "spot-interruption", "kube_client_qps": 50, "kube_client_burst": 100}
    with a_world(cloud, *apps, *budgets, seed=seed, timing=Timing(stop_s=20.0), **options) as world:
        world.run_for(240)
        noticed, all_pods, lost = 0, 0, 0

        def announce(name: str) -> None:
            nonlocal all_pods, noticed
            if name not in nodes(world):
                return
            noticed += 1
            all_pods += len(pods_on(world, name))
            if luck.random() < 0.5:
                taint(world, name)
            else:
                annotate(world, name, SPOT, 120)
            world.at(120.0, partial(conclude, name))

        def conclude(name: str) -> None:
            nonlocal lost
            lost += take_back(world, name)

        while noticed < 200:
            standing = [name for name in nodes(world) if name not in tainted(world)]
            for name in luck.sample(standing, min(len(standing) // 2, luck.randint(1, 20))):
                world.at(luck.uniform(0, 20), partial(announce, name))
            if disturb == "restart":
                world.at(luck.uniform(5, 60), lambda: world.restart(luck.uniform(1, 15)))
            elif disturb == "leader":
                world.at(luck.uniform(5, 60), lambda: world.lose_leadership(luck.uniform(1, 15)))
            world.run_for(180)
        world.run_for(300)
        assert all_pods > 200
        assert lost <= all_pods / 100, f"{lost} of {all_pods} pods were still there"
        wanted = sum(app["spec"]["replicas"] for app in apps)
        assert sum(running(world, f"app{number}") for number in range(6)) == wanted
