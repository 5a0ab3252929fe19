"""Gangs beside capacity that is kept for others: headroom, and what ProvisioningRequests have booked."""

import pytest

from autoscaler.config.headroom import MANAGED_BY, MANAGER, POOL
from tests.gangs import a_pass, a_small_group, members, outcome, runs, too_large
from tests.manifests import Json, a_node, a_pod
from tests.unit.capacity import CHECK

NODES = ("n0", "n1")


def headroom(priority: int = -10) -> list[Json]:
    """Return pause pods that fill the nodes."""
    labels = {POOL: "p", MANAGED_BY: MANAGER}
    return [
        a_pod(f"pause-{name}", "4", owner="ReplicaSet/pause", labels=labels, priority=priority, nodeName=name)
        for name in NODES
    ]


def beside_headroom(gang: int, most: int) -> tuple[dict[str, int], set[tuple[str, str]]]:
    pods = [*members("a", gang, meta={"creationTimestamp": "2026-01-05T11:59:50Z"}), *headroom()]
    return outcome(a_pass([a_small_group("g", most)], pods, nodes=[a_node(name, "4") for name in NODES]))


@pytest.mark.parametrize(
    ("gang", "most", "bought"),
    [
        pytest.param(2, 9, {"g": 2}, id="it takes the headroom, which is bought again"),
        pytest.param(3, 9, {"g": 3}, id="it needs more than the headroom, and all its nodes are new"),
    ],
)
def test_a_gang_and_headroom(gang: int, most: int, bought: dict[str, int]) -> None:
    assert beside_headroom(gang, most) == (bought, set())


def test_a_gang_that_cannot_start_takes_no_headroom() -> None:
    bought, told = beside_headroom(8, 3)
    assert bought == {}
    assert told == {too_large("a", 8, 3)}


def test_plain_pods_get_the_room_that_a_gang_cannot_use() -> None:
    pods = [*members("a", 8), *members("", 2)]
    run = a_pass([a_small_group("g", 3)], pods, nodes=[a_node(name, "4") for name in NODES])
    assert outcome(run) == ({}, {too_large("a", 8, 3)})
    assert [sorted(waiting.pods) for waiting in run.reasons.waiting] == [["default/plain-0", "default/plain-1"]]


def test_a_gang_that_cannot_start_keeps_no_node() -> None:
    run = a_pass(
        [{**a_small_group("g", 3), "targetSize": 2}],
        members("a", 8),
        nodes=[a_node(name, "4") for name in NODES],
        nodeToGroup=dict.fromkeys(NODES, "g"),
        options={"scale-down-unneeded-time": "0s", "scale-down-delay-after-add": "0s"},
        runs=2,
    )
    assert sorted(removed.node for removed in run.deleted_empty) == list(NODES)


@pytest.mark.parametrize(
    ("booked", "bought"), [pytest.param(True, 3, id="booked"), pytest.param(False, 2, id="not booked")]
)
def test_a_gang_leaves_booked_room_alone(booked: bool, bought: int) -> None:
    """A request that only checks capacity books the room of one pod on the node that is there."""
    template = {"metadata": {"name": "worker"}, "template": a_pod("worker", "4")}
    sets = [{"count": 1, "podTemplateRef": {"name": "worker"}}]
    request = {"metadata": {"name": "r"}, "spec": {"provisioningClassName": CHECK, "podSets": sets}}
    passes = runs(
        [a_small_group("g", 9)],
        members("a", 3),
        4,
        options={"enable-provisioning-requests": "true"},
        nodes=[a_node("n", "4")],
        podTemplates=[template],
        provisioningRequests=[request] if booked else [],
    )
    assert passes[-1].target_sizes == {"g": bought}
