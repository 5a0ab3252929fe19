import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions
from autoscaler.objects.node import TO_BE_DELETED, Node
from autoscaler.registry.buckets import Buckets
from autoscaler.registry.readiness import ReadyTerms, read
from autoscaler.registry.state import update
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.groups import Groups
from cloudprovider.interface import GroupSettings, State
from tests.builders import a_group, a_node
from tests.unit.registry.pieces import (
    HEALTH,
    NEW,
    NOW,
    OLD,
    STOCK_OUT,
    SUSPENDED,
    a_machine,
    look,
    ready_nodes,
    state_of,
    unready_nodes,
)

NOTHING = GroupSettings()


def buckets_of(
    node: Node, rules: Rules = NEW, settings: GroupSettings = NOTHING, health: HealthOptions = HEALTH
) -> Buckets:
    return state_of(look(a_group("web", target=1, settings=settings), [node], rules=rules, health=health)).buckets


def names_of_filled(buckets: Buckets) -> set[str]:
    return {name for name in Buckets.__struct_fields__ if getattr(buckets, name)} - {"registered"}


@pytest.mark.parametrize(
    ("node", "rules", "bucket"),
    [
        pytest.param(a_node("n"), NEW, "ready", id="ready"),
        pytest.param(a_node("n", cordoned=True), NEW, "ready", id="cordoned but ready"),
        pytest.param(a_node("n", taints=[TO_BE_DELETED]), NEW, "deleted", id="on its way out, though ready"),
        pytest.param(a_node("n", conditions=[SUSPENDED]), NEW, "suspended", id="suspended, though ready"),
        pytest.param(a_node("n", ready=False, conditions=[SUSPENDED]), NEW, "suspended", id="suspended, not ready"),
        pytest.param(a_node("n", conditions=[SUSPENDED]), OLD, "ready", id="suspension was unknown in 1.31"),
        pytest.param(a_node("n", ready=False, created=NOW.wall - 899), NEW, "not_started", id="young and not ready"),
        pytest.param(
            a_node("n", ready=False, created=NOW.wall - 900), NEW, "unready", id="not ready when its time is over"
        ),
        pytest.param(
            a_node("n", ready=None, created=NOW.wall - 10), NEW, "not_started", id="without any readiness, young"
        ),
        pytest.param(a_node("n", ready=None), NEW, "unready", id="without any readiness, old"),
    ],
)
def test_a_registered_node_is_in_one_bucket(node: Node, rules: Rules, bucket: str) -> None:
    buckets = buckets_of(node, rules)
    assert names_of_filled(buckets) == {bucket}
    assert buckets.registered == ("n",)


@pytest.mark.parametrize(
    ("rules", "settings", "bucket"),
    [
        pytest.param(NEW, NOTHING, "not_started", id="by flag"),
        pytest.param(NEW, GroupSettings(max_node_startup_time_s=1000.0), "unready", id="the group's own comes first"),
        pytest.param(OLD, NOTHING, "unready", id="fifteen minutes in 1.31"),
    ],
)
def test_startup_time(rules: Rules, settings: GroupSettings, bucket: str) -> None:
    health = HealthOptions(max_node_startup_time_s=2000.0)
    buckets = buckets_of(a_node("n", ready=False, created=NOW.wall - 1500), rules, settings, health)
    assert names_of_filled(buckets) == {bucket}


def test_a_group_s_startup_time_does_not_reach_nodes_of_no_group() -> None:
    settings = GroupSettings(max_node_startup_time_s=10_000.0)
    young = a_node("stranger", ready=False, created=NOW.wall - 1500)
    registry = look(
        a_group("web", target=1, settings=settings),
        [a_node("n", ready=False, created=NOW.wall - 1500)],
        strangers=[young],
    )
    assert registry.cluster.not_started == ("n",)
    assert registry.cluster.unready == ("stranger",)


@pytest.mark.parametrize(
    ("gone", "taints", "bucket"),
    [
        pytest.param(frozenset({"n"}), [], "deleted", id="the provider says it is gone"),
        pytest.param(frozenset(), [TO_BE_DELETED], "ready", id="the provider says it is there, whatever the taint"),
        pytest.param(None, [TO_BE_DELETED], "deleted", id="the provider cannot tell, the taint does"),
    ],
)
def test_deleted_nodes(gone: frozenset[str] | None, taints: list[str], bucket: str) -> None:
    registry = look(a_group("web", target=1), [a_node("n", taints=taints)], gone=gone)
    assert names_of_filled(state_of(registry).buckets) == {bucket}


