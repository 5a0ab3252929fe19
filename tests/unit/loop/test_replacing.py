"""Whole passes that replace nodes: others come first, then the pods move, then the old ones go."""

import msgspec
import pytest

from autoscaler.reasons import ReplacementHold, ReplacementStage, ReplacementTrigger, UnremovableReason
from autoscaler.scaledown.replacement import REQUESTED
from autoscaler.scaledown.replacement_record import STATE
from cloudprovider.interface import GroupSettings
from cloudprovider.static.spec import Call, CallFault, FaultKind
from tests.builders import a_budget
from tests.unit.loop.loop_world import a_spec
from tests.unit.loop.replacing_world import DAY_S, ReplacingWorld, old_node, on, options

AGED = options(max_node_age_s=7 * DAY_S)


def one_old_node(**about: object) -> ReplacingWorld:
    spec = a_spec("web", boot_s=60, **about)  # type: ignore[arg-type]
    return ReplacingWorld(spec, config=AGED, nodes=[(old_node(), "web")], pods=[on("old")])


def test_an_old_node_goes_once_another_has_come_for_its_pods() -> None:
    world = one_old_node()
    world.live(600)
    assert "old" not in world.nodes
    assert len(world.nodes) == 1
    assert world.unplaced == 0
    assert world.bought() == 1
    assert world.stages() == [
        ReplacementStage.BOUGHT,
        ReplacementStage.READY,
        ReplacementStage.DRAINING,
        ReplacementStage.DONE,
    ]


def test_the_old_node_stays_until_the_new_one_is_ready() -> None:
    world = one_old_node()
    world.live(60)
    assert "old" in world.nodes
    assert [call for call in world.calls if call[0] == "delete"] == []
    waiting = world.reports[-1].replacements.all[0]
    assert (waiting.stage, waiting.hold) == (ReplacementStage.BOUGHT, ReplacementHold.NOT_READY)
    assert world.reports[-1].scale_down.unremovable["old"].reason is UnremovableReason.BEING_REPLACED


def test_nothing_is_replaced_unless_it_is_asked_for() -> None:
    world = ReplacingWorld(a_spec("web", boot_s=60), config=options(), nodes=[(old_node(), "web")], pods=[on("old")])
    world.live(300)
    assert world.calls == []


def test_a_group_can_have_an_age_of_its_own() -> None:
    spec = a_spec("web", boot_s=60, settings=GroupSettings(max_node_age_s=DAY_S))
    world = ReplacingWorld(spec, config=options(), nodes=[(old_node(days=2), "web")], pods=[on("old")])
    world.live(600)
    assert "old" not in world.nodes


def test_pods_that_fit_elsewhere_need_no_new_node() -> None:
    nodes = [(old_node(), "web"), (old_node("other", days=1), "web")]
    world = ReplacingWorld(
        a_spec("web"), config=AGED, nodes=nodes, pods=[on("old", cpu="1"), on("other", "b", cpu="3")]
    )
    world.live(300)
    assert world.nodes == {"other"}
    assert world.bought() == 0


def test_the_oldest_goes_first_and_only_as_many_at_once_as_allowed() -> None:
    nodes = [(old_node(f"n{days}", days=days), "web") for days in (8, 12, 10)]
    pods = [on(f"n{days}", f"p{days}") for days in (8, 12, 10)]
    world = ReplacingWorld(a_spec("web", boot_s=60), config=AGED, nodes=nodes, pods=pods)
    gone: list[str] = []
    for _ in range(120):
        report = world.step()
        assert len([one for one in report.replacements.all if not one.over]) <= 1
        gone += [name for name in ("n8", "n12", "n10") if name not in world.nodes and name not in gone]
    assert gone == ["n12", "n10", "n8"]
    assert (world.unplaced, world.bought(), len(world.nodes)) == (0, 3, 3)


def test_a_group_at_its_minimum_grows_before_it_shrinks() -> None:
    """Its pods would fit elsewhere, but the group must not fall below its minimum."""
    specs = [a_spec("web", min_size=1, max_size=2, boot_s=60), a_spec("big", cpu="16")]
    nodes = [(old_node(), "web"), (old_node("other", days=1, cpu="16"), "big")]
    world = ReplacingWorld(*specs, config=AGED, nodes=nodes, pods=[on("old"), on("other", "b")])
    world.live(600)
    assert "old" not in world.nodes
    assert world.static.group("web").target_size() == 1
    assert world.bought() == 1


