import msgspec

from autoscaler.registry import memory as remembered
from autoscaler.registry.memory import Memory, born
from tests.builders import a_group
from tests.unit.registry.pieces import HEALTH, NOW, STOCK_OUT, a_machine, failing, look, ready_nodes


def full_memory() -> Memory:
    """One with something in every field."""
    memory = look(a_group("web", target=9, machines=[a_machine("ghost"), *failing("e0")]), ready_nodes(2)).memory
    memory = remembered.scaled_up(memory, "web", 3, NOW, 900.0)
    memory = remembered.deletion_started(memory, "web", "n9", NOW)
    memory = remembered.deletion_failed(memory, "db", NOW.later(1))
    return remembered.scale_up_failed(memory, "web", STOCK_OUT, NOW, HEALTH)


def test_the_example_fills_every_field() -> None:
    assert all(getattr(full_memory(), field) for field in Memory.__struct_fields__)


def test_a_new_process_has_done_nothing_for_an_hour() -> None:
    last = born(NOW).last
    assert last.scale_up == last.scale_down == last.scale_down_failure == NOW.later(-3600)


def test_actions_are_remembered_for_the_cluster_and_for_the_group() -> None:
    memory = remembered.scaled_up(born(NOW), "web", 2, NOW.later(1), 900.0)
    memory = remembered.scale_up_succeeded(memory, NOW.later(2))
    memory = remembered.deletion_started(memory, "web", "n1", NOW.later(3))
    memory = remembered.scale_down_started(memory, NOW.later(4))
    memory = remembered.deletion_failed(memory, "web", NOW.later(5))
    memory = remembered.scale_down_failed(memory, NOW.later(6))
    of_group = memory.last_by_group["web"]
    assert [of_group.scale_up, of_group.scale_down, of_group.scale_down_failure] == [NOW.later(s) for s in (1, 3, 5)]
    of_all = memory.last
    assert [of_all.scale_up, of_all.scale_down, of_all.scale_down_failure] == [NOW.later(s) for s in (2, 4, 6)]


def test_fewer_nodes_than_asked_for_are_no_scale_up_of_the_group() -> None:
    memory = remembered.scaled_up(born(NOW), "web", -1, NOW, 900.0)
    assert memory.last_by_group == {}


def test_a_group_that_is_gone_is_forgotten_a_day_after_its_last_action() -> None:
    memory = remembered.deletion_failed(born(NOW), "gone", NOW)
    memory = remembered.deletion_failed(memory, "there", NOW)
    soon, later = NOW.later(86399), NOW.later(86400)
    assert set(remembered.without_vanished(memory, {"there"}, soon).last_by_group) == {"gone", "there"}
    assert set(remembered.without_vanished(memory, {"there"}, later).last_by_group) == {"there"}
    assert "gone" not in look(a_group("web", target=2), ready_nodes(2), memory=memory, now=later).memory.last_by_group


def test_a_memory_survives_json() -> None:
    memory = full_memory()
    assert msgspec.json.decode(msgspec.json.encode(memory), type=Memory) == memory
