from collections.abc import Callable

import msgspec
import pytest
import yaml

from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.observe.status import (
    AutoscalerState,
    BackoffStatus,
    ClusterStatus,
    Condition,
    Decision,
    DecisionKind,
    Health,
    NodeCounts,
    PassStatus,
    ProcessStatus,
    PublishedStatus,
    ScaleDownActivity,
    ScaleUpActivity,
    Scope,
)
from autoscaler.observe.status_board import StatusBoard, with_transitions
from autoscaler.observe.status_map import status_config_map, status_time

PROCESS = ProcessStatus(identity="me", version="0", started_at=0.0)


def a_pass(at: float, health: Health = Health.HEALTHY, *decisions: Decision) -> PublishedStatus:
    scope = Scope(
        Condition(health, at),
        Condition(ScaleUpActivity.NO_ACTIVITY, at),
        Condition(ScaleDownActivity.NO_CANDIDATES, at),
    )
    return PublishedStatus(
        process=PROCESS,
        state=AutoscalerState.RUNNING,
        last_pass=PassStatus(number=1, started_at=at, duration_s=1.0),
        cluster=ClusterStatus(scope=scope),
        decisions=decisions,
    )


def a_decision(at: float) -> Decision:
    return Decision(at=at, kind=DecisionKind.SCALE_UP, group="web", delta=1, result="Successful")


def health_since(status: PublishedStatus) -> float | None:
    assert status.cluster is not None
    return status.cluster.scope.health.since_at


def test_a_status_keeps_its_time_until_it_changes() -> None:
    first = with_transitions(a_pass(100), None)
    second = with_transitions(a_pass(110), first)
    third = with_transitions(a_pass(120, Health.UNHEALTHY), second)
    fourth = with_transitions(a_pass(130, Health.HEALTHY), third)
    assert [health_since(one) for one in (first, second, third, fourth)] == [100, 100, 120, 130]


def test_groups_keep_their_own_times(status_of: Callable[..., PublishedStatus]) -> None:
    old = with_transitions(status_of(10), None)
    web, gpu, batch = old.groups
    later = msgspec.structs.replace(web.scope, scale_up=Condition(ScaleUpActivity.NO_ACTIVITY, 9e9))
    new = msgspec.structs.replace(old, groups=(msgspec.structs.replace(web, scope=later), gpu, batch))
    changed, kept, _ = with_transitions(new, old).groups
    assert changed.scope.scale_up.since_at == 9e9
    assert kept.scope.scale_up.since_at == gpu.scope.scale_up.since_at


def test_the_board_shows_the_newest_and_keeps_old_views_intact() -> None:
    board = StatusBoard(PROCESS)
    before = board.view
    assert before.status.last_pass is None
    settled = board.publish(a_pass(100, Health.HEALTHY, a_decision(100)))
    assert board.view.status == settled
    assert health_since(settled) == 100
    assert before.history == ()
    assert len(board.view.history) == 1


def test_the_history_is_bounded_by_age_and_number() -> None:
    board = StatusBoard(PROCESS, history_s=50, history_size=3)
    for at in range(0, 100, 10):
        board.publish(a_pass(float(at), Health.HEALTHY, a_decision(float(at))))
    assert [one.at for one in board.view.history] == [70, 80, 90]
    board.publish(a_pass(131))
    assert [one.at for one in board.view.history] == [90]


def test_leadership_changes_between_passes() -> None:
    board = StatusBoard(PROCESS)
    board.publish(a_pass(100))
    board.process_changed(msgspec.structs.replace(PROCESS, leading=True))
    assert board.view.status.process.leading
    assert board.view.status.last_pass is not None
    board.publish(a_pass(110))
    assert board.view.status.process.leading, "a pass does not know who leads"


@pytest.mark.parametrize(
    ("wall", "text"),
    [
        pytest.param(1_785_578_400.0, "2026-08-01 10:00:00 +0000 UTC", id="whole seconds"),
        pytest.param(1_785_578_400.125, "2026-08-01 10:00:00.125 +0000 UTC", id="trailing zeros are dropped"),
        pytest.param(1_785_578_400.000001, "2026-08-01 10:00:00.000001 +0000 UTC", id="microseconds"),
    ],
)
def test_times_as_go_prints_them(wall: float, text: str) -> None:
    assert status_time(wall) == text


