import pytest
from msgspec.structs import replace

from autoscaler.config.rules import Rules
from autoscaler.registry.instances import Placeholder
from autoscaler.registry.memory import Memory, born, deletion_started, scale_up_failed, scaled_up
from autoscaler.registry.occurrence import Incident
from autoscaler.registry.requests import AcceptableRange, doubted, with_increase
from autoscaler.registry.state import recalculated
from cloudprovider.interface import ErrorClass, GroupSettings, Instance, InstanceError, State
from tests.builders import a_group, a_node
from tests.unit.registry.pieces import (
    HEALTH,
    NEW,
    NOW,
    OLD,
    STOCK_OUT,
    SUSPENDED,
    a_machine,
    failing,
    look,
    ready_nodes,
    state_of,
    unready_nodes,
)


def asked_for(increase: int, provision_time_s: float = 900.0) -> Memory:
    return scaled_up(born(NOW), "web", increase, NOW, provision_time_s)


@pytest.mark.parametrize(
    ("deltas", "increase", "asked_s"),
    [
        pytest.param([3], 3, 0, id="a first request"),
        pytest.param([3, 2], 5, 10, id="more adds up and renews the time"),
        pytest.param([3, -1], 2, 0, id="less reduces it and keeps the time"),
        pytest.param([3, -3], None, None, id="nothing left ends it"),
        pytest.param([-2], None, None, id="less of nothing is nothing"),
        pytest.param([3, -5, 1], 1, 20, id="too much less does not carry over"),
    ],
)
def test_requests_add_up(deltas: list[int], increase: int | None, asked_s: float | None) -> None:
    memory = born(NOW)
    for step, delta in enumerate(deltas):
        memory = scaled_up(memory, "web", delta, NOW.later(10 * step), 900.0)
    request = memory.scale_ups.get("web")
    if increase is None or asked_s is None:
        assert request is None
    else:
        assert request is not None
        assert (request.increase, request.asked) == (increase, NOW.later(asked_s))


def test_requests_of_other_groups_are_left_alone() -> None:
    requests = with_increase({}, "db", 1, NOW, 900.0)
    assert set(with_increase(with_increase(requests, "web", 1, NOW, 900.0), "web", -1, NOW, 900.0)) == {"db"}


def disappointing(memory: Memory) -> Memory:
    """The cloud could not create some of the machines."""
    return replace(memory, scale_ups=doubted(memory.scale_ups, "web"))


def refused(memory: Memory) -> Memory:
    """The group is backed off."""
    return scale_up_failed(memory, "web", STOCK_OUT, NOW, HEALTH)


@pytest.mark.parametrize(
    ("rules", "memory", "target", "upcoming", "scaling_up"),
    [
        pytest.param(NEW, asked_for(2), 4, 2, True, id="asked for and missing"),
        pytest.param(NEW, born(NOW), 4, 0, False, id="missing, but nobody asked"),
        pytest.param(OLD, born(NOW), 4, 2, False, id="in 1.31 nobody needs to ask"),
        pytest.param(NEW, refused(disappointing(asked_for(2))), 4, 0, True, id="missing, and others failed to come"),
        pytest.param(OLD, refused(disappointing(asked_for(2))), 4, 2, True, id="which 1.31 ignored"),
        pytest.param(NEW, disappointing(asked_for(2)), 4, 2, True, id="missing, and the failure is long ago"),
        pytest.param(NEW, refused(asked_for(2)), 4, 2, True, id="asked for before the cloud refused more"),
        pytest.param(OLD, born(NOW), 2, 0, False, id="nothing is missing"),
        pytest.param(OLD, born(NOW), 1, 0, False, id="there are too many"),
    ],
)
def test_upcoming(rules: Rules, memory: Memory, target: int, upcoming: int, scaling_up: bool) -> None:
    registry = look(a_group("web", target=target), ready_nodes(2), memory=memory, rules=rules)
    state = state_of(registry)
    assert (state.upcoming, state.scaling_up) == (upcoming, scaling_up)
    assert registry.upcoming == ({"web": upcoming} if upcoming else {})


def test_upcoming_counts_what_is_not_started_unregistered_or_not_there_yet() -> None:
    nodes = [
        *ready_nodes(2),
        *unready_nodes(1),
        a_node("asleep", conditions=[SUSPENDED]),
        a_node("late", ready=False, created=NOW.wall - 5),
    ]
    registry = look(a_group("web", target=8, machines=[a_machine("booting")]), nodes, memory=asked_for(4))
    assert registry.upcoming == {"web": 4}
    assert registry.upcoming_registered == {"web": ("late",)}


