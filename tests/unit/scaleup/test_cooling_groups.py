"""Groups that cool down in a plan: others come first, and no pod is left without a node because of it."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ScaleUp
from autoscaler.scaleup.expander import Expander, ExpanderChain, ExpanderInputs, MostPods
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scaleup.planner import plan_scale_up
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.tie_break import dice
from tests.builders import a_group, a_node, a_pod, a_situation, a_template, replicas


class OnlySpot:
    """Wants no other group."""

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        return [option for option in options if option.group.id == "spot"]


def planned(
    pods: int,
    *,
    most: Mapping[str, int],
    expander: Expander,
    cooling: Sequence[str] = ("spot",),
    alike: bool = False,
    all_or_nothing: bool = False,
) -> ScaleUpPlan:
    """Return the plan for pods that fill a node each; groups by their largest size."""
    groups = [a_group(name, max_size=size) for name, size in most.items()]
    templates = {group.id: a_template(a_node(group.id)) for group in groups}
    similar = {name: tuple(other for other in most if other != name) for name in most} if alike else {}
    situation = replace(a_situation(groups, templates, similar=similar), cooling=frozenset(cooling))
    chain = ExpanderChain([("test", expander)], ExpanderInputs(dice=dice(1)))
    placer = Placer(Trial(view_of([], [])))
    backlog = replicas(a_pod(cpu="3"), pods)
    return plan_scale_up(placer, backlog, situation, chain, ScaleUp(), Rules(), all_or_nothing=all_or_nothing)


def grown(plan: ScaleUpPlan) -> dict[str, int]:
    return {increase.group: increase.delta for increase in plan.increases}


@pytest.mark.parametrize("alike", [False, True])
def test_other_groups_grow_first_and_the_rest_goes_to_the_group_that_cools_down(alike: bool) -> None:
    most = {"spot": 9, "steady": 2}
    assert grown(planned(2, most=most, expander=MostPods(), alike=alike)) == {"steady": 2}
    assert grown(planned(5, most=most, expander=MostPods(), alike=alike)) == {"steady": 2, "spot": 3}


def test_similar_groups_that_all_cool_down_share() -> None:
    plan = planned(4, most={"spot": 9, "steady": 9}, expander=MostPods(), cooling=("spot", "steady"), alike=True)
    assert grown(plan) == {"spot": 2, "steady": 2}


def test_the_group_grows_where_expanders_want_no_other() -> None:
    plan = planned(2, most={"spot": 9, "steady": 9}, expander=OnlySpot())
    assert (grown(plan), len(plan.triggered)) == ({"spot": 2}, 2)


def test_the_group_grows_where_no_other_takes_all_pods_of_one_choice() -> None:
    plan = planned(3, most={"spot": 9, "steady": 2}, expander=MostPods(), all_or_nothing=True)
    assert grown(plan) == {"spot": 3}
