"""The causes of replacements: which node has which, in which order, and what withdraws a replacement."""

import pytest

from autoscaler.config.scaledown import ReplacementOptions
from autoscaler.config.tree import Config
from autoscaler.objects.node import Node
from autoscaler.reasons import ReplacementTrigger
from autoscaler.registry.readiness import ReadyTerms, read
from autoscaler.scaledown.replacement import REQUESTED, Replacement, ReplacementForecast, ReplacementMemory
from autoscaler.scaledown.replacement_cause import Cause, CauseContext
from autoscaler.scaledown.replacement_causes import causes_of, seen_with
from tests.builders import a_node
from tests.unit.scaledown.pieces import NOW, Cluster

EXPIRED, ASKED_FOR, NOTICED = ReplacementTrigger.EXPIRED, ReplacementTrigger.REQUESTED, ReplacementTrigger.NOTICED


def listed(*nodes: Node, **options: object) -> list[tuple[str, ReplacementTrigger]]:
    view = Cluster(nodes).view
    context = CauseContext(
        now=NOW,
        config=Config(replacement=ReplacementOptions(**options)),  # type: ignore[arg-type]
        view=view,
        readings=read(view.nodes, ReadyTerms()),
        templates={},
        silent_s={},
        memory=ReplacementMemory(),
    )
    return [(cause.node.name, cause.trigger) for cause in causes_of(context)]


def aged(name: str, age_s: float, *, asked: bool = False) -> Node:
    return a_node(name, created=NOW.wall - age_s, annotations={REQUESTED: "true"} if asked else {})


def test_each_node_has_its_most_urgent_cause_and_requests_come_before_age() -> None:
    nodes = [aged("old", 900), aged("older-asked", 950, asked=True), aged("young-asked", 10, asked=True)]
    nodes += [aged("oldest", 1000), aged("young", 10)]
    found = listed(*nodes, max_node_age_s=600, replace_annotated_nodes=True)
    assert found == [
        ("older-asked", ASKED_FOR),
        ("young-asked", ASKED_FOR),
        ("oldest", EXPIRED),
        ("old", EXPIRED),
    ]


def test_nothing_has_a_cause_by_default() -> None:
    assert listed(aged("old", 1e9, asked=True)) == []


@pytest.mark.parametrize(("trigger", "gone"), [(ASKED_FOR, True), (NOTICED, True), (EXPIRED, False)])
def test_a_replacement_that_nothing_asks_for_is_withdrawn_unless_its_trigger_lasts(
    trigger: ReplacementTrigger, gone: bool
) -> None:
    replacement = Replacement(trigger=trigger, nodes=("old",), began=NOW)
    assert seen_with(ReplacementForecast(), replacement, {}).withdrawn is gone
    cause = Cause(trigger=NOTICED, node=a_node("old"))
    assert not seen_with(ReplacementForecast(), replacement, {"old": cause}).withdrawn


def test_a_more_urgent_cause_hastens_a_replacement_in_progress() -> None:
    replacement = Replacement(trigger=EXPIRED, nodes=("old",), began=NOW)
    cause = Cause(trigger=NOTICED, node=a_node("old"), leave_at=NOW.later(60))
    assert seen_with(ReplacementForecast(), replacement, {"old": cause}).leave_at == NOW.later(60)