def test_long_unregistered_machines_are_not_upcoming() -> None:
    group = a_group("web", target=3, machines=[a_machine("ghost")])
    memory = look(group, ready_nodes(1), rules=OLD).memory
    registry = look(group, ready_nodes(1), memory=memory, now=NOW.later(901), rules=OLD)
    assert registry.upcoming == {"web": 1}


@pytest.mark.parametrize(
    ("rules", "finished"),
    [
        pytest.param(NEW, True, id="nothing is upcoming any more"),
        pytest.param(OLD, False, id="1.31 goes by the nodes that have registered"),
    ],
)
def test_a_scale_up_is_finished(rules: Rules, finished: bool) -> None:
    group = a_group("web", target=2, machines=[a_machine("ghost")])
    memory = scaled_up(look(group, ready_nodes(1)).memory, "web", 1, NOW.later(800), 900.0)
    registry = look(group, ready_nodes(1), memory=memory, now=NOW.later(901), rules=rules)
    assert ("web" not in registry.memory.scale_ups) is finished
    assert (Incident.SCALE_UP_FINISHED in [occurrence.incident for occurrence in registry.occurrences]) is finished


@pytest.mark.parametrize("rules", [NEW, OLD], ids=["newest rules", "rules of 1.31"])
def test_a_scale_up_goes_on_while_a_node_has_not_started(rules: Rules) -> None:
    nodes = [*ready_nodes(1), *unready_nodes(1, age_s=5)]
    registry = look(a_group("web", target=2), nodes, memory=asked_for(1), now=NOW.later(70), rules=rules)
    assert state_of(registry).scaling_up


def test_a_finished_scale_up_is_reported_and_not_backed_off() -> None:
    registry = look(a_group("web", target=2), ready_nodes(2), memory=asked_for(1), now=NOW.later(70))
    (occurrence,) = registry.occurrences
    assert (occurrence.incident, occurrence.nodes, occurrence.lasted_s) == (Incident.SCALE_UP_FINISHED, 1, 70)
    assert state_of(registry).may_scale_up


@pytest.mark.parametrize(
    ("waited_s", "times_out"),
    [pytest.param(900, False, id="at the last moment"), pytest.param(900.5, True, id="just after")],
)
def test_a_scale_up_times_out(waited_s: float, times_out: bool) -> None:
    registry = look(a_group("web", target=3), ready_nodes(1), memory=asked_for(2), now=NOW.later(waited_s))
    assert bool(registry.timed_out) is times_out
    assert ("web" in registry.memory.scale_ups) is not times_out
    assert (state_of(registry).backoff is not None) is times_out
    assert registry.upcoming == ({} if times_out else {"web": 2})


def test_a_time_out_is_a_failure_with_a_code() -> None:
    registry = look(a_group("web", target=3), ready_nodes(1), memory=asked_for(2), now=NOW.later(1000))
    (occurrence,) = registry.occurrences
    assert occurrence.incident is Incident.SCALE_UP_TIMED_OUT
    assert occurrence.error is not None
    assert (occurrence.error.error_class, occurrence.error.code) == (ErrorClass.OTHER, "timeout")
    backoff = state_of(registry).backoff
    assert backoff is not None
    assert (backoff.error, backoff.until) == (occurrence.error, NOW.later(1300))


@pytest.mark.parametrize(
    ("target", "machines", "nodes", "rules", "revert"),
    [
        pytest.param(6, [], ready_nodes(1), NEW, 5, id="everything asked for is missing"),
        pytest.param(6, [], ready_nodes(4), NEW, 2, id="what came stays"),
        pytest.param(6, [a_machine("m")], ready_nodes(1), NEW, 4, id="a machine that exists stays"),
        pytest.param(6, [], [*ready_nodes(1), *unready_nodes(1, age_s=5)], NEW, 4, id="so does a starting node"),
        pytest.param(6, failing("e"), ready_nodes(1), NEW, 4, id="a failed one goes by being deleted"),
        pytest.param(9, [], ready_nodes(1), NEW, 5, id="no more than was asked for"),
        pytest.param(6, [], ready_nodes(1), OLD, 0, id="1.31 leaves the target alone"),
    ],
)
def test_a_timed_out_scale_up_is_reverted(
    target: int, machines: list[Instance], nodes: list[object], rules: Rules, revert: int
) -> None:
    registry = look(
        a_group("web", target=target, machines=machines),
        nodes,  # type: ignore[arg-type]
        memory=asked_for(5),
        now=NOW.later(1000),
        rules=rules,
    )
    (timed_out,) = registry.timed_out
    assert (timed_out.group, timed_out.revert) == ("web", revert)


@pytest.mark.parametrize(
    ("rules", "backed_off"),
    [pytest.param(NEW, False, id="not without a template"), pytest.param(OLD, True, id="always in 1.31")],
)
def test_groups_without_template_are_backed_off(rules: Rules, backed_off: bool) -> None:
    registry = look(a_group("web", target=3), memory=asked_for(2), now=NOW.later(1000), rules=rules, templated=())
    assert (state_of(registry).backoff is not None) is backed_off
    assert len(registry.timed_out) == 1