def test_a_node_that_lacks_its_gpu_is_resource_unready_once_its_time_is_over() -> None:
    terms = ReadyTerms(gpu_label="gpu")
    nodes = [a_node("old", labels={"gpu": "t4"}), a_node("new", labels={"gpu": "t4"}, created=NOW.wall - 60)]
    view = view_of(nodes, [], groups=Groups(all=(a_group("web", target=2),), of_node={"old": "web", "new": "web"}))
    memory = look(a_group("web", target=0)).memory
    registry = update(memory, view, read(view.nodes, terms), NOW, health=HEALTH, rules=NEW, templated=())
    buckets = state_of(registry).buckets
    assert (buckets.unready, buckets.resource_unready, buckets.not_started) == (("old",), ("old",), ("new",))


def test_nodes_of_no_group_count_in_the_cluster_only() -> None:
    registry = look(a_group("web", target=1), ready_nodes(1), strangers=[a_node("stranger")])
    assert registry.cluster.registered == ("n0", "stranger")
    assert state_of(registry).buckets.registered == ("n0",)


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        pytest.param(a_machine("m"), True, id="running"),
        pytest.param(a_machine("m", state=State.CREATING), True, id="being created"),
        pytest.param(a_machine("m", state=None), True, id="in a state that the cloud does not tell"),
        pytest.param(a_machine("m", state=State.DELETING), False, id="being deleted"),
        pytest.param(a_machine("m", state=State.CREATING, error=STOCK_OUT), False, id="failed"),
        pytest.param(a_machine("m", state=State.RUNNING, error=STOCK_OUT), False, id="running with an error"),
        pytest.param(a_machine("test://n0"), False, id="registered as a node"),
    ],
)
def test_machines_that_are_expected_to_register(machine: object, expected: bool) -> None:
    registry = look(a_group("web", target=2, machines=[machine]), ready_nodes(1))  # type: ignore[list-item]
    assert bool(state_of(registry).buckets.unregistered) is expected
    assert bool(registry.memory.unregistered) is expected


@pytest.mark.parametrize(
    ("waited_s", "settings", "overdue"),
    [
        pytest.param(900, NOTHING, False, id="within the provision time"),
        pytest.param(901, NOTHING, True, id="longer than the provision time"),
        pytest.param(901, GroupSettings(max_node_provision_time_s=1000.0), False, id="the group's own is longer"),
        pytest.param(61, GroupSettings(max_node_provision_time_s=60.0), True, id="the group's own is shorter"),
    ],
)
def test_machines_become_long_unregistered(waited_s: float, settings: GroupSettings, overdue: bool) -> None:
    group = a_group("web", target=1, machines=[a_machine("ghost")], settings=settings)
    first = look(group)
    later = look(group, memory=first.memory, now=NOW.later(waited_s))
    expected = ((), ("ghost",)) if overdue else (("ghost",), ())
    for buckets in (later.cluster, state_of(later).buckets):
        assert (buckets.unregistered, buckets.long_unregistered) == expected


def test_a_machine_that_registers_and_vanishes_starts_over() -> None:
    group = a_group("web", target=1, machines=[a_machine("test://n")])
    memory = look(group).memory
    memory = look(a_group("web", target=1), [a_node("n")], memory=memory, now=NOW.later(600)).memory
    assert memory.unregistered == {}
    again = look(group, memory=memory, now=NOW.later(1200))
    assert state_of(again).buckets.unregistered == ("test://n",)


@pytest.mark.parametrize(
    ("unready", "ready", "health", "healthy"),
    [
        pytest.param(3, 0, HEALTH, True, id="three unready nodes are fine, whatever their share"),
        pytest.param(4, 5, HEALTH, True, id="four of nine are within the share"),
        pytest.param(4, 4, HEALTH, False, id="four of eight are not"),
        pytest.param(9, 11, HEALTH, True, id="exactly the share is fine"),
        pytest.param(5, 0, HealthOptions(ok_total_unready_count=5), True, id="the count comes from the flag"),
        pytest.param(4, 16, HealthOptions(max_total_unready_percentage=10.0), False, id="so does the share"),
    ],
)
def test_health_of_the_cluster(unready: int, ready: int, health: HealthOptions, healthy: bool) -> None:
    nodes = [*ready_nodes(ready), *unready_nodes(unready)]
    assert look(a_group("web", target=len(nodes)), nodes, health=health).healthy is healthy


def test_nodes_that_have_not_started_do_not_make_the_cluster_unhealthy() -> None:
    assert look(a_group("web", target=10), unready_nodes(10, age_s=60)).healthy
