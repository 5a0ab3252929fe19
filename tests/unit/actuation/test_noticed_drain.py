"""Nodes whose machines leave at a known moment: pods go by eviction, in the time that is left."""

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from autoscaler.actuation.noticed_drain import in_order_of_urgency, longest_grace_s
from autoscaler.actuation.removal_outcome import AbortReason, Finished, RemovalOutcome
from autoscaler.clock import Instant
from autoscaler.config.scaledown import Drain
from autoscaler.config.syntax import DrainPriority
from autoscaler.errors import Blocked, Refused, RetryLater
from autoscaler.scaledown.notices import NOTICE
from tests.builders import a_pod
from tests.unit.actuation.stage import START_WALL, DeletionStage

ITN = "aws-node-termination-handler/spot-itn"
SPENT = Blocked("a disruption budget forbids it", 429)


def stage_of(nodes: int = 2, **about: Any) -> DeletionStage:
    """Return a stage whose nodes all carry a notice."""
    return DeletionStage(nodes, taints={f"n{number}": (ITN,) for number in range(1, nodes + 1)}, **about)


def leave(stage: DeletionStage, *nodes: str, by: float = 120.0) -> None:
    """Begin to empty nodes whose machines leave at this second."""
    started = stage.start(*nodes, leave_by=Instant(START_WALL + by, by))
    assert started.error == ""


def vanish(stage: DeletionStage, node: str) -> None:
    """Take a machine away, and its node with all pods."""
    stage.provider.remove_machine(f"test://{node}")
    for key in [pod.key for pod in stage.cluster.pods.values() if pod.node == node]:
        stage.cluster.remove_pod(key)
    stage.cluster.remove_nodes([node])


def outcome(finished: list[Finished]) -> tuple[RemovalOutcome, AbortReason | None, bool]:
    """Return how the only removal ended."""
    (one,) = finished
    return one.outcome, one.why, one.rolled_back


def test_pods_leave_at_once_and_the_empty_machine_is_deleted() -> None:
    with stage_of() as stage:
        for number in range(5):
            stage.add(f"p{number}", "n1")
            stage.api.terminating_s[f"p{number}"] = 20.0
        leave(stage, "n1")
        assert outcome(stage.run(60)) == (RemovalOutcome.DELETED, None, False)
        assert {round(at) for at, _ in stage.did("tryEvict")} == {0}, "no wait for the taint, nor between pods"
        assert stage.machines() == ["n2"]
        assert stage.counts.fates == [(5, 0)]


@pytest.mark.parametrize(
    "kept_by",
    [
        {"owner": None},
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        {"namespace": "kube-system"},
    ],
)
def test_what_would_keep_a_node_from_scale_down_keeps_no_machine_that_leaves(kept_by: dict[str, Any]) -> None:
    with stage_of() as stage:
        stage.add("p", "n1", **kept_by)
        leave(stage, "n1")
        assert outcome(stage.run(60)) == (RemovalOutcome.DELETED, None, False)


def test_pods_that_came_in_the_meantime_leave_too() -> None:
    with stage_of() as stage:
        stage.add("old", "n1")
        leave(stage, "n1")
        stage.at(1.0, lambda: stage.add("new", "n1"))
        assert outcome(stage.run(60)) == (RemovalOutcome.DELETED, None, False)
        assert [name for _, name in stage.did("evict")] == ["default/old", "default/new"]


def test_a_daemon_pod_stays_to_the_end() -> None:
    with stage_of() as stage:
        stage.add("agent", "n1", owner="DaemonSet/agent")
        leave(stage, "n1")
        assert outcome(stage.run(60)) == (RemovalOutcome.DELETED, None, False)
        assert stage.did("tryEvict") == []


def test_a_budget_is_honoured_until_the_deadline_and_no_pod_is_deleted() -> None:
    with stage_of() as stage:
        stage.add("stuck", "n1")
        stage.add("free", "n1")
        stage.api.always["stuck"] = SPENT
        leave(stage, "n1")
        stage.at(121.0, partial(vanish, stage, "n1"))
        assert outcome(stage.run(300))[1] is AbortReason.NODE_GONE
        tries = [at for at, name in stage.did("tryEvict") if name == "default/stuck"]
        assert len(tries) > 10
        assert max(tries) < 120, "after the deadline an eviction helps nobody"
        assert stage.did("delete") == []
        assert stage.counts.fates == [(1, 1)]
        assert any("default/stuck" in line for line in stage.events.about("Node/n1"))


def test_a_budget_that_lets_one_pod_go_after_the_other_is_enough() -> None:
    with stage_of() as stage:
        for number in range(4):
            stage.add(f"p{number}", "n1")
            stage.api.eviction_errors[f"p{number}"].extend([SPENT] * number)
        leave(stage, "n1")
        assert outcome(stage.run(60)) == (RemovalOutcome.DELETED, None, False)
        assert stage.counts.fates == [(4, 0)]


def test_grace_periods_are_cut_to_the_time_that_is_left() -> None:
    with stage_of() as stage:
        stage.add("short", "n1", spec={"terminationGracePeriodSeconds": 10})
        stage.add("long", "n1", spec={"terminationGracePeriodSeconds": 600})
        leave(stage, "n1", by=60.0)
        stage.run(30)
        assert stage.api.graces == {"long": 55, "short": 10}
        assert [name for _, name in stage.did("evict")] == ["default/long", "default/short"]


