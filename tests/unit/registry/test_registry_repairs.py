import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry.instances import Placeholder
from autoscaler.registry.memory import Memory
from autoscaler.registry.occurrence import Incident
from autoscaler.registry.sizes import SizeFix
from autoscaler.registry.state import Registry
from autoscaler.snapshot.groups import Group
from cloudprovider.interface import GroupSettings
from tests.builders import a_group, a_node
from tests.unit.registry.pieces import (
    HEALTH,
    NEW,
    NOW,
    OLD,
    SUSPENDED,
    a_machine,
    failing,
    look,
    ready_nodes,
    unready_nodes,
)

ATOMIC = GroupSettings(zero_or_max_node_scaling=True)
PARTIAL = GroupSettings(zero_or_max_node_scaling=True, allow_non_atomic_scale_up_to_max=True)
GHOSTS = [a_machine(f"ghost{number}") for number in range(3)]


def overdue(group: Group, health: HealthOptions = HEALTH, rules: Rules = NEW) -> Registry:
    """The pass in which the group's machines have been unregistered for too long."""
    nodes = ready_nodes(2)
    memory = look(group, nodes, health=health, rules=rules).memory
    return look(group, nodes, memory=memory, now=NOW.later(901), health=health, rules=rules)


@pytest.mark.parametrize(
    ("target", "min_size", "health", "removed", "kept"),
    [
        pytest.param(5, 0, HEALTH, 3, 0, id="all of them"),
        pytest.param(5, 3, HEALTH, 2, 1, id="not below the minimum size"),
        pytest.param(5, 5, HEALTH, 0, 3, id="none at the minimum size"),
        pytest.param(4, 5, HEALTH, 0, 3, id="none below it"),
        pytest.param(5, 5, HealthOptions(force_delete_unregistered_nodes=True), 3, 0, id="all of them by force"),
    ],
)
def test_long_unregistered_machines_are_removed(
    target: int, min_size: int, health: HealthOptions, removed: int, kept: int
) -> None:
    registry = overdue(a_group("web", target=target, machines=GHOSTS, min_size=min_size), health)
    removals = registry.long_unregistered
    assert [removal.instances for removal in removals] == (
        [("ghost0", "ghost1", "ghost2")[:removed]] if removed else []
    )
    assert all(removal.because_of == removal.instances for removal in removals)
    assert all(removal.force is health.force_delete_unregistered_nodes for removal in removals)
    found = [
        occurrence.nodes for occurrence in registry.occurrences if occurrence.incident is Incident.UNREGISTERED_KEPT
    ]
    assert found == ([kept] if kept else [])


def test_machines_that_may_still_register_are_left_alone() -> None:
    assert look(a_group("web", target=5, machines=GHOSTS), ready_nodes(2)).long_unregistered == ()


@pytest.mark.parametrize(
    ("settings", "rules", "instances", "reason"),
    [
        pytest.param(
            ATOMIC,
            NEW,
            ("test://n0", "test://n1", "ghost0", "ghost1", "ghost2"),
            Placeholder.ATOMIC,
            id="all or nothing",
        ),
        pytest.param(PARTIAL, NEW, None, None, id="which may stay incomplete"),
        pytest.param(
            PARTIAL,
            OLD,
            ("test://n0", "test://n1", "ghost0", "ghost1", "ghost2"),
            Placeholder.ATOMIC,
            id="which 1.31 did not know",
        ),
    ],
)
def test_all_or_nothing_groups(
    settings: GroupSettings, rules: Rules, instances: tuple[str, ...] | None, reason: Placeholder | None
) -> None:
    removals = overdue(a_group("web", target=5, machines=GHOSTS, settings=settings), rules=rules).long_unregistered
    if instances is None:
        assert removals == ()
    else:
        (removal,) = removals
        assert (removal.instances, removal.reason) == (instances, reason)
        assert removal.because_of == ("ghost0", "ghost1", "ghost2")


