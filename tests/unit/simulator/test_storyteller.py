from typing import Any

import pytest

from autoscaler.simulator.storyteller import Scene, changes, shown


def a_scene(**fields: Any) -> Scene:
    usual = {
        "unschedulable": 0,
        "pending": 0,
        "running": 3,
        "machines": {"a": 1, "b": 0},
        "ready_nodes": frozenset({"a-0"}),
        "drained": frozenset(),
        "ready_pods": {},
        "settled": True,
    }
    return Scene(**{**usual, **fields})


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        pytest.param({}, {"running": 4}, [], id="nothing that matters"),
        pytest.param({}, {"unschedulable": 1, "settled": False}, ["1 pod without room"], id="room is missing"),
        pytest.param({"unschedulable": 2}, {"unschedulable": 1}, [], id="room is found for some"),
        pytest.param({}, {"machines": {"a": 3, "b": 1}}, ["buys 2 a, 1 b"], id="machines are bought"),
        pytest.param({}, {"machines": {"a": 0, "b": 1}}, ["buys 1 b", "gives back 1 a"], id="one for another"),
        pytest.param({}, {"ready_nodes": frozenset({"a-1"})}, ["ready: a-1", "gone: a-0"], id="nodes come and go"),
        pytest.param({}, {"drained": frozenset({"a-0"})}, ["drains a-0"], id="a node is drained"),
        pytest.param({"settled": False}, {}, ["all 3 pods run on 1 node"], id="all is well"),
    ],
)
def test_changes_between_two_scenes(before: dict[str, Any], now: dict[str, Any], told: list[str]) -> None:
    assert list(changes(a_scene(**before), a_scene(**now))) == told


def test_commands_stand_apart() -> None:
    assert shown(["one", "two \\\nlines"]) == "\n  one\n  two \\\n  lines\n"
