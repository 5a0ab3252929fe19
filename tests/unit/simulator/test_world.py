"""The world itself: one clock, the real loop, and the same result in every run."""

import os
import subprocess
import sys

import pytest

from autoscaler.config.load import from_options
from autoscaler.errors import RetryLater
from autoscaler.objects.node import Taint
from autoscaler.observe.report import PassReport
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.recorded_cloud import CloudVerb
from autoscaler.simulator.replica import SilentPassListener
from autoscaler.simulator.world import Attached, World
from tests.worlds import QUICK, a_cloud, a_deployment, a_group, a_world, nodes, pods_of, running, targets

RUN = """
from autoscaler.sandbox.apiserver.faults import Fault
from tests.worlds import *

cloud = a_cloud(a_group(), a_group("big", cpu="16", price=1.0), machines={"web": 2}, seed=3)
with a_world(cloud, a_deployment(replicas=9), a_budget("app", maxUnavailable="50%"), seed=5) as world:
    history = History(world)
    world.at(400, lambda: world.scale("app", 2))
    world.at(450, lambda: world.api.faults.add(Fault(resource="pods", verb="create", code=500, times=3)))
    world.at(900, lambda: world.lose_leadership(60))
    world.at(1500, lambda: world.scale("app", 30))
    world.at(1600, lambda: world.disconnect_api(120))
    world.run_for(5400)
    print(world.storage.revision, len(world.calls), len(world.events), history.digest())
"""


def test_two_runs_are_the_same_to_the_byte_whatever_the_hash_seed() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", RUN],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    revision, calls, events, _ = runs[0].split()
    assert (int(revision) > 300, int(calls) > 3, int(events) > 10) == (True, True, True)


def test_pods_that_fit_nowhere_get_machines() -> None:
    with a_world(a_cloud(a_group()), a_deployment(replicas=7)) as world:
        assert world.run_until(lambda: running(world, "app") == 7, timeout_s=120)
        assert targets(world) == {"web": 2}


def test_machines_that_nobody_needs_any_more_go() -> None:
    with a_world(a_cloud(a_group(min_size=1)), a_deployment(replicas=7)) as world:
        world.run_for(300)
        world.scale("app", 1)
        world.run_for(900)
        assert (targets(world), len(nodes(world)), running(world, "app")) == ({"web": 1}, 1, 1)


def test_passes_follow_each_other_at_the_scan_interval() -> None:
    with a_world(a_cloud(a_group()), scan_interval="20s") as world:
        world.run_for(100)
        assert [report.now.mono for report in world.reports] == [0, 20, 40, 60, 80, 100]


def test_a_pod_that_becomes_unschedulable_brings_the_next_pass_forward() -> None:
    with a_world(a_cloud(a_group()), scan_interval="60s", frequent_loops_enabled=True) as world:
        world.at(70, lambda: world.apply(a_deployment(replicas=1)))
        world.run_for(75)
        assert [round(report.now.mono) for report in world.reports][:3] == [0, 60, 70]


@pytest.mark.parametrize(
    ("arrives_s", "first"),
    [pytest.param(70.0, "NotNeeded", id="within the same second"), pytest.param(70.5, "InCooldown", id="a moment ago")],
)
def test_pods_too_new_to_be_helped_get_one_pass_as_soon_as_they_are_old_enough(arrives_s: float, first: str) -> None:
    with a_world(a_cloud(a_group()), scan_interval="60s", frequent_loops_enabled=True) as world:
        world.at(arrives_s, lambda: world.apply(a_deployment(replicas=3)))
        world.run_for(75)
        passes = [(round(report.now.mono, 1), report.scale_up.result) for report in world.reports]
        assert passes[2:4] == [(arrives_s, first), (72.0, "Successful")]


def test_time_in_which_nothing_happens_costs_only_passes() -> None:
    with a_world(a_cloud(a_group(), machines={"web": 1}), a_deployment(replicas=1)) as world:
        world.run_for(600)
        revision = world.storage.revision
        world.run_for(300)
        assert world.storage.revision - revision <= 2


def test_actions_happen_at_their_time_even_while_a_pass_waits_for_the_api() -> None:
    with a_world(a_cloud(a_group()), a_deployment(replicas=1)) as world:
        seen: list[float] = []
        for second in (7.25, 30.5):
            world.at(second, lambda: seen.append(world.elapsed_s))
        world.run_for(60)
        assert seen == [7.25, 30.5]