def test_a_request_of_a_vanished_group_is_dropped_silently() -> None:
    memory = scaled_up(born(NOW), "gone", 2, NOW, 900.0)
    registry = look(a_group("web", target=0), memory=memory, now=NOW.later(1000))
    assert registry.memory.scale_ups == {}
    assert registry.occurrences == ()


@pytest.mark.parametrize(
    ("at_s", "most"),
    [pytest.param(299, 4, id="while the node may still be there"), pytest.param(300, 3, id="no longer")],
)
def test_ranges_allow_for_what_is_on_the_way(at_s: float, most: int) -> None:
    memory = deletion_started(asked_for(2), "web", "n9", NOW)
    registry = look(a_group("web", target=3), ready_nodes(1), memory=memory, now=NOW.later(at_s))
    assert state_of(registry).acceptable == AcceptableRange(min_nodes=1, max_nodes=most, target=3)


def test_long_unregistered_machines_are_not_expected_to_work() -> None:
    group = a_group("web", target=4, machines=[a_machine("ghost")])
    memory = look(group, ready_nodes(3)).memory
    registry = look(group, ready_nodes(3), memory=memory, now=NOW.later(901))
    assert state_of(registry).acceptable == AcceptableRange(min_nodes=3, max_nodes=4, target=4)


@pytest.mark.parametrize(
    ("ready", "unready", "target", "memory", "healthy"),
    [
        pytest.param(0, 0, 0, born(NOW), True, id="nothing wanted, nothing there"),
        pytest.param(0, 0, 2, born(NOW), False, id="wanted and not there"),
        pytest.param(0, 0, 2, asked_for(2), True, id="all of it asked for just now"),
        pytest.param(0, 0, 2, asked_for(1), False, id="some of it missing for longer"),
        pytest.param(2, 0, 5, born(NOW), True, id="three missing are fine"),
        pytest.param(0, 3, 3, born(NOW), True, id="three unready are fine"),
        pytest.param(1, 0, 5, born(NOW), False, id="four missing beside one"),
        pytest.param(3, 6, 9, born(NOW), False, id="six of nine unready"),
        pytest.param(7, 4, 11, born(NOW), True, id="four of eleven unready"),
    ],
)
def test_health_of_a_group(ready: int, unready: int, target: int, memory: Memory, healthy: bool) -> None:
    nodes = [*ready_nodes(ready), *unready_nodes(unready)]
    strangers = ready_nodes(50, "stranger")
    state = state_of(look(a_group("web", target=target), nodes, memory=memory, strangers=strangers))
    assert (state.healthy, state.may_scale_up) == (healthy, healthy)


def test_nodes_that_have_not_started_widen_the_share() -> None:
    nodes = [*ready_nodes(1), *unready_nodes(9, age_s=5)]
    assert state_of(look(a_group("web", target=5), nodes)).healthy


def test_suspended_nodes_count_as_working_for_the_group() -> None:
    nodes = [a_node(f"s{number}", conditions=[SUSPENDED]) for number in range(6)]
    assert state_of(look(a_group("web", target=6), nodes)).healthy


def test_failed_creations_back_the_group_off_once() -> None:
    group = a_group("web", target=6, machines=failing("e0", "e1"))
    registry = look(group, ready_nodes(2), memory=asked_for(4), now=NOW.later(30))
    (occurrence,) = registry.occurrences
    assert (occurrence.incident, occurrence.nodes, occurrence.messages) == (
        Incident.CREATION_FAILED,
        2,
        ("no capacity",),
    )
    assert occurrence.error == STOCK_OUT
    assert registry.memory.scale_ups["web"].increase == 2
    assert registry.upcoming == {}

    again = look(group, ready_nodes(2), memory=registry.memory, now=NOW.later(60))
    assert again.occurrences == ()
    assert again.memory.backoffs == registry.memory.backoffs
    assert [failed_creation.instances for failed_creation in again.failed_creations] == [("e0", "e1")]


def test_old_backoffs_are_forgotten() -> None:
    memory = scale_up_failed(born(NOW), "web", STOCK_OUT, NOW, HEALTH)
    assert set(look(a_group("web", target=0), memory=memory, now=NOW.later(10_800)).memory.backoffs) == {"web"}
    assert look(a_group("web", target=0), memory=memory, now=NOW.later(10_801)).memory.backoffs == {}


def test_a_scale_up_that_has_finished_is_not_to_blame_for_failed_creations() -> None:
    registry = look(
        a_group("web", target=2, machines=failing("e0")), ready_nodes(2), memory=asked_for(2), now=NOW.later(60)
    )
    assert [occurrence.incident for occurrence in registry.occurrences] == [Incident.SCALE_UP_FINISHED]
    assert registry.memory.backoffs == {}


