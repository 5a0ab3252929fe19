import pytest

from autoscaler.config.scaledown import ScaleDown
from autoscaler.scaledown.deletion_budget import within_budgets
from autoscaler.scaledown.memory import ScaleDownMemory
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.plan import Removal
from autoscaler.scaledown.removal_rates import Rates
from tests.unit.scaledown.pieces import NOW, Begun, a_removal, names


def many(text: str, *, drained: bool = False, atomic: bool = False) -> list[Removal]:
    """Removals written `node@group`."""
    return [
        a_removal(name, group=group, drained=drained, atomic=atomic)
        for name, _, group in (one.partition("@") for one in text.split())
    ]


def start(
    empty: list[Removal],
    drained: list[Removal],
    *,
    nodes: int = 10,
    drains: int = 1,
    under_way: Begun | None = None,
    sizes: dict[str, int] | None = None,
) -> tuple[list[str], list[str]]:
    options = ScaleDown(max_scale_down_parallelism=nodes, max_drain_parallelism=drains)

    def is_atomic(group: str, count: int) -> bool:
        return (sizes or {}).get(group, count) == count

    rates, disruptions = Rates((), ScaleDownMemory(), NOW), RemainingPdbTracker()
    started = within_budgets(empty, drained, options, under_way or Begun(), rates, disruptions, is_atomic)
    return names(started.empty), names(started.drained)


@pytest.mark.parametrize(
    ("empty", "drained", "nodes", "drains", "expected"),
    [
        pytest.param("a@g b@g", "c@g d@g", 10, 2, ("ab", "cd"), id="enough for all"),
        pytest.param("a@g b@g", "c@g d@g", 10, 1, ("ab", "c"), id="one drain at a time"),
        pytest.param("a@g b@g", "c@g d@g", 3, 2, ("ab", "c"), id="empty nodes first"),
        pytest.param("a@g b@g", "c@g d@g", 2, 2, ("ab", ""), id="nothing left for drains"),
        pytest.param("a@g b@g", "c@g", 0, 1, ("", ""), id="nothing at all"),
    ],
)
def test_single_nodes(empty: str, drained: str, nodes: int, drains: int, expected: tuple[str, str]) -> None:
    found = start(many(empty), many(drained, drained=True), nodes=nodes, drains=drains)
    assert found == (list(expected[0]), list(expected[1]))


@pytest.mark.parametrize(
    ("under_way", "expected"),
    [
        pytest.param(Begun(empty={"x": "g"}), ("ab", "d"), id="an empty removal costs a node"),
        pytest.param(Begun(drained={"x": "g"}), ("ab", ""), id="a drain costs a drain as well"),
        pytest.param(Begun(empty={str(n): "g" for n in range(4)}), ("", ""), id="all in use"),
        pytest.param(Begun(empty={str(n): "g" for n in range(9)}), ("", ""), id="more than all"),
    ],
)
def test_removals_under_way(under_way: Begun, expected: tuple[str, str]) -> None:
    found = start(many("a@g b@g"), many("d@g", drained=True), nodes=4, drains=1, under_way=under_way)
    assert found == (list(expected[0]), list(expected[1]))


@pytest.mark.parametrize(
    ("empty", "drained", "nodes", "drains", "expected"),
    [
        pytest.param("a@g b@g", "", 2, 1, ("ab", ""), id="a group that fits"),
        pytest.param("a@g b@g c@g", "", 2, 1, ("abc", ""), id="the first may cost more than there is"),
        pytest.param("a@g b@g c@g d@h e@h", "", 2, 1, ("abc", ""), id="only the first"),
        pytest.param("a@g d@h e@h", "", 2, 1, ("a", ""), id="and only while it is the first"),
        pytest.param("a@g b@g", "", 0, 1, ("", ""), id="never out of nothing"),
        pytest.param("a@g", "b@g", 5, 1, ("a", "b"), id="empty and drained nodes of one group go together"),
        pytest.param("a@g", "b@g", 5, 0, ("", ""), id="or not at all"),
        pytest.param("", "a@g b@g", 5, 1, ("", "ab"), id="drains may overflow too"),
        pytest.param("a@h", "b@g c@g", 5, 2, ("a", "bc"), id="groups with empty nodes first"),
        pytest.param("a@h", "b@g c@g", 5, 1, ("a", ""), id="and no overflow after them"),
    ],
)
def test_groups_that_go_as_a_whole(
    empty: str, drained: str, nodes: int, drains: int, expected: tuple[str, str]
) -> None:
    found = start(many(empty, atomic=True), many(drained, drained=True, atomic=True), nodes=nodes, drains=drains)
    assert found == (list(expected[0]), list(expected[1]))


def test_whole_groups_go_before_single_nodes() -> None:
    empty = [*many("s@g t@g"), *many("a@h b@h", atomic=True)]
    assert start(empty, [], nodes=3) == (["a", "b", "s"], [])


def test_an_overflow_leaves_nothing_for_single_nodes() -> None:
    empty = [*many("s@g"), *many("a@h b@h c@h", atomic=True)]
    assert start(empty, many("d@g", drained=True), nodes=2) == (["a", "b", "c"], [])


def test_a_group_that_is_only_partly_there_is_passed_over() -> None:
    empty = many("a@g b@g c@h", atomic=True)
    assert start(empty, [], sizes={"g": 3, "h": 1}) == (["c"], [])