def test_a_group_at_minimum_and_maximum_cannot_replace_and_says_so() -> None:
    specs = [a_spec("web", min_size=1, max_size=1, boot_s=60), a_spec("big", cpu="16")]
    nodes = [(old_node(), "web"), (old_node("other", days=1, cpu="16"), "big")]
    world = ReplacingWorld(*specs, config=AGED, nodes=nodes, pods=[on("old"), on("other", "b")])
    world.live(60)
    assert world.calls == []
    assert world.reports[-1].replacements.held["old"].hold is ReplacementHold.MAX_SIZE


def test_a_full_group_leaves_its_node_and_says_why() -> None:
    world = one_old_node(max_size=1)
    world.live(60)
    assert world.calls == []
    assert world.reports[-1].replacements.held["old"].hold is ReplacementHold.NO_CAPACITY


def test_an_annotation_asks_for_a_replacement() -> None:
    config = options(replace_annotated_nodes=True)
    node = old_node(days=1, annotations={REQUESTED: "true"})
    world = ReplacingWorld(a_spec("web", boot_s=60), config=config, nodes=[(node, "web")], pods=[on("old")])
    world.live(600)
    assert "old" not in world.nodes
    assert world.unplaced == 0


def test_without_its_flag_the_annotation_means_nothing() -> None:
    node = old_node(days=1, annotations={REQUESTED: "true"})
    world = ReplacingWorld(a_spec("web", boot_s=60), config=AGED, nodes=[(node, "web")], pods=[on("old")])
    world.live(60)
    assert world.calls == []


def test_a_request_can_be_withdrawn_until_its_pods_leave() -> None:
    config = options(replace_annotated_nodes=True)
    node = old_node(days=1, annotations={REQUESTED: "true"})
    world = ReplacingWorld(a_spec("web", boot_s=60), config=config, nodes=[(node, "web")], pods=[on("old")])
    world.step()
    world.cluster.put_node(msgspec.structs.replace(world.cluster.nodes["old"], annotations={}))
    world.live(1200)
    assert world.nodes == {"old"}
    assert world.stages()[-1] is ReplacementStage.ABANDONED


def test_a_blocking_pod_keeps_the_node_and_nothing_is_bought() -> None:
    pods = [on("old"), on("old", "bare", cpu="100m", owner=None)]
    world = ReplacingWorld(a_spec("web", boot_s=60), config=AGED, nodes=[(old_node(), "web")], pods=pods)
    world.live(120)
    assert world.calls == []
    rest = world.reports[-1].replacements.held["old"]
    assert rest.hold is ReplacementHold.NODE_KEPT
    assert "default/bare" in rest.detail


def test_a_spent_disruption_budget_keeps_the_node_until_it_allows_again() -> None:
    world = ReplacingWorld(
        a_spec("web", boot_s=60), config=AGED, nodes=[(old_node(), "web")], pods=[on("old")], budgets=[a_budget(0)]
    )
    world.live(120)
    assert world.calls == []
    assert "NotEnoughPdb" in world.reports[-1].replacements.held["old"].detail


