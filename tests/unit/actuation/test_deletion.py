from typing import Any

import pytest
from msgspec.structs import replace

from autoscaler.actuation.machine_deletion import call_s
from autoscaler.actuation.removal_outcome import AbortReason, RemovalOutcome
from autoscaler.config.process import Leader
from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import Drain
from autoscaler.config.syntax import DrainPriority
from autoscaler.errors import Conflict, Refused, RetryLater
from autoscaler.objects.node import TO_BE_DELETED, Taint
from autoscaler.reasons import RemovedAs
from cloudprovider.interface import ProviderError, Transient
from tests.unit.actuation.stage import START_WALL, DeletionStage

DELAY = {"delay-deletion.cluster-autoscaler.kubernetes.io/volumes": "x"}


class TestRefusedInAdvance:
    @pytest.mark.parametrize(
        ("refusal", "why"),
        [
            pytest.param(ProviderError("machines may not be updated"), AbortReason.REFUSED_AHEAD, id="refused"),
            pytest.param(Transient("no answer"), AbortReason.UNREADABLE, id="not to be asked now"),
        ],
    )
    @pytest.mark.parametrize("atomic", [False, True])
    def test_costs_no_eviction(self, refusal: ProviderError, why: AbortReason, atomic: bool) -> None:
        with DeletionStage() as stage:
            stage.add("web", "n1")
            stage.machines_port.refusal = refusal
            stage.start("n1", atomic=atomic)
            (finished,) = stage.run(60)
            assert (finished.outcome, finished.why, finished.rolled_back) == (RemovalOutcome.NOT_DELETED, why, True)
            assert stage.did("tryEvict") == []
            assert not stage.tainted("n1")
            assert stage.machines() == ["n1", "n2", "n3"]
            assert stage.events.about("Node/n1")[-1] == (
                f"ScaleDownFailed: failed to drain and delete node: {finished.message}"
            )

    def test_is_asked_after_the_taint_and_before_the_first_eviction(self) -> None:
        with DeletionStage() as stage:
            stage.add("web", "n1")
            stage.start("n1")
            stage.run(60)
            assert [node for _, node in stage.machines_port.asked_ahead] == ["n1"]
            assert 0 < stage.machines_port.asked_ahead[0][0] <= stage.did("tryEvict")[0][0]
            assert stage.machines() == ["n2", "n3"]


