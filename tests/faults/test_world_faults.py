"""The whole loop against a live cluster, in virtual time, while things go wrong in the middle of a drain."""

from collections.abc import Iterator

import pytest

from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.recorded_cloud import CloudVerb
from autoscaler.simulator.world import World
from cloudprovider.interface import ProviderError, Transient
from cloudprovider.static.spec import Call
from tests.worlds import a_cloud, a_deployment, a_group, a_world, nodes, running, tainted, targets

GRACE_S = 60.0
SLOW_TO_STOP = Timing(stop_s=GRACE_S)


def half_used(timing: Timing = SLOW_TO_STOP) -> World:
    """Two machines with one replica each: either could hold both, so one of the machines will go."""
    app = a_deployment(replicas=2, terminationGracePeriodSeconds=int(GRACE_S))
    cloud = a_cloud(a_group(min_size=1), machines={"web": 2})
    return a_world(cloud, app, timing=timing, max_graceful_termination_sec=int(GRACE_S) + 30)


@pytest.fixture
def world() -> Iterator[World]:
    """A drain that has evicted its pod, which takes a minute to stop."""
    with half_used() as world:
        assert world.run_until(lambda: evictions(world) == 1, timeout_s=300)
        yield world


def evictions(world: World) -> int:
    return world.api.requests.count("create", "pods", "eviction")


def deletes(world: World) -> list[tuple[int, str | None]]:
    """Change of the target and error of each call that was to delete machines."""
    return [(call.delta, call.error) for call in world.calls if call.verb is CloudVerb.DELETE]


def leaves_one_node(world: World) -> bool:
    """Whether the cluster comes to rest on one machine with both replicas on it."""
    world.run_for(1200)
    return (targets(world), len(nodes(world)), running(world, "app"), tainted(world)) == ({"web": 1}, 1, 2, [])


def test_undisturbed_a_drain_moves_the_pod_and_removes_the_machine(world: World) -> None:
    assert leaves_one_node(world)
    assert (deletes(world), evictions(world)) == ([(-1, None)], 1)


class TestApiServerDown:
    def test_for_five_minutes_deletes_nothing_meanwhile_and_no_more_than_needed_later(self, world: World) -> None:
        world.disconnect_api(300)
        world.run_for(299)
        assert (deletes(world), targets(world)) == ([], {"web": 2})
        assert leaves_one_node(world)
        assert deletes(world) == [(-1, None)]

    def test_right_after_the_taint_is_survived(self) -> None:
        with half_used() as world:
            assert world.run_until(lambda: bool(tainted(world)), timeout_s=300)
            world.disconnect_api(300)
            world.run_for(290)
            assert (evictions(world), deletes(world)) == (0, [])
            assert leaves_one_node(world)


class TestLeadershipLost:
    def test_stops_the_drain_and_the_next_leader_gives_the_node_back(self, world: World) -> None:
        world.lose_leadership(600)
        world.run_for(599)
        assert (deletes(world), len(tainted(world)), targets(world)) == ([], 1, {"web": 2})
        world.run_until(lambda: world.replica is not None and not tainted(world), timeout_s=30)
        assert tainted(world) == []
        assert leaves_one_node(world)
        assert deletes(world) == [(-1, None)]

    def test_before_the_eviction_evicts_nothing(self) -> None:
        with half_used() as world:
            assert world.run_until(lambda: bool(tainted(world)), timeout_s=300)
            world.lose_leadership(600)
            world.run_for(599)
            assert (evictions(world), running(world, "app")) == (0, 2)


@pytest.mark.parametrize("after_s", [0.0, 120.0], ids=["at once", "after two minutes"])
def test_a_restart_in_the_middle_loses_nothing(world: World, after_s: float) -> None:
    world.restart(after_s)
    assert leaves_one_node(world)
    assert deletes(world) == [(-1, None)]


