"""Whole passes in which disruption budgets hold up replacements, and graces end."""

from typing import Any

import pytest

from autoscaler.config.drain_grace import parse_grace
from autoscaler.config.tree import Config
from autoscaler.errors import Blocked, Refused
from autoscaler.ports import EventType
from autoscaler.reasons import ReplacementHold
from autoscaler.scaledown.replacement import REQUESTED
from tests.builders import a_budget
from tests.unit.loop.loop_world import a_spec
from tests.unit.loop.replacing_world import DAY_S, ReplacingWorld, old_node, on, options

FORBIDDEN = Blocked("Cannot evict pod as it would violate the pod's disruption budget.", 429)


def graced(*graces: str, **replacement: Any) -> Config:
    written = tuple(grace for text in graces for grace in parse_grace(text))
    return options(drain_grace=written, **{"max_node_age_s": 7 * DAY_S, **replacement})


class BlockedWorld(ReplacingWorld):
    """An old node with a pod whose budget allows no disruption, neither as the cluster shows it nor when asked."""

    def __init__(self, config: Config, *, age_s: float = 7 * DAY_S - 60.0, asked: bool = False) -> None:
        node = old_node(days=age_s / DAY_S, annotations={REQUESTED: "true"} if asked else {})
        nodes = [(node, "web")]
        super().__init__(a_spec("web", boot_s=60), config=config, nodes=nodes, pods=[on("old")], budgets=[a_budget(0)])
        self.writes.refused["app"] = FORBIDDEN

    def deletions(self) -> list[str]:
        """Pods that were deleted without asking their budget."""
        return [record.target for record in self.writes.log if record.verb == "deletePod"]


def test_after_its_grace_a_budget_is_overruled_and_the_event_names_budget_and_pod() -> None:
    world = BlockedWorld(graced("expiry=1h;overrule"))
    world.live(3600)
    assert (world.deletions(), world.nodes, world.calls) == ([], {"old"}, [])
    world.live(1200)
    assert world.deletions() == ["default/app"]
    assert "old" not in world.nodes
    assert world.unplaced == 0
    told = [one for one in world.events if one.reason == "DisruptionBudgetOverruled"]
    assert {one.about.kind for one in told} == {"Pod", "Node"}
    assert {(one.kind, one.message) for one in told} == {
        (
            EventType.WARNING,
            "deleted pod default/app of node old although budget default/budget-0 allows no more disruptions: "
            "the grace of 1h is over (NodeExpired)",
        )
    }


def test_without_overrule_people_are_told_once_and_the_budget_holds() -> None:
    world = BlockedWorld(graced("expiry=1h"))
    world.live(2 * 3600)
    assert (world.deletions(), world.nodes, world.calls) == ([], {"old"}, [])
    (held,) = world.reports[-1].replacements.held.values()
    assert held.hold is ReplacementHold.GRACE_OVER
    (told,) = [one for one in world.events if one.about.kind == "Node" and "DrainGraceOver" in one.message]
    assert (told.kind, told.reason) == (EventType.WARNING, "NodeReplacementFailed")
    assert "default/app" in told.message
    assert "budget default/budget-0 allows no more disruptions; the grace of 1h is over (NodeExpired)" in told.message


@pytest.mark.parametrize(
    "grace",
    [
        pytest.param("repair=1h;overrule", id="another reason"),
        pytest.param("expiry=1h;overrule;group=other", id="another group"),
    ],
)
def test_a_grace_counts_for_its_own_reason_and_group_only(grace: str) -> None:
    world = BlockedWorld(graced(grace))
    world.live(3 * 3600)
    assert (world.deletions(), world.nodes, world.calls) == ([], {"old"}, [])


def test_a_budget_that_allows_again_is_asked() -> None:
    """Where it does not forbid the eviction, no pod is deleted behind its back."""
    world = BlockedWorld(graced("expiry=1h;overrule"))
    del world.writes.refused["app"]
    world.live(2 * 3600)
    assert "old" not in world.nodes
    assert world.deletions() == []
    assert world.messages("DisruptionBudgetOverruled") == []


def test_nothing_but_a_budget_is_overruled() -> None:
    world = BlockedWorld(graced("expiry=1h;overrule"))
    world.writes.refused["app"] = Refused('pods "app" is forbidden', 403)
    world.live(2 * 3600)
    assert world.deletions() == []
    assert "old" in world.nodes


def test_the_grace_of_a_request_counts_from_when_it_was_first_seen() -> None:
    config = graced("request=1h;overrule", replace_annotated_nodes=True, max_node_age_s=0.0)
    world = BlockedWorld(config, asked=True)
    world.live(3600)
    assert world.deletions() == []
    world.live(1200)
    assert world.deletions() == ["default/app"]


def test_a_lost_permission_to_delete_pods_keeps_the_node() -> None:
    world = BlockedWorld(graced("expiry=1h;overrule"))
    world.writes.undeletable = Refused('cannot delete resource "pods"', 403)
    world.live(2 * 3600)
    assert "old" in world.nodes
    assert any("cannot be deleted" in text for text in world.messages("ScaleDownFailed"))