class TestEmptyNode:
    def test_goes_after_the_delay(self) -> None:
        with DeletionStage() as stage:
            started = stage.start("n1")
            assert [one.node.name for one in started.empty] == ["n1"]
            assert stage.cluster.nodes["n1"].taint(TO_BE_DELETED) == Taint(TO_BE_DELETED, "NoSchedule", "1700000000")
            assert stage.cluster.nodes["n1"].unschedulable
            assert stage.run(4.9) == []
            assert stage.machines() == ["n1", "n2", "n3"]
            assert stage.tracker.under_way().empty == {"g": ("n1",)}
            (finished,) = stage.run(5)
            assert (finished.outcome, finished.why, finished.at.mono) == (RemovalOutcome.DELETED, None, 5)
            assert stage.machines() == ["n2", "n3"]
            assert stage.tracker.under_way().nodes == frozenset()

    def test_is_announced(self) -> None:
        with DeletionStage() as stage:
            stage.start("n1")
            stage.run(5)
            assert stage.events.lines == [
                "Node/n1 ScaleDown: marked the node as toBeDeleted/unschedulable",
                'ConfigMap/status ScaleDownEmpty: Scale-down: removing empty node "n1"',
                "Node/n1 ScaleDown: nodes removed by cluster autoscaler",
                "ConfigMap/status ScaleDownEmpty: Scale-down: empty node n1 removed",
            ]
            assert stage.counts.removed == [("g", "n1", RemovedAs.EMPTY)]
            assert stage.counts.pending == [0]

    def test_stays_when_a_pod_landed_since_the_plan(self) -> None:
        with DeletionStage() as stage:
            stage.start("n1")
            stage.add("late", "n1")
            (finished,) = stage.run(5)
            assert (finished.outcome, finished.why) == (RemovalOutcome.NOT_DELETED, AbortReason.NEW_PODS)
            assert finished.rolled_back
            assert not stage.tainted("n1")
            assert not stage.cluster.nodes["n1"].unschedulable
            assert stage.events.about("Node/n1")[-1] == (
                "ScaleDownFailed: failed to delete empty node: new pods scheduled: default/late"
            )
            assert stage.counts.failed == [AbortReason.NEW_PODS]

    def test_goes_with_pods_that_have_run_to_their_end(self) -> None:
        with DeletionStage() as stage:
            stage.start("n1")
            stage.add("done", "n1", phase="Succeeded")
            assert [one.outcome for one in stage.run(5)] == [RemovalOutcome.DELETED]

    @pytest.mark.parametrize(
        ("config", "annotations", "evicted"),
        [
            pytest.param(Drain(), {}, [], id="daemon pods stay by default"),
            pytest.param(Drain(daemonset_eviction_for_empty_nodes=True), {}, ["d"], id="the flag evicts them"),
            pytest.param(
                Drain(),
                {"cluster-autoscaler.kubernetes.io/enable-ds-eviction": "true"},
                ["d"],
                id="an annotation evicts one",
            ),
            pytest.param(
                Drain(daemonset_eviction_for_empty_nodes=True),
                {"cluster-autoscaler.kubernetes.io/enable-ds-eviction": "false"},
                [],
                id="an annotation spares one",
            ),
        ],
    )
    def test_daemon_pods(self, config: Drain, annotations: dict[str, str], evicted: list[str]) -> None:
        with DeletionStage(config=config) as stage:
            stage.add("d", "n1", owner="DaemonSet/log", annotations=annotations)
            stage.start("n1")
            assert [one.outcome for one in stage.run(5)] == [RemovalOutcome.DELETED]
            assert [target for _, target in stage.did("evict")] == [f"default/{name}" for name in evicted]

    def test_daemon_pods_that_cannot_be_evicted_hold_it_for_ten_seconds_only(self) -> None:
        with DeletionStage(config=Drain(daemonset_eviction_for_empty_nodes=True)) as stage:
            for name in ("d", "e"):
                stage.add(name, "n1", owner="DaemonSet/log")
                stage.api.always[name] = RetryLater("busy")
            stage.start("n1")
            (finished,) = stage.run(60)
            assert (finished.outcome, finished.at.mono) == (RemovalOutcome.DELETED, 15)
            tries = stage.did("tryEvict")
            assert tries == [(second, f"default/{name}") for second in (5, 8, 11, 14, 15) for name in ("d", "e")]
            assert stage.counts.evicted == {True: 0, False: 0}