def test_a_group_that_is_not_scaling_up_is_not_backed_off_for_failed_creations() -> None:
    registry = look(a_group("web", target=4, machines=failing("e0", "e1")), ready_nodes(2))
    assert registry.occurrences == ()
    assert state_of(registry).backoff is None
    assert [failed_creation.instances for failed_creation in registry.failed_creations] == [("e0", "e1")]


def test_failures_are_reported_by_cause_with_their_distinct_messages() -> None:
    machines = [
        *failing("a", "b"),
        *failing("c", error=InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "no room in zone b")),
        *failing("d", error=InstanceError(ErrorClass.OTHER, "BAD_IMAGE", "no such image")),
    ]
    registry = look(a_group("web", target=4, machines=machines), memory=asked_for(4))
    codes = [
        (occurrence.error.code, occurrence.nodes, occurrence.messages)
        for occurrence in registry.occurrences
        if occurrence.error is not None
    ]
    assert codes == [("STOCKOUT", 3, ("no capacity", "no room in zone b")), ("BAD_IMAGE", 1, ("no such image",))]
    assert registry.memory.scale_ups == {}
    (backoff,) = registry.memory.backoffs.values()
    assert (backoff.error.code, backoff.duration_s) == ("BAD_IMAGE", 300)


def test_only_machines_being_created_count_as_failed_creations() -> None:
    machines = [Instance("run", State.RUNNING, STOCK_OUT), Instance("del", State.DELETING, STOCK_OUT)]
    registry = look(a_group("web", target=2, machines=machines), memory=asked_for(2))
    assert registry.failed_creations == ()
    assert registry.occurrences == ()


def test_recalculating_takes_the_target_that_was_read_back() -> None:
    registry = look(a_group("web", target=6, machines=failing("e0", "e1")), ready_nodes(4), rules=OLD)
    assert registry.upcoming == {"web": 2}
    after = recalculated(registry, registry.memory, {"web": 4}, health=HEALTH, rules=OLD)
    assert after.upcoming == {}
    assert state_of(after).acceptable.target == 4


def test_recalculating_forgets_removed_machines() -> None:
    group = a_group("web", target=5, machines=[a_machine("ghost")])
    memory = look(group, ready_nodes(2), rules=OLD).memory
    registry = look(group, ready_nodes(2), memory=memory, now=NOW.later(901), rules=OLD)
    assert registry.upcoming == {"web": 2}
    assert registry.long_unregistered[0].reason is Placeholder.UNREGISTERED
    after = recalculated(registry, registry.memory, {"web": 4}, health=HEALTH, rules=OLD, removed={"ghost"})
    assert after.upcoming == {"web": 2}
    assert after.cluster.long_unregistered == ()


def test_recalculating_shows_a_scale_up_of_this_pass() -> None:
    registry = look(a_group("web", target=2), ready_nodes(2))
    memory = scaled_up(registry.memory, "web", 3, NOW, 900.0)
    after = recalculated(registry, memory, {"web": 5}, health=HEALTH, rules=NEW)
    assert (after.upcoming, state_of(after).scaling_up) == ({"web": 3}, True)


def test_groups_keep_their_own_provision_time() -> None:
    memory = asked_for(1, provision_time_s=60.0)
    settings = GroupSettings(max_node_provision_time_s=60.0)
    registry = look(a_group("web", target=1, settings=settings), memory=memory, now=NOW.later(61))
    assert len(registry.timed_out) == 1


@pytest.mark.parametrize(
    ("rules", "known_target", "expected"),
    [
        pytest.param(NEW, None, 3, id="asked for before this process began"),
        pytest.param(NEW, 2, 1, id="the target has grown by one since the last look"),
        pytest.param(NEW, 3, 0, id="missing as before, so given up or never real"),
        pytest.param(NEW, 9, 0, id="the target has shrunk"),
        pytest.param(OLD, None, 0, id="in 1.31 nobody needs to ask"),
    ],
)
def test_machines_that_somebody_else_asked_for_are_on_their_way(
    rules: Rules, known_target: int | None, expected: int
) -> None:
    registry = look(a_group("web", target=3), rules=rules, known_target=known_target)
    request = registry.memory.scale_ups.get("web")
    assert (0 if request is None else request.increase) == expected
    assert registry.groups["web"].upcoming == (3 if expected or rules is OLD else 0)


def test_what_we_asked_for_ourselves_is_not_expected_twice() -> None:
    memory = scaled_up(born(NOW), "web", 2, NOW, 900.0)
    registry = look(a_group("web", target=2), memory=memory, known_target=0)
    assert registry.memory.scale_ups["web"].increase == 2
