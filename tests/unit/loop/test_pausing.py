"""Whole passes under pauses: what each scope holds, for whom, and until when."""

import pytest

from autoscaler.objects.meta import rfc3339
from autoscaler.reasons import ReplacementHold, ScaleUpResult, Skip, UnremovableReason
from autoscaler.sandbox.capacity_objects import put_objects
from autoscaler.scaledown.pause import Pause
from tests.builders import a_node, pauses
from tests.unit.loop.loop_world import NOW, a_spec, waiting
from tests.unit.loop.replacing_world import DAY_S, ReplacingWorld, old_node, on, options

ENDS = rfc3339(NOW + 3600)


def two_unneeded() -> ReplacingWorld:
    """An empty node, one whose pod fits on a third, and the third."""
    nodes = [(a_node(name), "web") for name in ("empty", "used", "full")]
    pods = [on("used", cpu="1"), on("full", "big")]
    return ReplacingWorld(a_spec("web"), config=options(unneeded_s=0.0), nodes=nodes, pods=pods)


@pytest.mark.parametrize(
    ("scope", "kept"),
    [
        pytest.param("drift", set(), id="drift holds no scale-down"),
        pytest.param("disruption", {"used"}, id="disruption holds nodes with pods"),
        pytest.param("scale-down", {"empty", "used"}, id="scale-down holds empty nodes too"),
        pytest.param("all", {"empty", "used"}, id="all holds them as well"),
    ],
)
def test_what_a_scope_keeps_and_why_and_that_it_ends_by_itself(scope: str, kept: set[str]) -> None:
    world = two_unneeded()
    put_objects(world.writes, pauses(freeze=f"{{scope: {scope}, until: {ENDS}, by: jane, reason: freeze}}"))
    world.live(300)
    left = {"empty", "used"} & world.nodes
    assert left == kept
    for name in kept:
        stays = world.reports[-1].scale_down.unremovable[name]
        assert stays.reason is UnremovableReason.PAUSED
        assert stays.detail.endswith(f"is paused until {ENDS} by jane: freeze")
        assert stays.time_left_s is not None
        assert 3300 <= stays.time_left_s < 3600 - 250
    world.live(3600)
    assert world.nodes == {"full"}


def test_a_pause_survives_another_leader_and_ends_when_it_is_lifted() -> None:
    world = two_unneeded()
    put_objects(world.writes, pauses(freeze="scope: all"))
    world.live(60)
    world.restart()
    world.live(120)
    assert world.nodes == {"empty", "used", "full"}
    world.writes.put_config_map("kube-system", "cluster-autoscaler-pause", {"freeze": None})
    world.live(300)
    assert world.nodes == {"full"}


def test_an_unreadable_pause_keeps_pods_where_they_are() -> None:
    world = two_unneeded()
    put_objects(world.writes, pauses(freeze="scope: everything"))
    world.live(300)
    assert world.nodes == {"used", "full"}
    assert "cannot be read, so disruption is paused" in world.reports[-1].scale_down.unremovable["used"].detail


def test_a_pause_of_other_groups_keeps_nothing() -> None:
    world = two_unneeded()
    put_objects(world.writes, pauses(freeze="{scope: all, groups: [batch]}"))
    world.live(300)
    assert world.nodes == {"full"}


def test_an_annotation_pauses_one_node() -> None:
    nodes = [(a_node("spare", annotations={"pause.autoscaler/until": ENDS}), "web"), (a_node("other"), "web")]
    world = ReplacingWorld(a_spec("web"), config=options(unneeded_s=0.0), nodes=nodes)
    world.live(300)
    assert world.nodes == {"spare"}
    world.live(3600)
    assert world.nodes == set()


@pytest.mark.parametrize("entry", ["scope: disruption", "{scope: disruption, groups: [web]}"])
def test_an_old_node_waits_for_the_end_of_a_pause_and_nothing_is_bought_for_it(entry: str) -> None:
    world = ReplacingWorld(
        a_spec("web", boot_s=60),
        config=options(max_node_age_s=7 * DAY_S),
        nodes=[(old_node(), "web")],
        pods=[on("old")],
    )
    put_objects(world.writes, pauses(freeze=entry))
    world.live(300)
    assert (world.nodes, world.calls) == ({"old"}, [])
    held = world.reports[-1].replacements.held["old"]
    assert held.hold is ReplacementHold.PAUSED
    assert "is paused until it is resumed" in held.detail
    world.writes.put_config_map("kube-system", "cluster-autoscaler-pause", {"freeze": None})
    world.live(15)
    assert len(world.reports[-1].replacements.all) == 1, "seen within a pass"
    world.live(600)
    assert "old" not in world.nodes


def test_a_replacement_in_progress_stays_where_it_is() -> None:
    world = ReplacingWorld(
        a_spec("web", boot_s=60),
        config=options(max_node_age_s=7 * DAY_S),
        nodes=[(old_node(), "web")],
        pods=[on("old")],
    )
    world.live(30)
    assert world.bought() == 1
    put_objects(world.writes, pauses(freeze="scope: disruption"))
    world.live(600)
    assert "old" in world.nodes
    (replacement,) = world.reports[-1].replacements.all
    assert (replacement.hold, replacement.detail) == (
        ReplacementHold.PAUSED,
        "disruption is paused until it is resumed",
    )


@pytest.mark.parametrize(
    ("entry", "grown"),
    [("scope: all", []), ("{scope: all, groups: [web]}", ["other"]), ("scope: scale-down", ["web"])],
)
def test_only_the_scope_all_holds_scale_up(entry: str, grown: list[str]) -> None:
    world = ReplacingWorld(a_spec("web", price=1.0), a_spec("other", price=2.0), config=options())
    put_objects(world.writes, pauses(freeze=entry))
    world.submit(waiting("a"))
    report = world.run()
    assert [group for verb, group, *_ in world.calls if verb == "increase"] == grown
    plan = report.scale_up.plan
    assert plan is not None
    held = {skipped.group: skipped.detail for skipped in plan.skipped if skipped.reason is Skip.PAUSED}
    assert held.keys() == {"web", "other"} - set(grown) - ({"other"} if grown == ["web"] else set())
    assert (report.scale_up.result is ScaleUpResult.SUCCESSFUL) is bool(grown)
    assert [pause.name for pause in report.pauses.all] == ["freeze"]
    assert isinstance(report.pauses.all[0], Pause)