class TestRecheck:
    @pytest.mark.parametrize(
        ("change", "why", "tainted"),
        [
            pytest.param(
                {"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}},
                AbortReason.DISABLED,
                False,
                id="annotation set since the plan",
            ),
            pytest.param({"uid": "another"}, AbortReason.NODE_GONE, True, id="another node of the same name"),
            pytest.param({"taints": ()}, AbortReason.TAINT_LOST, False, id="taint removed by somebody"),
            pytest.param(
                {"taints": (Taint(TO_BE_DELETED, "NoSchedule", "17"),)},
                AbortReason.TAINT_LOST,
                True,
                id="taint of another",
            ),
        ],
    )
    def test_of_the_node(self, change: dict[str, Any], why: AbortReason, tainted: bool) -> None:
        with DeletionStage() as stage:
            stage.start("n1")
            stage.cluster.put_node(replace(stage.cluster.nodes["n1"], **change))
            (finished,) = stage.run(10)
            assert (finished.outcome, finished.why) == (RemovalOutcome.NOT_DELETED, why)
            assert stage.machines() == ["n1", "n2", "n3"]
            assert stage.tainted("n1") == tainted

    @pytest.mark.parametrize(
        ("value", "why"),
        [("false", AbortReason.BLOCKED), ("on-completion", AbortReason.ON_COMPLETION)],
        ids=["a pod that may not be evicted", "a pod that has to run to its end"],
    )
    def test_of_the_pods(self, value: str, why: AbortReason) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": value})
            stage.start("n1")
            (finished,) = stage.run(10)
            assert (finished.why, finished.rolled_back) == (why, True)
            assert stage.did("tryEvict") == []

    def test_keeps_the_group_minimum(self) -> None:
        with DeletionStage(min_size=3) as stage:
            stage.start("n1")
            (finished,) = stage.run(10)
            assert (finished.why, finished.rolled_back) == (AbortReason.MIN_SIZE, True)
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_pods_that_landed_while_the_deletion_was_delayed_stop_it(self) -> None:
        with DeletionStage() as stage:
            stage.cluster.put_node(replace(stage.cluster.nodes["n1"], annotations=DELAY))
            stage.start("n1")
            stage.at(20, lambda: stage.add("late", "n1"))
            stage.at(22, lambda: stage.cluster.put_node(replace(stage.cluster.nodes["n1"], annotations={})))
            (finished,) = stage.run(60)
            assert (finished.why, finished.at.mono) == (AbortReason.NEW_PODS, 25)


class TestDelayAnnotation:
    def test_holds_the_deletion_until_it_goes(self) -> None:
        with DeletionStage() as stage:
            stage.cluster.put_node(replace(stage.cluster.nodes["n1"], annotations=DELAY))
            stage.start("n1")
            stage.at(42, lambda: stage.cluster.put_node(replace(stage.cluster.nodes["n1"], annotations={})))
            (finished,) = stage.run(200)
            assert (finished.outcome, finished.at.mono) == (RemovalOutcome.DELETED, 45)

    def test_holds_it_no_longer_than_configured(self) -> None:
        with DeletionStage() as stage:
            stage.cluster.put_node(replace(stage.cluster.nodes["n1"], annotations=DELAY))
            stage.start("n1")
            (finished,) = stage.run(200)
            assert (finished.outcome, finished.at.mono) == (RemovalOutcome.DELETED, 125)

    def test_holds_it_while_the_api_server_is_away(self) -> None:
        with DeletionStage() as stage:
            stage.cluster.put_node(replace(stage.cluster.nodes["n1"], annotations=DELAY))
            stage.api.down = (8, 40)
            stage.start("n1")
            assert [one.at.mono for one in stage.run(200)] == [125]


class TestTainting:
    @pytest.mark.parametrize(("parallel", "at_once"), [(True, 5), (False, 1)], ids=["five at once", "one by one"])
    def test_goes_by_the_rules(self, parallel: bool, at_once: int) -> None:
        with DeletionStage(nodes=8, rules=Rules(parallel_tainting=parallel)) as stage:
            writing: list[int] = []
            most: list[int] = []

            def slow_write() -> None:
                writing.append(1)
                most.append(len(writing))
                stage.executor.sleep(1)
                writing.pop()

            stage.api.on_write = slow_write
            stage.executor.submit(lambda: most.append(len(stage.start(*stage.cluster.nodes).empty)))
            stage.executor.run_until(20)
            assert most.pop(most.index(8)) == 8
            assert max(most) == at_once

    def test_a_failure_gives_back_what_was_tainted_and_starts_nothing(self) -> None:
        with DeletionStage(nodes=4, rules=Rules(parallel_tainting=False)) as stage:
            stage.api.taint_errors["n3"].append(Conflict("changed"))
            started = stage.start("n1", "n2", "n3", "n4")
            assert (started.empty, started.error) == ((), "changed")
            assert stage.run(600) == []
            assert [target for _, target in stage.did("tryRelease")] == ["n1", "n2", "n3"]
            assert [target for _, target in stage.did("addTaint")] == ["n1", "n2"]
            assert not any(stage.tainted(name) for name in ("n1", "n2", "n3", "n4"))
            assert stage.events.lines == [
                "Node/n3 ScaleDownFailed: failed to mark the node as toBeDeleted/unschedulable: changed"
            ]
            assert stage.machines() == ["n1", "n2", "n3", "n4"]

    def test_a_failure_among_drained_nodes_leaves_the_empty_ones_going(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n2")
            stage.add("q", "n3")
            stage.api.taint_errors["n3"].append(Refused("forbidden", 403))
            started = stage.start("n1", "n2", "n3")
            assert ([one.node.name for one in started.empty], started.drained) == (["n1"], ())
            assert started.error == "forbidden"
            assert [one.removal.node.name for one in stage.run(60)] == ["n1"]
            assert stage.machines() == ["n2", "n3"]
            assert not stage.tainted("n2")

    def test_all_drained_nodes_are_tainted_before_any_eviction(self) -> None:
        with DeletionStage(config=Drain(node_delete_delay_after_taint_s=0)) as stage:
            stage.add("p", "n1")
            stage.add("q", "n2")
            stage.start("n1", "n2")
            stage.run(10)
            verbs = [one.verb for one in stage.api.log if one.verb in ("addTaint", "evict")]
            assert verbs == ["addTaint", "addTaint", "evict", "evict"]

    def test_a_stale_taint_is_renewed(self) -> None:
        with DeletionStage(taints={"n1": [f"{TO_BE_DELETED}=1600000000:NoSchedule"]}) as stage:
            stage.start("n1")
            taint = stage.cluster.nodes["n1"].taint(TO_BE_DELETED)
            assert taint is not None
            assert taint.value == str(int(START_WALL))
            assert [one.outcome for one in stage.run(10)] == [RemovalOutcome.DELETED]

    def test_a_node_that_somebody_cordoned_stays_cordoned_after_a_rollback(self) -> None:
        with DeletionStage(cordoned=["n1"]) as stage:
            stage.start("n1")
            stage.add("late", "n1")
            stage.run(10)
            assert not stage.tainted("n1")
            assert stage.cluster.nodes["n1"].unschedulable

    def test_without_cordoning_the_node_stays_open(self) -> None:
        with DeletionStage(config=Drain(cordon_node_before_terminating=False)) as stage:
            stage.start("n1")
            assert stage.tainted("n1")
            assert not stage.cluster.nodes["n1"].unschedulable

    def test_a_node_under_way_cannot_be_started_again(self) -> None:
        with DeletionStage() as stage:
            stage.start("n1")
            with pytest.raises(ValueError, match="n1"):
                stage.start("n1")

    def test_the_wait_follows_the_measured_latency(self) -> None:
        with DeletionStage(config=Drain(dynamic_node_delete_delay_after_taint_enabled=True)) as stage:
            stage.api.watch_lag_s = 1.5
            stage.start("n1")
            (finished,) = stage.run(10)
            assert finished.at.mono == pytest.approx(1.5 + 2 * 1.5)

    def test_the_wait_is_the_fixed_one_when_the_watch_shows_nothing(self) -> None:
        with DeletionStage(config=Drain(dynamic_node_delete_delay_after_taint_enabled=True)) as stage:
            stage.api.watch_lag_s = 1000
            stage.start("n1")
            (finished,) = stage.run(100)
            assert finished.at.mono == pytest.approx(65, abs=0.2)


class TestBatches:
    def test_nodes_of_a_group_go_in_one_call_when_the_window_closes(self) -> None:
        with DeletionStage(config=Drain(node_deletion_batcher_interval_s=30)) as stage:
            stage.add("p", "n2")
            stage.api.terminating_s["p"] = 12
            stage.start("n1", "n2", "n3")
            assert stage.run(34.9) == []
            assert [one.removal.node.name for one in stage.run(35)] == ["n1", "n3", "n2"]
            assert stage.machines() == []

    def test_a_node_that_fails_its_last_look_leaves_the_others_going(self) -> None:
        with DeletionStage(config=Drain(node_deletion_batcher_interval_s=30)) as stage:
            stage.start("n1", "n2")
            stage.at(20, lambda: stage.add("late", "n1"))
            finished = {one.removal.node.name: one.why for one in stage.run(60)}
            assert finished == {"n1": AbortReason.NEW_PODS, "n2": None}
            assert stage.machines() == ["n1", "n3"]

    def test_a_window_opens_anew_after_it_closed(self) -> None:
        with DeletionStage(config=Drain(node_deletion_batcher_interval_s=30)) as stage:
            stage.start("n1")
            stage.run(40)
            stage.start("n2")
            assert [one.at.mono for one in stage.run(100)] == [75]


class TestAtomicGroup:
    def test_waits_for_its_last_node(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n2")
            stage.api.terminating_s["p"] = 12
            stage.start("n1", "n2", "n3", atomic=True)
            assert stage.run(19.9) == []
            assert stage.machines() == ["n1", "n2", "n3"]
            assert [one.outcome for one in stage.run(20)] == [RemovalOutcome.DELETED] * 3
            assert stage.machines() == []

    def test_stays_when_one_node_cannot_be_drained(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n2")
            stage.api.always["p"] = RetryLater("busy")
            stage.start("n1", "n2", "n3", atomic=True)
            finished = {one.removal.node.name: one.why for one in stage.run(600)}
            assert finished == {"n2": AbortReason.NOT_EVICTED, "n1": AbortReason.ATOMIC, "n3": AbortReason.ATOMIC}
            assert stage.machines() == ["n1", "n2", "n3"]
            assert not any(stage.tainted(name) for name in ("n1", "n2", "n3"))

    def test_a_node_that_is_ready_after_another_failed_stays_too(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n2")
            stage.add("q", "n1")
            stage.api.always["p"] = RetryLater("busy")
            stage.api.terminating_s["q"] = 300
            stage.start("n1", "n2", atomic=True)
            finished = {one.removal.node.name: (one.why, one.at.mono) for one in stage.run(600)}
            assert finished == {"n2": (AbortReason.NOT_EVICTED, 125), "n1": (AbortReason.ATOMIC, 305)}

    def test_stays_when_one_node_fails_the_last_look(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n2")
            stage.api.terminating_s["p"] = 12
            stage.start("n1", "n2", "n3", atomic=True)
            stage.at(18, lambda: stage.add("late", "n1"))
            finished = {one.removal.node.name: one.why for one in stage.run(600)}
            assert finished == {"n1": AbortReason.NEW_PODS, "n2": AbortReason.ATOMIC, "n3": AbortReason.ATOMIC}
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_stays_when_a_drained_node_cannot_be_tainted(self) -> None:
        with DeletionStage(config=Drain(node_delete_delay_after_taint_s=0)) as stage:
            stage.add("p", "n2")
            stage.api.taint_errors["n2"].append(RetryLater("away"))
            stage.start("n1", "n2", "n3", atomic=True)
            finished = {one.removal.node.name: one.why for one in stage.run(600)}
            assert finished == {"n1": AbortReason.ATOMIC, "n3": AbortReason.ATOMIC}
            assert stage.machines() == ["n1", "n2", "n3"]
            assert not any(stage.tainted(name) for name in ("n1", "n2", "n3"))

    def test_a_later_try_starts_afresh(self) -> None:
        with DeletionStage() as stage:
            late = stage.add("late", "n1")
            stage.start("n2", "n3", atomic=True)
            stage.run(10)
            stage.cluster.remove_pod(late.key)
            assert stage.machines() == ["n1"]
            stage.start("n1", atomic=True)
            assert [one.outcome for one in stage.run(60)] == [RemovalOutcome.DELETED]


class TestDrain:
    def test_evicts_then_deletes(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.add("q", "n1", namespace="other")
            stage.start("n1", utilization=0.25)
            (finished,) = stage.run(5)
            assert finished.outcome is RemovalOutcome.DELETED
            assert [one.pod.name for one in finished.evictions if one.succeeded] == ["p", "q"]
            assert stage.counts.evicted == {True: 2, False: 0}
            assert stage.api.uids == {"p": "default/p", "q": "other/q"}
            assert stage.counts.removed == [("g", "n1", RemovedAs.UNDERUTILIZED)]
            assert stage.events.about("ConfigMap/status") == [
                "ScaleDown: Scale-down: removing node n1, utilization: 0.25, pods to reschedule: p,q",
                "ScaleDown: Scale-down: node n1 removed with drain",
            ]
            assert stage.events.about("Pod/p") == ["ScaleDown: deleting pod for node scale down"]

    def test_an_unready_node_counts_as_unready(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.start("n1", ready=False)
            stage.run(5)
            assert stage.counts.removed == [("g", "n1", RemovedAs.UNREADY)]

    @pytest.mark.parametrize(
        ("grace_s", "limit_s", "asked_s"),
        [
            pytest.param(None, 600, 30, id="the default of a pod"),
            pytest.param(900, 600, 600, id="capped"),
            pytest.param(20, 600, 20, id="shorter than the cap"),
            pytest.param(900, 0, 900, id="no cap"),
        ],
    )
    def test_time_to_terminate(self, grace_s: int | None, limit_s: int, asked_s: int) -> None:
        with DeletionStage(config=Drain(max_graceful_termination_sec=limit_s)) as stage:
            stage.add("p", "n1", spec={"terminationGracePeriodSeconds": grace_s})
            stage.start("n1")
            stage.run(5)
            assert stage.api.graces == {"p": asked_s}

    def test_daemon_pods_go_too_and_never_hold_it(self) -> None:
        with DeletionStage() as stage:
            stage.add("d", "n1", owner="DaemonSet/log")
            stage.add("e", "n1", owner="DaemonSet/net")
            stage.add("p", "n1")
            stage.api.always["e"] = RetryLater("busy")
            stage.start("n1")
            assert [one.outcome for one in stage.run(5)] == [RemovalOutcome.DELETED]
            assert [target for _, target in stage.did("tryEvict")] == ["default/p", "default/d", "default/e"]

    def test_by_priority_lowest_first_each_group_waited_for(self) -> None:
        config = Drain(drain_priority_config=(DrainPriority(0, 60), DrainPriority(1000, 20)))
        with DeletionStage(config=config) as stage:
            stage.add("high", "n1", priority=2000)
            stage.add("low", "n1", priority=-5)
            stage.add("plain", "n1")
            stage.add("daemon", "n1", owner="DaemonSet/log", priority=1000)
            stage.api.terminating_s |= {"low": 7, "high": 3}
            stage.start("n1")
            (finished,) = stage.run(100)
            assert finished.outcome is RemovalOutcome.DELETED
            assert stage.did("evict") == [
                (5, "default/low"),
                (5, "default/plain"),
                (15, "default/high"),
                (15, "default/daemon"),
            ]
            assert stage.api.graces == {"low": 30, "plain": 30, "high": 20, "daemon": 20}
            assert finished.at.mono == 20

    def test_with_priorities_daemon_pods_are_required(self) -> None:
        with DeletionStage(config=Drain(drain_priority_config=(DrainPriority(0, 60),))) as stage:
            stage.add("p", "n1")
            stage.add("d", "n1", owner="DaemonSet/log")
            stage.api.always["d"] = RetryLater("busy")
            stage.start("n1")
            assert [one.why for one in stage.run(300)] == [AbortReason.NOT_EVICTED]

    def test_a_pod_that_came_on_top_of_the_plan_stops_it_before_any_eviction(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.start("n1")
            stage.add("late", "n1")
            (finished,) = stage.run(10)
            assert (finished.why, stage.did("tryEvict")) == (AbortReason.NEW_PODS, [])

    def test_pods_that_left_since_the_plan_are_not_missed(self) -> None:
        with DeletionStage() as stage:
            pod = stage.add("p", "n1")
            stage.start("n1")
            stage.cluster.remove_pod(pod.key)
            assert [one.outcome for one in stage.run(5)] == [RemovalOutcome.DELETED]

    def test_pods_evicted_so_far_are_known_while_it_lasts(self) -> None:
        with DeletionStage() as stage:
            pod = stage.add("p", "n1")
            stage.api.terminating_s["p"] = 12
            stage.start("n1")
            stage.run(10)
            assert stage.tracker.under_way().evicted == (pod,)
            assert stage.tracker.under_way().drained_count == 1
            stage.run(60)
            assert stage.tracker.under_way().evicted == ()

    def test_many_drains_run_beside_each_other(self) -> None:
        with DeletionStage(nodes=5) as stage:
            names = [f"n{number}" for number in range(1, 6)]
            for name in names:
                stage.add(f"on-{name}", name)
                stage.api.terminating_s[f"on-{name}"] = 20
            stage.start(*names)
            finished = stage.run(25)
            assert [(one.removal.node.name, one.at.mono) for one in finished] == [(name, 25) for name in names]

    def test_the_same_run_gives_the_same_log(self) -> None:
        def play() -> tuple[list[Any], list[str]]:
            with DeletionStage(nodes=5) as stage:
                for number in range(1, 6):
                    stage.add(f"a{number}", f"n{number}")
                    stage.add(f"b{number}", f"n{number}")
                    stage.api.terminating_s[f"a{number}"] = 40 - 7 * number
                    stage.api.eviction_errors[f"b{number}"].extend([RetryLater("busy")] * number)
                stage.start("n1", "n2", "n3", "n4", "n5")
                stage.run(600)
                return list(stage.api.log), stage.events.lines

        assert play() == play()


class TestShortLease:
    @pytest.mark.parametrize(
        ("lease_s", "needed_s"),
        [
            pytest.param(60.0, 10.0, id="long"),
            pytest.param(15.0, 10.0, id="the default"),
            pytest.param(9.0, 6.0, id="short"),
            pytest.param(3.0, 2.0, id="the shortest"),
        ],
    )
    def test_needs_less_of_it_and_so_deletes_all_the_same(self, lease_s: float, needed_s: float) -> None:
        leader = Leader(leader_elect_lease_duration_s=lease_s)
        assert call_s(leader) == pytest.approx(needed_s)
        with DeletionStage(call_s=call_s(leader)) as stage:
            stage.leader.lease_s, stage.leader.renewed_every_s = lease_s, 2.2
            stage.start("n1")
            stage.run(60)
            assert stage.machines() == ["n2", "n3"]

    def test_never_outlasts_a_call_that_needs_all_of_it(self) -> None:
        with DeletionStage(call_s=9.0) as stage:
            stage.leader.lease_s = 9.0
            stage.start("n1")
            (finished,) = stage.run(120)
            assert (finished.why, stage.machines()) == (AbortReason.NO_LEASE, ["n1", "n2", "n3"])

    def test_does_not_matter_without_election(self) -> None:
        assert call_s(Leader(leader_elect=False, leader_elect_lease_duration_s=3.0)) == 10.0
