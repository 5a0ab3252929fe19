"""Unhealthy nodes: which are repaired, when, in which order, and what the guard holds back."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.config.repair import RepairOptions, parse_policy
from autoscaler.config.tree import Config
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.node import Node
from autoscaler.reasons import ReplacementHold
from autoscaler.registry.readiness import ReadyTerms, read
from autoscaler.scaledown.repair import sightings, unhealthy
from autoscaler.scaledown.replacement import ReplacementMemory
from autoscaler.scaledown.replacement_cause import Cause, CauseContext
from cloudprovider.interface import Instance
from tests.builders import a_group, a_node
from tests.unit.scaledown.pieces import NOW, Cluster

UNKNOWN, DEADLOCK = "Ready=Unknown;30m", "KernelDeadlock=True;10m"
HEALTHY = tuple(a_node(f"ok{number}") for number in range(9))


def sick(
    name: str, kind: str = "Ready", status: str = "Unknown", *, for_s: float | None = 3600.0, **about: Any
) -> Node:
    """A node that has had a condition for so long; None: it does not say for how long."""
    condition: dict[str, object] = {"type": kind, "status": status, "reason": "NodeStatusUnknown"}
    if for_s is not None:
        condition["lastTransitionTime"] = rfc3339(NOW.wall - for_s)
    return a_node(name, ready=None if kind == "Ready" else True, conditions=[condition], **about)


def a_context(
    nodes: Sequence[Node],
    *policies: str,
    now: Instant = NOW,
    owners: Mapping[str, str] | None = None,
    impaired: Sequence[str] = (),
    silent_s: Mapping[str, float] | None = None,
    memory: ReplacementMemory | None = None,
    **options: Any,
) -> CauseContext:
    of_node = {node.name: "g" for node in nodes} if owners is None else owners
    instances = tuple(Instance(f"test://{name}", impaired="Unhealthy") for name in impaired)
    groups = [replace(a_group(name, max_size=100), instances=instances) for name in sorted({"g", *of_node.values()})]
    view = Cluster(nodes, groups=groups, of_node=of_node).view
    written = tuple(policy for text in policies for policy in parse_policy(text))
    return CauseContext(
        now=now,
        config=Config(repair=RepairOptions(node_repair_policy=written, **options)),
        view=view,
        readings=read(view.nodes, ReadyTerms()),
        templates={},
        silent_s=silent_s or {},
        memory=memory or ReplacementMemory(),
    )


def found(nodes: Sequence[Node], *policies: str, **about: Any) -> list[Cause]:
    return list(unhealthy(a_context(nodes, *policies, **about)))


def names(causes: Sequence[Cause]) -> list[str]:
    return [cause.node.name for cause in causes]


def test_a_node_is_repaired_once_its_condition_has_lasted_longer_than_tolerated() -> None:
    nodes = (*HEALTHY, sick("bad", for_s=1800.0))
    assert found(nodes, UNKNOWN) == []
    (cause,) = found(nodes, UNKNOWN, now=NOW.later(1))
    assert (cause.node.name, cause.forced, cause.held, cause.limit) == ("bad", True, None, 1)
    assert cause.detail == "Ready=Unknown (NodeStatusUnknown) for more than 30m"
    assert cause.since is not None
    assert cause.since.wall == pytest.approx(NOW.wall)


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(sick("bad", status="False"), id="another status"),
        pytest.param(sick("bad", "DiskPressure", "True"), id="another condition"),
        pytest.param(sick("bad", for_s=-1e6), id="a time to come"),
        pytest.param(a_node("bad", ready=None), id="no condition at all"),
    ],
)
def test_any_other_node_is_left_alone(node: Node) -> None:
    assert found((*HEALTHY, node), UNKNOWN) == []


def test_nodes_without_a_group_are_not_repaired_but_count_as_nodes() -> None:
    nodes = (*HEALTHY, sick("foreign"))
    assert found(nodes, UNKNOWN, owners={node.name: "g" for node in HEALTHY}) == []


def test_a_group_with_policies_of_its_own_has_only_those() -> None:
    nodes = (*HEALTHY, sick("gpu"), sick("plain"), sick("stuck", "KernelDeadlock", "True"))
    owners = {node.name: "g" for node in nodes} | {"gpu": "gpus", "stuck": "gpus"}
    policies = (UNKNOWN, "KernelDeadlock=True;10m;group=gpus")
    options = {"owners": owners, "node_repair_max_unhealthy_percentage": 100.0}
    assert names(found(nodes, *policies, **options)) == ["stuck", "plain"]


def test_the_longest_overdue_goes_first() -> None:
    nodes = (*HEALTHY, sick("late", for_s=4000.0), sick("stuck", "KernelDeadlock", "True", for_s=3000.0))
    assert names(found(nodes, UNKNOWN, DEADLOCK)) == ["stuck", "late"]


def test_a_condition_without_a_time_counts_from_when_it_was_first_seen() -> None:
    nodes = (*HEALTHY, sick("bad", for_s=None))
    seen = sightings(a_context(nodes, UNKNOWN))
    assert list(seen.values()) == [NOW]
    memory = ReplacementMemory(first_seen=seen)
    assert found(nodes, UNKNOWN, now=NOW.later(1800), memory=memory) == []
    assert names(found(nodes, UNKNOWN, now=NOW.later(1801), memory=memory)) == ["bad"]
    assert sightings(a_context(nodes, UNKNOWN, now=NOW.later(60), memory=memory)) == seen
    assert sightings(a_context(HEALTHY, UNKNOWN, memory=memory)) == {}


def test_the_cloud_s_own_view_of_a_machine_is_a_condition_too() -> None:
    nodes, policy = (*HEALTHY, a_node("bad")), "CloudHealth=Impaired;5m"
    context = a_context(nodes, policy, impaired=["bad"])
    memory = ReplacementMemory(first_seen=sightings(context))
    (cause,) = found(nodes, policy, impaired=["bad"], now=NOW.later(301), memory=memory)
    assert cause.detail == "CloudHealth=Impaired (Unhealthy) for more than 5m"
    assert found(nodes, UNKNOWN, impaired=["bad"], now=NOW.later(301)) == []


@pytest.mark.parametrize(
    ("nodes", "hold", "detail"),
    [
        pytest.param(
            (*HEALTHY[:7], *(sick(f"bad{n}") for n in range(3))),
            ReplacementHold.TOO_MANY_UNHEALTHY,
            "3 of 10 nodes of the cluster are unhealthy, more than 20%",
            id="cluster",
        ),
        pytest.param(
            (
                *HEALTHY,
                *(a_node(f"z{n}", zone="a") for n in range(3)),
                sick("bad0", zone="a", for_s=60.0),
                sick("bad1", zone="a"),
            ),
            ReplacementHold.TOO_MANY_UNHEALTHY,
            "2 of 5 nodes of zone a are unhealthy, more than 20%",
            id="zone, with one that is still tolerated",
        ),
        pytest.param(
            (*HEALTHY, *HEALTHY, sick("bad0", zone="a"), sick("bad1", zone="a")),
            ReplacementHold.ALL_UNREACHABLE,
            "all 2 nodes of zone a",
            id="a whole zone",
        ),
    ],
)
def test_the_guard_holds_back_repairs_where_too_many_nodes_are_unhealthy(
    nodes: Sequence[Node], hold: ReplacementHold, detail: str
) -> None:
    held = {cause.held for cause in found(nodes, UNKNOWN)}
    assert [(one.hold, one.detail) for one in held if one is not None] == [(hold, detail)]


def test_no_share_lets_go_of_a_zone_that_has_fallen_silent() -> None:
    nodes = (*HEALTHY, sick("bad0", zone="a"), sick("bad1", zone="a"))
    held = [cause.held for cause in found(nodes, UNKNOWN, node_repair_max_unhealthy_percentage=100.0)]
    assert [one and one.hold for one in held] == [ReplacementHold.ALL_UNREACHABLE] * 2


def test_the_guard_of_one_group_does_not_hold_another() -> None:
    nodes = (*HEALTHY, sick("bad0"), sick("bad1"), a_node("other"))
    owners = {node.name: "g" for node in nodes} | {"bad0": "h", "other": "h"}
    causes = found(nodes, UNKNOWN, owners=owners, node_repair_max_unhealthy_percentage=17.0)
    assert {cause.node.name: cause.held for cause in causes} == {"bad0": None, "bad1": None}
    nodes = (*nodes, sick("bad2"))
    owners["bad2"] = "h"
    causes = found(nodes, UNKNOWN, owners=owners, node_repair_max_unhealthy_percentage=30.0)
    assert {cause.node.name: cause.held is not None for cause in causes} == {"bad0": True, "bad1": False, "bad2": True}


def test_nothing_is_repaired_while_the_api_server_is_silent() -> None:
    (cause,) = found((*HEALTHY, sick("bad")), UNKNOWN, silent_s={"/api/v1/nodes": 300.0})
    assert cause.held is not None
    assert cause.held.hold is ReplacementHold.API_SILENT


@pytest.mark.parametrize("seed", range(60))
def test_in_random_clusters_no_more_are_let_go_than_the_share_allows(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [
        (sick if chance.random() < 0.2 else a_node)(f"n{number}", zone=chance.choice("abc")) for number in range(30)
    ]
    owners = {node.name: chance.choice("gh") for node in nodes}
    percentage = chance.choice([0.0, 10.0, 20.0, 50.0])
    causes = found(nodes, UNKNOWN, owners=owners, node_repair_max_unhealthy_percentage=percentage)
    free = [cause.node for cause in causes if cause.held is None]
    ill = {node.name for node in nodes if node.condition("Ready").status == "Unknown"}  # type: ignore[union-attr]
    for inside in (
        lambda node, one: True,
        lambda node, one: owners[node.name] == owners[one.name],
        lambda node, one: node.zone == one.zone,
    ):
        for one in free:
            scope = [node.name for node in nodes if inside(node, one)]
            assert len(ill.intersection(scope)) <= math.ceil(percentage / 100 * len(scope))
    assert set(names(causes)) == ill
