import random

import pytest

from autoscaler.scaleup.balancing import balance, within_limits
from autoscaler.scaleup.limits import Allowance
from autoscaler.snapshot.contribution import CORES, Contribution
from autoscaler.snapshot.groups import Group
from tests.seeds import seeds


def groups_of(**sizes: tuple[int, int]) -> list[Group]:
    """Groups by name, each with its target and its maximum."""
    return [Group(id=name, min_size=0, max_size=most, target_size=now) for name, (now, most) in sizes.items()]


@pytest.mark.parametrize(
    ("groups", "nodes", "increases"),
    [
        pytest.param(groups_of(a=(0, 10)), 3, {"a": 3}, id="one group takes all"),
        pytest.param(groups_of(a=(1, 10), b=(1, 10)), 4, {"a": 2, "b": 2}, id="equal groups share evenly"),
        pytest.param(groups_of(a=(1, 10), b=(1, 10)), 3, {"a": 2, "b": 1}, id="the first given gets the odd node"),
        pytest.param(groups_of(b=(1, 10), a=(1, 10)), 3, {"b": 2, "a": 1}, id="and not the first by name"),
        pytest.param(groups_of(a=(5, 10), b=(1, 10)), 3, {"b": 3}, id="the smaller catches up first"),
        pytest.param(groups_of(a=(3, 10), b=(1, 10)), 5, {"b": 4, "a": 1}, id="then both grow, the smaller first"),
        pytest.param(groups_of(a=(0, 2), b=(0, 10)), 7, {"a": 2, "b": 5}, id="a full group leaves the rest to others"),
        pytest.param(groups_of(a=(2, 2), b=(0, 3)), 2, {"b": 2}, id="a group that is full from the start is left out"),
        pytest.param(groups_of(a=(1, 2), b=(1, 2)), 9, {"a": 1, "b": 1}, id="nodes without room are dropped"),
        pytest.param(groups_of(a=(2, 2)), 3, {}, id="nothing grows where all are full"),
        pytest.param(groups_of(a=(4, 3), b=(0, 3)), 5, {"b": 3}, id="a group above its maximum has no room to lend"),
        pytest.param([], 3, {}, id="without groups nothing grows"),
        pytest.param(groups_of(a=(1, 9), b=(1, 9)), 0, {}, id="no nodes, no growth"),
        pytest.param(
            groups_of(a=(0, 9), b=(0, 9), c=(0, 1), d=(0, 9)),
            8,
            {"a": 2, "b": 3, "c": 1, "d": 2},
            id="a group found full changes places with the first, which then waits",
        ),
    ],
)
def test_balance(groups: list[Group], nodes: int, increases: dict[str, int]) -> None:
    grown = balance(groups, nodes)
    assert grown == increases
    targets = {group.id: group.target_size for group in groups}
    assert [targets[name] for name in grown] == sorted(targets[name] for name in grown)


@pytest.mark.parametrize("seed", seeds(30))
def test_balance_evens_out_and_loses_nothing(seed: int) -> None:
    draw = random.Random(seed)
    sizes = [(draw.randint(0, 6), draw.randint(0, 9)) for _ in range(draw.randint(1, 6))]
    groups = groups_of(**{f"g{i}": (min(now, most), most) for i, (now, most) in enumerate(sizes)})
    nodes = draw.randint(0, 40)
    grown = balance(groups, nodes)
    assert sum(grown.values()) == min(nodes, sum(group.room for group in groups))
    after = {group.id: group.target_size + grown.get(group.id, 0) for group in groups}
    open_groups = [after[group.id] for group in groups if after[group.id] < group.max_size]
    for group in groups:
        assert after[group.id] <= group.max_size
        if group.id in grown and open_groups:
            assert after[group.id] <= min(open_groups) + 1


def test_limits_cap_each_increase_and_give_nothing_to_others() -> None:
    small, large = Contribution(cores=2, memory_bytes=1), Contribution(cores=8, memory_bytes=1)
    # 30 cores: a takes 3 of 2 (24 left), b has room for 3 of its 5 (none left), c gets nothing.
    capped = within_limits({"a": 3, "b": 5, "c": 2}, {"a": small, "b": large, "c": small}, Allowance({CORES: 30}))
    assert capped == {"a": 3, "b": 3}