def test_waiting_for_a_condition_ends_at_once_or_in_time() -> None:
    with a_world(a_cloud(a_group())) as world:
        assert world.run_until(lambda: world.elapsed_s >= 30)
        assert world.elapsed_s == 30
        assert not world.run_until(lambda: False, timeout_s=10)
        assert world.elapsed_s == 40


def test_a_listener_hears_of_every_pass() -> None:
    class Listening(SilentPassListener):
        def __init__(self) -> None:
            self.heard: list[PassReport] = []

        def pass_ended(self, report: PassReport) -> None:
            self.heard.append(report)

    listener = Listening()
    with World(from_options(QUICK, ()), a_cloud(a_group()), attached=Attached(listener)) as world:
        world.run_for(60)
        assert listener.heard == list(world.reports)


class TestWatches:
    def test_that_are_late_bring_the_old_cluster(self) -> None:
        with a_world(a_cloud(a_group()), scan_interval="10s") as world:
            world.delay_watches(45)
            world.run_for(10)
            world.apply(a_deployment(replicas=1))
            world.run_for(40)
            assert targets(world) == {"web": 0}
            world.run_for(20)
            assert targets(world) == {"web": 1}

    def test_catch_up_after_an_outage_whatever_the_storage_forgot_meanwhile(self) -> None:
        with a_world(a_cloud(a_group()), scan_interval="10s") as world:
            world.run_for(10)
            world.disconnect_api(60)
            world.apply(a_deployment(replicas=1))
            world.run_for(40)
            world.storage.compact()
            assert targets(world) == {"web": 0}
            world.run_for(40)
            assert targets(world) == {"web": 1}


class TestWrites:
    def test_that_time_out_have_taken_effect(self) -> None:
        with a_world(a_cloud(a_group(), machines={"web": 1})) as world:
            assert world.replica is not None
            world.api.faults.add(Fault(verb="update", resource="nodes", delay_s=60, times=1))
            with pytest.raises(RetryLater, match="in time"):
                world.replica.writes.add_taint("web-m0", Taint("odd", "NoSchedule"))
            assert world.elapsed_s == 10
            assert any(taint["key"] == "odd" for taint in world.storage.get("nodes", "web-m0")["spec"]["taints"])

    def test_that_are_cut_off_have_not(self) -> None:
        with a_world(a_cloud(a_group(), machines={"web": 1})) as world:
            assert world.replica is not None
            world.disconnect_api(60)
            with pytest.raises(RetryLater, match="unreachable"):
                world.replica.writes.add_taint("web-m0", Taint("odd", "NoSchedule"))
            assert not world.storage.get("nodes", "web-m0")["spec"].get("taints")


class TestProcess:
    @pytest.mark.parametrize("gracefully", [True, False], ids=["after an orderly end", "after a crash"])
    def test_that_is_replaced_buys_nothing_twice(self, gracefully: bool) -> None:
        with a_world(a_cloud(a_group(boot=(60, 60))), a_deployment(replicas=7)) as world:
            world.run_until(lambda: bool(world.calls))
            world.restart(after_s=5, gracefully=gracefully)
            assert world.replica is None
            world.run_for(300)
            assert [(call.verb, call.delta) for call in world.calls] == [(CloudVerb.INCREASE, 2)]
            assert len(pods_of(world, "app")) == running(world, "app") == 7

    def test_without_the_lease_does_nothing_until_another_leads(self) -> None:
        with a_world(a_cloud(a_group()), a_deployment(replicas=1)) as world:
            world.lose_leadership(120)
            world.run_for(119)
            assert (world.passes, targets(world)) == (0, {"web": 0})
            world.run_for(61)
            assert targets(world) == {"web": 1}


@pytest.mark.parametrize("seconds", [3600.0, -3600.0], ids=["forward", "back"])
def test_a_clock_that_jumps_makes_nothing_due(seconds: float) -> None:
    with a_world(a_cloud(a_group(), machines={"web": 3}), a_deployment(replicas=9)) as world:
        world.run_for(300)
        world.scale("app", 3)
        world.run_for(90)
        world.jump_clock(seconds)
        world.run_for(15)
        assert (targets(world), world.reports[-1].error) == ({"web": 3}, "")
        world.run_for(600)
        assert targets(world) == {"web": 1}
