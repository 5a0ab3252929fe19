"""Everything that can go wrong between the taint and the deletion, in virtual time."""

import logging
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from autoscaler.actuation.removal_outcome import AbortReason, RemovalOutcome
from autoscaler.config.scaledown import Drain
from autoscaler.errors import AutoscalerError, Blocked, Conflict, Refused, RetryLater
from autoscaler.objects.node import TO_BE_DELETED, Taint
from autoscaler.scaledown.plan import NodesToDelete
from cloudprovider.interface import ProviderError, Transient
from cloudprovider.static.spec import Call
from tests.builders import a_budget, a_pod
from tests.unit.actuation.stage import DeletionStage


class TestEvictionRefused:
    @pytest.mark.parametrize(
        "error",
        [
            pytest.param(Blocked("budget", 429), id="429: a budget forbids it for now"),
            pytest.param(RetryLater("internal error"), id="500"),
            pytest.param(RetryLater("did not answer in time"), id="time-out"),
            pytest.param(Conflict("changed"), id="409"),
            pytest.param(Refused("denied by a webhook", 403), id="403"),
        ],
    )
    def test_is_tried_again_every_ten_seconds(self, error: AutoscalerError) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.api.eviction_errors["p"].extend([error] * 3)
            stage.start("n1")
            (finished,) = stage.run(600)
            assert (finished.outcome, finished.at.mono) == (RemovalOutcome.DELETED, 35)
            assert [second for second, _ in stage.did("tryEvict")] == [5, 15, 25, 35]

    def test_waits_longer_when_the_server_asks_for_it(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.api.eviction_errors["p"].append(RetryLater("busy", retry_after_s=25))
            stage.start("n1")
            assert [one.at.mono for one in stage.run(600)] == [30]

    def test_for_good_gives_the_node_back(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.add("q", "n1")
            stage.api.always["q"] = Blocked("budget", 429)
            stage.start("n1")
            (finished,) = stage.run(600)
            assert (finished.outcome, finished.why) == (RemovalOutcome.NOT_EVICTED, AbortReason.NOT_EVICTED)
            assert [(one.pod.name, one.error) for one in finished.evictions] == [("p", ""), ("q", "budget")]
            assert finished.at.mono == 125
            assert not stage.tainted("n1")
            assert stage.machines() == ["n1", "n2", "n3"]
            assert stage.counts.evicted == {True: 1, False: 1}
            assert stage.events.about("Pod/q") == [
                "ScaleDown: deleting pod for node scale down",
                "ScaleDownFailed: failed to delete pod for ScaleDown: budget",
            ]
            assert stage.events.about("Node/n1")[-1] == (
                "ScaleDownFailed: failed to drain and delete node: failed to evict 1 pods: default/q: budget"
            )

    def test_for_good_spares_the_pods_whose_turn_comes_later(self) -> None:
        with DeletionStage() as stage:
            for name in ("p", "q", "r"):
                stage.add(name, "n1")
                stage.api.always[name] = RetryLater("busy")
            stage.api.eviction_errors["r"].extend([RetryLater("busy")] * 12)
            del stage.api.always["r"]
            stage.start("n1")
            (finished,) = stage.run(600)
            assert [one.succeeded for one in finished.evictions] == [False, False, False]
            assert [second for second, target in stage.did("tryEvict") if target == "default/r"][-1] == 115

    def test_a_pod_that_is_gone_counts_as_evicted(self) -> None:
        with DeletionStage() as stage:
            pod = stage.add("p", "n1")
            stage.api.eviction_errors["p"].append(RetryLater("busy"))
            stage.start("n1")
            stage.at(8, lambda: stage.cluster.remove_pod(pod.key))
            (finished,) = stage.run(600)
            assert (finished.outcome, finished.at.mono) == (RemovalOutcome.DELETED, 15)
            assert [one.succeeded for one in finished.evictions] == [True]


class TestTermination:
    def test_a_pod_stuck_terminating_gives_the_node_back_after_its_time_and_thirty_seconds(self) -> None:
        with DeletionStage(config=Drain(max_graceful_termination_sec=60)) as stage:
            stage.add("p", "n1")
            stage.api.terminating_s["p"] = 1e6
            stage.start("n1")
            (finished,) = stage.run(600)
            assert (finished.outcome, finished.why) == (RemovalOutcome.NOT_EVICTED, AbortReason.PODS_REMAIN)
            assert finished.at.mono == 5 + 60 + 30
            assert finished.message == "pods remaining after timeout: default/p"
            assert [one.succeeded for one in finished.evictions] == [True]
            assert not stage.tainted("n1")

    def test_without_a_cap_the_pod_s_own_time_counts(self) -> None:
        with DeletionStage(config=Drain(max_graceful_termination_sec=0)) as stage:
            stage.add("p", "n1", spec={"terminationGracePeriodSeconds": 300})
            stage.api.terminating_s["p"] = 299
            stage.start("n1")
            assert [(one.outcome, one.at.mono) for one in stage.run(600)] == [(RemovalOutcome.DELETED, 305)]

    def test_a_pod_that_moved_under_its_name_is_not_waited_for(self) -> None:
        with DeletionStage() as stage:
            stage.add("db-0", "n1", owner="StatefulSet/db")
            stage.api.terminating_s["db-0"] = 1000
            stage.start("n1")
            stage.at(7, lambda: stage.cluster.put_pod(replace(a_pod("db-0", node="n2"), uid="second")))
            assert [(one.outcome, one.at.mono) for one in stage.run(60)] == [(RemovalOutcome.DELETED, 10)]


class TestChangesMidDrain:
    @pytest.mark.parametrize(
        ("change", "why"),
        [
            pytest.param(
                lambda stage: stage.cluster.put_node(
                    replace(
                        stage.cluster.nodes["n1"],
                        annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"},
                    )
                ),
                AbortReason.DISABLED,
                id="scale-down disabled by annotation",
            ),
            pytest.param(lambda stage: stage.cluster.remove_nodes(["n1"]), AbortReason.NODE_GONE, id="node vanished"),
            pytest.param(
                lambda stage: stage.cluster.put_node(replace(stage.cluster.nodes["n1"], taints=())),
                AbortReason.TAINT_LOST,
                id="taint removed",
            ),
        ],
    )
    def test_stop_it_at_the_next_look(self, change: Callable[[DeletionStage], None], why: AbortReason) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.add("q", "n1")
            stage.api.terminating_s["p"] = 100
            stage.api.always["q"] = RetryLater("busy")
            stage.start("n1")
            stage.at(18, lambda: change(stage))
            (finished,) = stage.run(600)
            assert (finished.why, finished.at.mono) == (why, 25)
            assert "n1" in stage.machines()
            assert [second for second, target in stage.did("tryEvict") if target == "default/q"] == [5, 15]

    def test_an_annotation_while_pods_terminate_saves_the_node(self) -> None:
        annotations = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.api.terminating_s["p"] = 30
            stage.start("n1")
            stage.at(12, lambda: stage.cluster.put_node(replace(stage.cluster.nodes["n1"], annotations=annotations)))
            (finished,) = stage.run(600)
            assert (finished.why, finished.at.mono, finished.rolled_back) == (AbortReason.DISABLED, 15, True)

    def test_a_pod_that_lands_during_the_drain_saves_the_node(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.api.terminating_s["p"] = 20
            stage.start("n1")
            stage.at(12, lambda: stage.add("late", "n1", owner="ReplicaSet/other"))
            (finished,) = stage.run(600)
            assert (finished.why, finished.at.mono) == (AbortReason.NEW_PODS, 25)
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_a_pod_that_tolerates_the_taint_and_comes_back_cannot_hold_it(self) -> None:
        anything = [{"operator": "Exists"}]
        with DeletionStage() as stage:
            stage.add("agent", "n1", tolerations=anything)
            stage.api.terminating_s["agent"] = 12
            stage.start("n1")
            stage.at(10, lambda: stage.add("agent-2", "n1", tolerations=anything))
            (finished,) = stage.run(600)
            assert finished.outcome is RemovalOutcome.DELETED
            assert stage.did("evict") == [(5, "default/agent"), (20, "default/agent-2")]

    def test_a_replica_that_slipped_in_without_tolerating_the_taint_saves_the_node(self) -> None:
        with DeletionStage() as stage:
            stage.add("web-1", "n1")
            stage.api.terminating_s["web-1"] = 12
            stage.start("n1")
            stage.at(10, lambda: stage.add("web-2", "n1"))
            assert [one.why for one in stage.run(600)] == [AbortReason.NEW_PODS]

    def test_a_budget_spent_since_the_plan_saves_the_node(self) -> None:
        with DeletionStage() as stage:
            stage.add("agent", "n1", labels={"app": "agent"})
            stage.api.budget_list = [a_budget(0, labels={"app": "agent"})]
            stage.start("n1")
            (finished,) = stage.run(600)
            assert (finished.why, stage.did("tryEvict")) == (AbortReason.BLOCKED, [])

    def test_unless_its_annotation_says_that_it_stays(self) -> None:
        anything = [{"operator": "Exists"}]
        stays = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
        with DeletionStage() as stage:
            stage.add("agent", "n1", tolerations=anything)
            stage.api.terminating_s["agent"] = 12
            stage.start("n1")
            stage.at(10, lambda: stage.add("agent-2", "n1", tolerations=anything, annotations=stays))
            assert [(one.why, one.at.mono) for one in stage.run(600)] == [(AbortReason.BLOCKED, 20)]

    def test_budgets_do_not_let_it_hold_the_node_either(self) -> None:
        anything = [{"operator": "Exists"}]
        with DeletionStage() as stage:
            stage.add("agent", "n1", tolerations=anything, labels={"app": "agent"})
            stage.api.terminating_s["agent"] = 12
            stage.api.budget_list = [a_budget(1, labels={"app": "agent"})]
            stage.start("n1")
            stage.at(10, lambda: stage.add("agent-2", "n1", tolerations=anything, labels={"app": "agent"}))
            stage.at(10, lambda: setattr(stage.api, "budget_list", [a_budget(0, labels={"app": "agent"})]))
            stage.api.always["agent-2"] = Blocked("budget", 429)
            assert [one.outcome for one in stage.run(600)] == [RemovalOutcome.DELETED]


class TestApiServerDown:
    def test_for_five_minutes_mid_drain_ends_in_a_rollback_once_it_is_back(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.api.eviction_errors["p"].append(RetryLater("busy"))
            stage.api.down = (10, 310)
            stage.start("n1")
            assert stage.run(309) == []
            assert stage.tracker.under_way().drained == {"g": ("n1",)}
            (finished,) = stage.run(600)
            assert (finished.outcome, finished.why) == (RemovalOutcome.NOT_EVICTED, AbortReason.NOT_EVICTED)
            assert (finished.rolled_back, finished.at.mono) == (True, 315)
            assert not stage.tainted("n1")
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_while_pods_terminate_is_waited_out(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.api.terminating_s["p"] = 20
            stage.api.down = (10, 310)
            stage.start("n1")
            (finished,) = stage.run(600)
            assert (finished.outcome, finished.at.mono) == (RemovalOutcome.DELETED, 310)

    def test_before_the_last_look_gives_the_node_back(self) -> None:
        with DeletionStage() as stage:
            stage.api.down = (4, 304)
            stage.start("n1")
            (finished,) = stage.run(600)
            assert (finished.why, finished.rolled_back) == (AbortReason.UNREADABLE, True)
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_for_longer_than_any_patience_leaves_the_taint_to_the_next_cleanup(self) -> None:
        with DeletionStage() as stage:
            stage.api.down = (4, 1e5)
            stage.start("n1")
            (finished,) = stage.run(2000)
            assert (finished.why, finished.rolled_back) == (AbortReason.UNREADABLE, False)
            assert stage.tainted("n1")

    def test_a_forbidden_rollback_is_not_repeated(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.api.always["p"] = RetryLater("busy")
            stage.api.release_errors["n1"].append(Refused("forbidden", 403))
            stage.start("n1")
            (finished,) = stage.run(2000)
            assert (finished.rolled_back, len(stage.did("tryRelease"))) == (False, 1)

    def test_reads_that_are_forbidden_give_the_node_back(self) -> None:
        with DeletionStage() as stage:
            stage.api.read_error = Refused("forbidden", 403)
            stage.start("n1")
            (finished,) = stage.run(60)
            assert (finished.why, finished.at.mono, finished.rolled_back) == (AbortReason.UNREADABLE, 5, True)


class TestLeadershipLost:
    def test_mid_drain_stops_everything_without_another_write(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.api.always["p"] = RetryLater("busy")
            stage.start("n1")
            stage.run(17)
            stage.leader.until = 18
            written, told = len(stage.api.log), len(stage.events.lines)
            (finished,) = stage.run(3000)
            assert (finished.outcome, finished.why) == (RemovalOutcome.ABANDONED, None)
            assert len(stage.api.log) == written
            assert len(stage.events.lines) == told
            assert stage.tainted("n1")
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_during_the_last_look_saves_the_machine(self) -> None:
        with DeletionStage() as stage:
            looks: list[float] = []

            def lose_at_the_last_read() -> None:
                looks.append(stage.clock.now().mono)
                if len(looks) == 5:
                    stage.leader.until = 5

            stage.api.on_read = lose_at_the_last_read
            stage.start("n1")
            assert [one.outcome for one in stage.run(3000)] == [RemovalOutcome.ABANDONED]
            assert (looks, stage.machines()) == ([5] * 5, ["n1", "n2", "n3"])

    def test_while_a_check_fails_says_nothing_more(self) -> None:
        with DeletionStage() as stage:
            stage.api.read_error = Refused("forbidden", 403)
            stage.start("n1")
            told = len(stage.events.lines)
            stage.api.on_read = lambda: setattr(stage.leader, "until", 5)
            assert [one.outcome for one in stage.run(60)] == [RemovalOutcome.ABANDONED]
            assert len(stage.events.lines) == told

    def test_a_lease_that_got_short_during_the_last_look_makes_it_look_again(self) -> None:
        with DeletionStage() as stage:
            looks: list[float] = []

            def shorten_once() -> None:
                looks.append(stage.clock.now().mono)
                if len(looks) == 5:
                    stage.leader.lease_s = 6
                    stage.at(8, lambda: setattr(stage.leader, "lease_s", 14))

            stage.api.on_read = shorten_once
            stage.start("n1")
            stage.at(7, lambda: stage.add("late", "n1"))
            assert [one.why for one in stage.run(60)] == [AbortReason.NEW_PODS]
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_while_pods_terminate_saves_the_machine(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n1")
            stage.api.terminating_s["p"] = 12
            stage.leader.until = 20
            stage.start("n1")
            assert [one.outcome for one in stage.run(3000)] == [RemovalOutcome.ABANDONED]
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_a_lease_about_to_run_out_is_waited_for(self) -> None:
        with DeletionStage() as stage:
            stage.leader.lease_s = 8
            stage.start("n1")
            stage.at(9, lambda: setattr(stage.leader, "lease_s", 14))
            assert [(one.outcome, one.at.mono) for one in stage.run(60)] == [(RemovalOutcome.DELETED, 9)]

    def test_a_lease_that_is_always_too_short_gives_the_node_back(self) -> None:
        with DeletionStage() as stage:
            stage.leader.lease_s = 8
            stage.start("n1")
            (finished,) = stage.run(200)
            assert (finished.why, finished.rolled_back) == (AbortReason.NO_LEASE, True)
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_of_a_whole_group_abandons_those_that_wait_too(self) -> None:
        with DeletionStage() as stage:
            stage.add("p", "n2")
            stage.api.terminating_s["p"] = 100
            stage.leader.until = 50
            stage.start("n1", "n2", "n3", atomic=True)
            finished = {one.removal.node.name: one.outcome for one in stage.run(3000)}
            assert finished == dict.fromkeys(("n1", "n2", "n3"), RemovalOutcome.ABANDONED)
            assert stage.tracker.under_way().nodes == frozenset()


class TestStopping:
    @pytest.mark.parametrize(
        ("second", "config"),
        [
            pytest.param(2, Drain(), id="while schedulers learn of the taint"),
            pytest.param(12, Drain(), id="while an eviction waits for its next try"),
            pytest.param(27, Drain(), id="while pods terminate"),
            pytest.param(42, Drain(node_deletion_batcher_interval_s=30), id="while a window is open"),
        ],
    )
    def test_ends_without_another_write(self, second: float, config: Drain) -> None:
        with DeletionStage(config=config) as stage:
            stage.add("p", "n1")
            stage.api.eviction_errors["p"].append(RetryLater("busy"))
            stage.api.terminating_s["p"] = 18
            stage.start("n1")
            assert stage.run(second) == []
            written, told = len(stage.api.log), len(stage.events.lines)
            stage.executor.stop()
            (finished,) = stage.tracker.drain_results()
            assert finished.outcome is RemovalOutcome.ABANDONED
            assert (len(stage.api.log), len(stage.events.lines)) == (written, told)
            assert stage.tainted("n1")
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_starts_nothing_afterwards(self) -> None:
        with DeletionStage() as stage:
            stage.executor.stop()
            assert stage.start("n1").error == "the program is stopping"
            assert not stage.tainted("n1")


class TestProvider:
    def test_that_refuses_gets_the_node_given_back(self) -> None:
        with DeletionStage() as stage:
            stage.provider.fail_next("g", ProviderError("protected from scale-in"), Call.DELETE)
            stage.start("n1")
            (finished,) = stage.run(60)
            assert (finished.why, finished.message) == (AbortReason.REFUSED, "protected from scale-in")
            assert not stage.tainted("n1")
            assert stage.machines() == ["n1", "n2", "n3"]

    def test_that_times_out_after_it_worked_is_believed_to_have_worked(self) -> None:
        with DeletionStage() as stage:
            stage.provider.fail_next("g", Transient("time-out"), Call.DELETE, takes_effect=True)
            stage.start("n1")
            (finished,) = stage.run(60)
            assert finished.outcome is RemovalOutcome.DELETED
            assert stage.tainted("n1")

    def test_that_times_out_before_it_worked_gets_the_node_given_back(self) -> None:
        with DeletionStage() as stage:
            stage.provider.fail_next("g", Transient("time-out"), Call.DELETE)
            stage.start("n1")
            (finished,) = stage.run(60)
            assert (finished.why, finished.certain) == (AbortReason.REFUSED, True)
            assert not stage.tainted("n1")

    def test_that_crashes_gets_the_node_given_back(self, caplog: pytest.LogCaptureFixture) -> None:
        with DeletionStage() as stage:
            stage.machines_port.crash = ZeroDivisionError("bug in a plug-in")
            stage.start("n1")
            with caplog.at_level(logging.ERROR):
                (finished,) = stage.run(60)
            assert (finished.outcome, finished.why) == (RemovalOutcome.INTERNAL, AbortReason.BUG)
            assert not stage.tainted("n1")
            assert "scale_down.crashed" in caplog.text

    def test_that_cannot_be_read_back_is_asked_until_it_answers(self) -> None:
        with DeletionStage() as stage:
            stage.provider.fail_next("g", Transient("time-out"), Call.DELETE, takes_effect=True)
            stage.machines_port.unknown_until = 47
            stage.start("n1")
            assert stage.run(44) == []
            assert stage.tainted("n1")
            assert [(one.outcome, one.at.mono) for one in stage.run(100)] == [(RemovalOutcome.DELETED, 55)]

    def test_that_never_answers_leaves_doubt(self) -> None:
        with DeletionStage() as stage:
            stage.provider.fail_next("g", Transient("time-out"), Call.DELETE)
            stage.machines_port.unknown_until = 1e6
            stage.start("n1")
            (finished,) = stage.run(2000)
            assert (finished.certain, finished.rolled_back, finished.at.mono) == (False, True, 605)

    def test_that_lost_the_group_gets_the_node_given_back(self) -> None:
        with DeletionStage() as stage:
            stage.start("n1", group="elsewhere")
            (finished,) = stage.run(60)
            assert (finished.why, finished.rolled_back) == (AbortReason.REFUSED, True)


def test_one_stuck_drain_does_not_hold_the_others() -> None:
    with DeletionStage() as stage:
        stage.add("stuck", "n1")
        stage.add("quick", "n2")
        stage.api.always["stuck"] = Blocked("budget", 429)
        stage.start("n1", "n2", "n3")
        finished = {one.removal.node.name: (one.outcome, one.at.mono) for one in stage.run(600)}
        assert finished == {
            "n3": (RemovalOutcome.DELETED, 5),
            "n2": (RemovalOutcome.DELETED, 5),
            "n1": (RemovalOutcome.NOT_EVICTED, 125),
        }


def test_a_taint_of_another_autoscaler_is_respected() -> None:
    with DeletionStage() as stage:
        plan = NodesToDelete(empty=(stage.removal("n1"),))
        stage.api.add_taint("n1", Taint(TO_BE_DELETED, "NoSchedule", "1699999999"))
        assert stage.deleter.start(plan).error == ""
        (finished,) = stage.run(60)
        assert (finished.why, finished.rolled_back) == (AbortReason.TAINT_LOST, False)
        taint = stage.cluster.nodes["n1"].taint(TO_BE_DELETED)
        assert taint is not None
        assert taint.value == "1699999999"
        assert stage.machines() == ["n1", "n2", "n3"]
