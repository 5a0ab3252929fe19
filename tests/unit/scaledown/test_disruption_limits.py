import random

import pytest

from autoscaler.config.disruption_budgets import REASONS, NodeDisruptionBudget, parse_budget
from autoscaler.scaledown.disruption_limits import DisruptionLimits, DisruptionUse
from tests.builders import a_node
from tests.unit.scaledown.pieces import Cluster

NODES = [a_node(f"{group}-{zone}-{number}", zone=zone) for group in "gh" for zone in "ab" for number in range(3)]
CLUSTER = Cluster(
    [*NODES, a_node("unmanaged", zone="a")], groups=(), of_node={node.name: node.name[0] for node in NODES}
)
MONDAY_NOON = 1_700_481_600.0
"""2023-11-20T12:00:00Z."""


def limits(*budgets: str, disrupted: dict[str, str] | None = None, wall: float = MONDAY_NOON) -> DisruptionLimits:
    read = [budget for text in budgets for budget in parse_budget(text)]
    return DisruptionLimits(read, CLUSTER.view, disrupted or {}, wall)


@pytest.mark.parametrize(
    ("budget", "names", "reason", "allowed"),
    [
        pytest.param("1", ["h-b-0"], "NodeExpired", False, id="all are used"),
        pytest.param("2", ["h-b-0"], "NodeExpired", True, id="one is left"),
        pytest.param("2", ["h-b-0", "h-b-1"], "CheaperNodes", False, id="two do not go where one is left"),
        pytest.param("10%", ["h-b-0"], "Empty", True, id="a tenth of twelve is two"),
        pytest.param("8%", ["h-b-0"], "Empty", False, id="a twelfth is one"),
        pytest.param("1;group=h", ["h-b-0"], "Unneeded", True, id="the used one is of another group"),
        pytest.param("1;group=g", ["h-b-0"], "Unneeded", True, id="another group's budget"),
        pytest.param("1;zone=a", ["h-a-0"], "Unneeded", False, id="the zone's budget"),
        pytest.param("1;zone=b", ["h-b-0"], "Unneeded", True, id="another zone"),
        pytest.param("0;reason=NodeDrifted", ["g-b-0"], "NodeExpired", True, id="another reason"),
        pytest.param("0;reason=NodeDrifted", ["g-b-0"], "NodeDrifted", False, id="its reason"),
        pytest.param("0", ["g-b-0"], "InterruptionNoticed", True, id="the cloud takes the node anyway"),
        pytest.param("0;reason=InterruptionNoticed", ["g-b-0"], "InterruptionNoticed", False, id="unless it is named"),
        pytest.param("0", ["unmanaged"], "NodeExpired", True, id="nodes of no group do not count"),
        pytest.param("0;start=0 9 * * 1-5;duration=8h", ["g-b-0"], "Empty", False, id="within its window"),
        pytest.param("0;start=0 9 * * 1-5;duration=2h", ["g-b-0"], "Empty", True, id="after its window"),
    ],
)
def test_beside_one_expired_node(budget: str, names: list[str], reason: str, allowed: bool) -> None:
    known = limits(budget, disrupted={"g-a-0": "NodeExpired"})
    assert (known.blocker(names, reason) == "") is allowed


def test_the_blocker_names_the_budget_and_its_use() -> None:
    known = limits("5", "1;group=g;reason=NodeExpired", disrupted={"g-a-0": "NodeExpired"})
    assert known.blocker(["g-b-0"], "NodeExpired") == "budget 1;group=g;reason=NodeExpired: 1 of 1 used"
    assert known.uses() == (
        DisruptionUse("5", 1, 5, True),
        DisruptionUse("1;group=g;reason=NodeExpired", 1, 1, True),
    )


def test_nodes_begun_one_by_one_never_exceed_any_budget() -> None:
    """The plain definition: after each step every budget that applies has at most its limit of matching nodes."""
    for seed in range(200):
        draw = random.Random(seed)
        budgets = [
            NodeDisruptionBudget(
                nodes=draw.choice(["0", "1", "3", "20%", "50%"]),
                group=draw.choice([None, "g", "h"]),
                zone=draw.choice([None, "a", "b"]),
                reasons=tuple(draw.sample(REASONS, draw.randint(0, 2))),
            )
            for _ in range(draw.randint(1, 4))
        ]
        known = DisruptionLimits(budgets, CLUSTER.view, {}, MONDAY_NOON)
        begun: dict[str, str] = {}
        for node in draw.sample(NODES, len(NODES)):
            reason = draw.choice(REASONS)
            after = {**begun, node.name: reason}
            counting = [budget for budget in budgets if _matching(budget, {node.name: reason})]
            fits = all(_matching(budget, after) <= _most(budget) for budget in counting)
            assert (known.blocker([node.name], reason) == "") is fits
            if fits:
                known.take([node.name], reason)
                begun = after


def _about(budget: NodeDisruptionBudget, name: str) -> bool:
    return budget.group in (None, name[0]) and budget.zone in (None, name[2])


def _matching(budget: NodeDisruptionBudget, disrupted: dict[str, str]) -> int:
    return sum(_about(budget, name) and budget.counts(reason) for name, reason in disrupted.items())


def _most(budget: NodeDisruptionBudget) -> int:
    return budget.limit(sum(_about(budget, node.name) for node in NODES))