def test_a_disabled_node_is_not_replaced() -> None:
    node = old_node(annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    world = ReplacingWorld(a_spec("web", boot_s=60), config=AGED, nodes=[(node, "web")], pods=[on("old")])
    world.live(120)
    assert world.calls == []


def test_a_stock_out_leaves_the_node_and_does_not_buy_without_end() -> None:
    fault = CallFault(call=Call.INCREASE, error=FaultKind.OUT_OF_CAPACITY)
    world = one_old_node(call_faults=[fault])
    world.live(7200)
    assert world.nodes == {"old"}
    assert world.unplaced == 0
    tries = [call for call in world.cloud.calls if call.verb.value == "increase"]
    assert len(tries) <= 3


def test_machines_that_never_come_are_given_up_and_tried_again_later() -> None:
    world = ReplacingWorld(a_spec("web"), config=AGED, nodes=[(old_node(), "web")], pods=[on("old")])
    world.live(4 * 3600)
    assert world.nodes == {"old"}
    assert world.unplaced == 0
    assert world.bought() <= 6
    assert ReplacementStage.ABANDONED in world.stages()
    assert STATE in world.cluster.nodes["old"].annotations


@pytest.mark.parametrize("after_s", [15, 30, 60, 75, 90, 105, 120, 150])
def test_a_restart_in_the_middle_neither_buys_twice_nor_loses_anything(after_s: float) -> None:
    world = one_old_node()
    world.live(after_s)
    world.restart()
    world.live(900)
    assert "old" not in world.nodes
    assert (world.bought(), len(world.nodes), world.unplaced) == (1, 1, 0)


def test_pending_pods_do_not_count_on_the_room_of_a_replacement() -> None:
    world = one_old_node()
    world.step()
    world._wanted["default/late"] = on("", "late")
    world.live(1200)
    assert "old" not in world.nodes
    assert (world.bought(), world.unplaced) == (2, 0)


def test_new_nodes_that_wait_for_pods_are_not_unneeded() -> None:
    """The old node is kept by its budget after the new one was bought: the empty one must not go meanwhile."""
    config = options(max_node_age_s=7 * DAY_S, unneeded_s=60.0)
    world = ReplacingWorld(a_spec("web", boot_s=30), config=config, nodes=[(old_node(), "web")], pods=[on("old")])
    world.step()
    blocked = a_budget(0)
    world.related = msgspec.structs.replace(world.related, budgets={blocked.key: blocked})
    world.live(600)
    assert len(world.nodes) == 2
    assert world.reports[-1].replacements.all[0].hold is ReplacementHold.NODE_KEPT
    new = next(name for name in world.nodes if name != "old")
    assert world.reports[-1].scale_down.unremovable[new].reason is UnremovableReason.REPLACES_OTHERS
    world.related = msgspec.structs.replace(world.related, budgets={})
    world.live(300)
    assert world.nodes == {new}


def test_a_replacement_that_takes_too_long_is_given_up_and_its_new_node_goes() -> None:
    config = options(max_node_age_s=7 * DAY_S, replacement_timeout_s=300.0, unneeded_s=60.0)
    world = ReplacingWorld(a_spec("web", boot_s=30), config=config, nodes=[(old_node(), "web")], pods=[on("old")])
    world.step()
    blocked = a_budget(0)
    world.related = msgspec.structs.replace(world.related, budgets={blocked.key: blocked})
    world.live(1200)
    assert world.nodes == {"old"}
    assert world.bought() == 1
    assert world.reports[-1].replacements.held["old"].hold is ReplacementHold.TIMED_OUT


def test_people_hear_of_every_stage() -> None:
    world = one_old_node()
    world.live(600)
    told = world.messages("NodeReplacement")
    assert any(str(ReplacementStage.BOUGHT) in text for text in told)
    assert any(str(ReplacementTrigger.EXPIRED) in text for text in told)


def test_a_disruption_budget_holds_replacements_back() -> None:
    nodes = [(old_node(f"n{number}", days=8 + number), "web") for number in range(4)]
    pods = [on(f"n{number}", f"p{number}") for number in range(4)]
    config = options(max_node_age_s=7 * DAY_S, max_replacements=4, budgets="50%;group=web")
    world = ReplacingWorld(a_spec("web", boot_s=60), config=config, nodes=nodes, pods=pods)
    report = world.step()
    assert {one.id for one in report.replacements.all} == {"n3", "n2"}
    held = {name: (rest.hold, rest.detail) for name, rest in report.replacements.held.items()}
    blocked = ReplacementHold.DISRUPTION_BUDGET, "budget 50%;group=web: 2 of 2 used"
    assert held == {"n1": blocked, "n0": blocked}
    for _ in range(80):
        report = world.step()
        assert all(use.used <= use.limit for use in report.replacements.budgets)
    assert world.nodes.isdisjoint({"n0", "n1", "n2", "n3"})


def test_a_disruption_budget_holds_unneeded_nodes_back() -> None:
    nodes = [(old_node(f"n{number}", days=1), "web") for number in range(4)]
    config = options(unneeded_s=60.0, budgets="0;reason=Empty")
    world = ReplacingWorld(a_spec("web"), config=config, nodes=nodes)
    world.live(300)
    assert len(world.nodes) == 4
    unremovable = world.reports[-1].scale_down.unremovable
    assert {stays.reason for stays in unremovable.values()} == {UnremovableReason.DISRUPTION_BUDGET}