@pytest.mark.parametrize(
    ("settings", "nodes", "instances"),
    [
        pytest.param(GroupSettings(), 2, ("e0", "e1"), id="the failed ones"),
        pytest.param(ATOMIC, 2, ("test://n0", "test://n1", "e0", "e1"), id="everything where all or nothing"),
        pytest.param(PARTIAL, 2, None, id="nothing where it may stay incomplete"),
        pytest.param(PARTIAL, 0, ("e0", "e1"), id="unless all of them failed"),
    ],
)
def test_failed_creations_are_deleted(settings: GroupSettings, nodes: int, instances: tuple[str, ...] | None) -> None:
    health = HealthOptions(force_delete_failed_nodes=True)
    registry = look(
        a_group("web", target=4, machines=failing("e0", "e1"), settings=settings, min_size=4),
        ready_nodes(nodes),
        health=health,
    )
    assert [failed_creation.instances for failed_creation in registry.failed_creations] == (
        [] if instances is None else [instances]
    )
    assert all(failed_creation.force for failed_creation in registry.failed_creations)


def observe(target: int, nodes: int, memory: Memory | None, at_s: float) -> Registry:
    return look(a_group("web", target=target), ready_nodes(nodes), memory=memory, now=NOW.later(at_s))


@pytest.mark.parametrize(
    ("at_s", "fixes"),
    [
        pytest.param(900, (), id="not within the provision time"),
        pytest.param(901, (SizeFix("web", 2),), id="after it"),
    ],
)
def test_a_target_that_stays_too_large_is_lowered(at_s: float, fixes: tuple[SizeFix, ...]) -> None:
    first = observe(5, 3, None, 0)
    assert observe(5, 3, first.memory, at_s).size_fixes == fixes


def test_a_disagreement_that_changes_starts_over() -> None:
    memory = observe(5, 3, None, 0).memory
    memory = observe(5, 2, memory, 600).memory
    assert observe(5, 2, memory, 901).size_fixes == ()
    assert observe(5, 2, memory, 1501).size_fixes == (SizeFix("web", 3),)


def test_a_disagreement_that_ends_is_forgotten() -> None:
    memory = observe(5, 3, None, 0).memory
    memory = observe(5, 5, memory, 600).memory
    assert memory.incorrect_sizes == {}


def test_targets_are_never_raised() -> None:
    memory = observe(3, 5, None, 0).memory
    assert memory.incorrect_sizes["web"].registered == 5
    assert observe(3, 5, memory, 5000).size_fixes == ()


def test_unregistered_machines_explain_a_difference() -> None:
    registry = look(a_group("web", target=5, machines=GHOSTS), ready_nodes(2))
    assert registry.memory.incorrect_sizes == {}


def test_a_target_is_not_lowered_below_the_machines_that_exist() -> None:
    group = a_group("web", target=7, machines=[a_machine("ghost")])
    memory = look(group, ready_nodes(2)).memory
    registry = look(group, ready_nodes(2), memory=memory, now=NOW.later(901))
    assert registry.size_fixes == (SizeFix("web", 4),)


def test_nor_below_those_that_failed_which_are_deleted_by_themselves() -> None:
    group = a_group("web", target=4, machines=failing("dud"))
    memory = look(group, ready_nodes(2)).memory
    assert look(group, ready_nodes(2), memory=memory, now=NOW.later(901)).size_fixes == (SizeFix("web", 1),)
    group = a_group("web", target=3, machines=failing("dud"))
    memory = look(group, ready_nodes(2)).memory
    assert look(group, ready_nodes(2), memory=memory, now=NOW.later(901)).size_fixes == ()


def test_the_group_s_own_provision_time_holds_for_sizes() -> None:
    group = a_group("web", target=5, settings=GroupSettings(max_node_provision_time_s=60.0))
    memory = look(group, ready_nodes(3)).memory
    assert look(group, ready_nodes(3), memory=memory, now=NOW.later(61)).size_fixes == (SizeFix("web", 2),)


def test_nodes_count_for_the_size_whatever_their_state() -> None:
    nodes = [
        *ready_nodes(1),
        *unready_nodes(1),
        a_node("late", ready=False, created=NOW.wall - 5),
        a_node("s", conditions=[SUSPENDED]),
    ]
    assert look(a_group("web", target=4), nodes).memory.incorrect_sizes == {}