def test_the_next_leader_removes_at_once_what_the_killed_one_had_begun_to_remove() -> None:
    cloud = a_cloud(a_group(delete_s=60), machines={"web": 9})
    with a_world(cloud, a_deployment()) as world:
        assert world.run_until(lambda: len(tainted(world)) == 8, timeout_s=300)
        world.restart(20)
        assert targets(world) == {"web": 9}
        assert world.run_until(lambda: targets(world) == {"web": 1}, timeout_s=60), "without two minutes unneeded again"


def test_the_fast_profile_drains_side_by_side() -> None:
    def drain_s(profile: str) -> float:
        apps = [a_deployment(f"app{number}", 6, cpu="300m") for number in range(6)]
        cloud = a_cloud(a_group(max_size=20), machines={"web": 18})
        with a_world(cloud, *apps, scale_down_profile=profile) as world:
            assert world.run_until(lambda: bool(tainted(world)), timeout_s=300)
            began = world.clock.now().mono
            assert world.run_until(lambda: len(nodes(world)) < 10, timeout_s=1800)
            ended = world.clock.now().mono
            world.run_for(300)
            assert sum(running(world, f"app{number}") for number in range(6)) == 36
            return ended - began

    assert drain_s("fast") < drain_s("careful") / 2


def test_a_node_that_vanishes_is_not_deleted_twice(world: World) -> None:
    (name,) = tainted(world)
    world.cloud.remove_machine(f"static://{name}", replace=False)
    world.run_for(600)
    assert (deletes(world), targets(world), nodes(world)) == (
        [],
        {"web": 1},
        [n for n in ("web-m0", "web-m1") if n != name],
    )
    assert running(world, "app") == 2


def test_a_pod_that_never_stops_gives_the_node_back() -> None:
    with half_used(Timing(stop_s=1e6)) as world:
        for pod in world.storage.list("pods"):
            name = pod["metadata"]["name"]
            world.storage.patch("pods", name, {"metadata": {"finalizers": ["example.com/never"]}}, namespace="default")
        assert world.run_until(lambda: evictions(world) == 1, timeout_s=300)
        world.run_for(GRACE_S + 60)
        assert (deletes(world), tainted(world), targets(world)) == ([], [], {"web": 2})


@pytest.mark.parametrize(
    ("error", "takes_effect"),
    [
        pytest.param(ProviderError("protected"), False, id="refused"),
        pytest.param(Transient("time-out"), False, id="timed out in vain"),
        pytest.param(Transient("time-out"), True, id="timed out after it worked"),
    ],
)
def test_a_deletion_that_fails_is_tried_again_with_the_node_given_back(
    world: World, error: ProviderError, takes_effect: bool
) -> None:
    world.cloud.fail_next("web", error, Call.DELETE, takes_effect=takes_effect)
    assert leaves_one_node(world)
    assert sum(delta for delta, _ in deletes(world)) == -1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(code=429), id="429"),
        pytest.param(Fault(code=500), id="500"),
        pytest.param(Fault(drop=True), id="connection cut"),
        pytest.param(Fault(delay_s=60.0), id="time-out"),
    ],
)
@pytest.mark.parametrize("times", [2, 40], ids=["twice", "for longer than it is tried"])
def test_evictions_that_fail_delay_the_removal_and_no_more(fault: Fault, times: int) -> None:
    refused = Fault(
        verb="create", resource="pods", code=fault.code, drop=fault.drop, delay_s=fault.delay_s, times=times
    )
    with half_used() as world:
        world.api.faults.add(refused)
        assert leaves_one_node(world)
        assert deletes(world) == [(-1, None)]


@pytest.mark.parametrize("seconds", [3600.0, -3600.0], ids=["forward", "back"])
def test_a_wall_clock_that_jumps_hurries_nothing(world: World, seconds: float) -> None:
    world.jump_clock(seconds)
    world.run_for(GRACE_S / 2)
    assert (deletes(world), targets(world)) == ([], {"web": 2})
    assert leaves_one_node(world)
