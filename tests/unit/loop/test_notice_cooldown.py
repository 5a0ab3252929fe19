"""A group whose machine is interrupted grows last for a while: pods get nodes of other groups, if any takes them."""

import pytest
from msgspec.structs import replace

from autoscaler.config.notices import NoticeOptions
from autoscaler.config.scaleup import GroupsPerPass
from autoscaler.config.tree import Config
from autoscaler.scaledown.notices import NOTICE, annotation_of
from cloudprovider.interface import NoticeKind
from tests.builders import a_pod
from tests.unit.loop.loop_world import NOW, a_spec, waiting
from tests.unit.loop.replacing_world import ReplacingWorld, old_node, on, options

SPOT, TERMINATION = NoticeKind.SPOT_INTERRUPTION, NoticeKind.TERMINATION


def noticing(*kinds: NoticeKind, cooldown_s: float = 180.0, per_pass: GroupsPerPass = GroupsPerPass.ALL) -> Config:
    config = options()
    return replace(
        config,
        notices=NoticeOptions(node_notices=kinds, notice_cooldown_s=cooldown_s),
        scale_up=replace(config.scale_up, groups_per_pass=per_pass),
        scale_down=replace(config.scale_down, scale_down_utilization_threshold=0.1),
    )


class SpotWorld(ReplacingWorld):
    """A full node of the group `a-spot`, whose machine leaves in two minutes; other groups have no local disk."""

    def __init__(self, config: Config, *others: str, kind: NoticeKind = SPOT) -> None:
        specs = [a_spec(name, boot_s=60) for name in ("a-spot", *others)]
        node = old_node("s0", labels={"disk": "local"})
        noticed = replace(node, annotations={**node.annotations, NOTICE: annotation_of(kind, NOW + 120)})
        super().__init__(*specs, config=config, nodes=[(noticed, "a-spot")], pods=(on("s0"),))

    def grown(self) -> list[str]:
        """Groups of the machines bought so far, in order."""
        return [group for verb, group, delta in self.calls if verb == "increase" for _ in range(delta)]


@pytest.mark.parametrize("per_pass", GroupsPerPass)
def test_pending_pods_and_pods_that_must_leave_get_nodes_of_other_groups(per_pass: GroupsPerPass) -> None:
    world = SpotWorld(noticing(SPOT, per_pass=per_pass), "steady")
    world.submit(waiting("new"))
    world.live(300)
    assert (world.grown(), world.unplaced) == (["steady"] * 2, 0)


def test_a_group_that_nothing_can_stand_in_for_grows_all_the_same() -> None:
    world = SpotWorld(noticing(SPOT))
    world.submit(waiting("new"))
    world.live(300)
    assert (world.grown(), world.unplaced) == (["a-spot"] * 2, 0)


def test_pods_that_no_other_group_takes_get_nodes_of_the_group() -> None:
    world = SpotWorld(noticing(SPOT), "steady")
    picky = a_pod("picky", cpu="3", unschedulable=True, selector={"disk": "local"})
    world.submit(waiting("new"), picky)
    world.run()
    assert sorted(world.grown()) == ["a-spot", "steady", "steady"]


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        pytest.param(noticing(), SPOT, id="no notices"),
        pytest.param(noticing(TERMINATION), SPOT, id="spot interruptions are not acted on"),
        pytest.param(noticing(SPOT, TERMINATION), TERMINATION, id="not a spot interruption"),
        pytest.param(noticing(SPOT, cooldown_s=0.0), SPOT, id="no cool-down"),
    ],
)
def test_without_an_interruption_that_counts_no_group_cools_down(config: Config, kind: NoticeKind) -> None:
    world = SpotWorld(config, "steady", kind=kind)
    world.submit(waiting("new"))
    world.live(60)
    assert set(world.grown()) == {"a-spot"}


def test_the_cool_down_ends_after_its_time() -> None:
    world = SpotWorld(noticing(SPOT), "steady")
    while "s0" in world.nodes:
        world.step()
    world.run()
    world.submit(waiting("early"))
    world.live(120)
    assert set(world.grown()) == {"steady"}
    world.live(120)
    world.submit(waiting("late"))
    world.live(60)
    assert world.grown()[-1] == "a-spot"


def test_the_answer_names_the_step_that_left_the_group_out() -> None:
    world = SpotWorld(noticing(SPOT), "steady")
    world.submit(waiting("new"))
    plan = world.run().scale_up.plan
    assert plan is not None
    (played,) = plan.rounds
    assert [option.group.id for option in played.options] == ["a-spot", "steady"]
    assert (played.steps[0].expander, played.steps[0].kept) == ("notice-cooldown", ("steady",))