def test_configured_limits_cut_grace_periods_further() -> None:
    config = Drain(drain_priority_config=(DrainPriority(0, 20), DrainPriority(100, 40)))
    with stage_of(config=config) as stage:
        stage.add("low", "n1", spec={"terminationGracePeriodSeconds": 600}, priority=0)
        stage.add("high", "n1", spec={"terminationGracePeriodSeconds": 600}, priority=100)
        leave(stage, "n1")
        stage.run(30)
        assert stage.api.graces == {"low": 20, "high": 40}


def test_those_that_need_the_time_most_go_first_then_the_least_important() -> None:
    pods = [
        a_pod("important", spec={"terminationGracePeriodSeconds": 30}, priority=100),
        a_pod("plain", spec={"terminationGracePeriodSeconds": 30}),
        a_pod("slower", spec={"terminationGracePeriodSeconds": 50}),
        a_pod("endless", spec={"terminationGracePeriodSeconds": 600}, priority=100),
    ]
    assert [pod.name for pod in in_order_of_urgency(pods, 115.0)] == ["endless", "slower", "plain", "important"]


@pytest.mark.parametrize(
    ("limit_s", "left_s", "grace_s"), [(0, 100.0, 95), (30, 100.0, 30), (600, 20.0, 15), (600, 3.0, 1), (0, -5.0, 1)]
)
def test_a_grace_period_ends_before_the_deadline_and_is_never_zero(limit_s: int, left_s: float, grace_s: int) -> None:
    assert longest_grace_s(limit_s, left_s) == grace_s


def test_a_notice_that_is_withdrawn_gives_the_node_back() -> None:
    with stage_of() as stage:
        stage.add("stuck", "n1")
        stage.api.always["stuck"] = SPENT
        leave(stage, "n1")

        def withdraw() -> None:
            node = stage.cluster.nodes["n1"]
            stage.cluster.put_node(replace(node, taints=tuple(taint for taint in node.taints if taint.key != ITN)))

        stage.at(20.0, withdraw)
        assert outcome(stage.run(40)) == (RemovalOutcome.NOT_DELETED, AbortReason.NOTICE_WITHDRAWN, True)
        assert not stage.tainted("n1")
        assert stage.machines() == ["n1", "n2"]
        assert stage.counts.fates == []


def test_a_machine_that_stays_beyond_its_deadline_serves_again() -> None:
    with stage_of() as stage:
        stage.add("stuck", "n1")
        stage.api.always["stuck"] = SPENT
        leave(stage, "n1")
        stage.run(170)
        assert stage.tainted("n1"), "it may go any moment"
        assert outcome(stage.run(200)) == (RemovalOutcome.NOT_EVICTED, AbortReason.PODS_REMAIN, True)
        assert not stage.tainted("n1")


def test_a_machine_that_may_not_be_deleted_keeps_its_taint_until_it_leaves() -> None:
    with stage_of(min_size=2) as stage:
        stage.add("p", "n1")
        leave(stage, "n1")
        assert stage.run(100) == []
        assert stage.tainted("n1")
        stage.at(120.0, partial(vanish, stage, "n1"))
        assert outcome(stage.run(150)) == (RemovalOutcome.DELETED, None, False)
        assert stage.counts.fates == [(1, 0)]


def test_a_node_that_cannot_be_tainted_stops_no_other() -> None:
    with stage_of() as stage:
        stage.api.taint_errors["n1"].append(Refused("no", 403))
        leave(stage, "n1", "n2")
        ended = {one.removal.node.name: (one.outcome, one.why) for one in stage.run(60)}
        assert ended == {
            "n1": (RemovalOutcome.NOT_DELETED, AbortReason.NOT_TAINTED),
            "n2": (RemovalOutcome.DELETED, None),
        }


def test_an_api_server_that_is_away_for_a_while_only_delays() -> None:
    with stage_of() as stage:
        stage.add("p", "n1")
        stage.api.taint_errors["n1"].append(RetryLater("busy"))
        stage.api.down = (3.0, 40.0)
        leave(stage, "n1")
        assert outcome(stage.run(100)) == (RemovalOutcome.DELETED, None, False)


def test_without_the_lease_nothing_more_is_written() -> None:
    with stage_of() as stage:
        stage.add("stuck", "n1")
        stage.api.always["stuck"] = SPENT
        stage.leader.until = 10.0
        leave(stage, "n1")
        assert outcome(stage.run(60)) == (RemovalOutcome.ABANDONED, None, False)
        assert max(at for at, _ in stage.did("tryEvict")) < 10
        assert stage.tainted("n1"), "the next leader goes on"


def test_many_nodes_leave_at_the_same_time() -> None:
    with stage_of(60) as stage:
        for number in range(1, 61):
            stage.add(f"p{number}", f"n{number}")
            stage.api.terminating_s[f"p{number}"] = 30.0
        leave(stage, *(f"n{number}" for number in range(1, 61)))
        finished = stage.run(60)
        assert {one.outcome for one in finished} == {RemovalOutcome.DELETED}
        assert len(finished) == 60
        assert stage.machines() == []


def test_an_annotation_is_a_notice_too() -> None:
    with DeletionStage(1) as stage:
        node = stage.cluster.nodes["n1"]
        stage.cluster.put_node(replace(node, annotations={NOTICE: "spot-interruption"}))
        stage.add("p", "n1")
        leave(stage, "n1")
        assert outcome(stage.run(60)) == (RemovalOutcome.DELETED, None, False)