EXPECTED = """\
autoscalerStatus: Running
clusterWide:
  health:
    lastProbeTime: "2026-08-01T10:00:00Z"
    lastTransitionTime: "2026-08-01T09:00:00Z"
    nodeCounts:
      longUnregistered: 0
      registered:
        beingDeleted: 1
        notStarted: 1
        ready: 4
        suspended: 0
        total: 6
        unready:
          resourceUnready: 0
          total: 0
      unregistered: 2
    status: Healthy
  scaleDown:
    candidates: 1
    lastProbeTime: "2026-08-01T10:00:00Z"
    lastTransitionTime: "2026-08-01T10:00:00Z"
    status: CandidatesPresent
  scaleUp:
    lastProbeTime: "2026-08-01T10:00:00Z"
    lastTransitionTime: "2026-08-01T10:00:00Z"
    status: InProgress
time: 2026-08-01 10:00:00.5 +0000 UTC
"""


def a_cluster(now: float) -> PublishedStatus:
    scope = Scope(
        Condition(Health.HEALTHY, now, now - 3600),
        Condition(ScaleUpActivity.IN_PROGRESS, now, now),
        Condition(ScaleDownActivity.CANDIDATES, now, now),
        1,
        NodeCounts(total=6, ready=4, not_started=1, being_deleted=1, unregistered=2),
    )
    return PublishedStatus(process=PROCESS, state=AutoscalerState.RUNNING, cluster=ClusterStatus(scope=scope))


def test_the_config_map_text(now_wall: float) -> None:
    assert status_config_map(a_cluster(now_wall), now_wall + 0.5) == EXPECTED


def test_groups_in_the_config_map(status_of: Callable[..., PublishedStatus], now_wall: float) -> None:
    status = with_transitions(status_of(10), None)
    document = yaml.safe_load(status_config_map(status, now_wall))
    web, gpu, batch = document["nodeGroups"]
    assert list(web) == ["health", "name", "scaleDown", "scaleUp"]
    assert (web["name"], web["scaleUp"]["status"]) == ("web-general", "InProgress")
    assert web["health"]["cloudProviderTarget"] == 8
    assert (web["health"]["minSize"], web["health"]["maxSize"]) == (1, 10)
    assert "beingDeleted" not in web["health"]["nodeCounts"]["registered"]
    assert web["scaleUp"]["backoffInfo"] == {}
    assert gpu["scaleUp"]["backoffInfo"] == {
        "errorCode": "OUT_OF_RESOURCES",
        "errorMessage": "no a100 left in eu-west-1a",
    }
    assert "candidates" not in gpu["scaleDown"]
    assert batch["scaleDown"]["candidates"] == 5
    assert isinstance(batch["scaleDown"]["lastProbeTime"], str), "YAML must not read it as a time"


def test_a_long_backoff_message_is_cut(status_of: Callable[..., PublishedStatus], now_wall: float) -> None:
    status = status_of(10)
    gpu = msgspec.structs.replace(status.groups[1], backoff=BackoffStatus(1.0, "X", "m" * 2000))
    text = status_config_map(msgspec.structs.replace(status, groups=(gpu,)), now_wall)
    message = yaml.safe_load(text)["nodeGroups"][0]["scaleUp"]["backoffInfo"]["errorMessage"]
    assert len(message) == 500
    assert message.endswith("m<truncated>")


def test_keys_in_order_of_declaration_as_before_1_35(
    status_of: Callable[..., PublishedStatus], now_wall: float
) -> None:
    text = status_config_map(status_of(10), now_wall, rules_of_1_31())
    document = yaml.safe_load(text)
    assert list(document) == ["time", "autoscalerStatus", "clusterWide", "nodeGroups"]
    assert list(document["nodeGroups"][0]) == ["name", "health", "scaleUp", "scaleDown"]
    assert "suspended" not in text
    assert document["clusterWide"] != {}
    assert yaml.safe_load(status_config_map(status_of(10), now_wall, Rules())).keys() == document.keys()


def test_before_the_first_pass(now_wall: float) -> None:
    status = PublishedStatus(process=PROCESS, message="Cluster has no nodes.")
    read = yaml.safe_load(status_config_map(status, now_wall))
    assert read.pop("clusterWide")["scaleUp"] == {"lastProbeTime": None, "lastTransitionTime": None}
    assert read == {
        "time": "2026-08-01 10:00:00 +0000 UTC",
        "autoscalerStatus": "Initializing",
        "message": "Cluster has no nodes.",
    }
