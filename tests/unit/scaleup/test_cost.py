import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ScaleUp
from autoscaler.objects.node import Node
from autoscaler.objects.requests import Requests
from autoscaler.scaleup.cost import CostExpander
from autoscaler.scaleup.estimator import PodGroup
from autoscaler.scaleup.expander import ExpanderInputs, build_chain
from autoscaler.scaleup.optimiser.branch_and_bound import PackingSearch
from autoscaler.scaleup.optimiser.combine import Combination, simplest
from autoscaler.scaleup.optimiser.dual_prices import solve_dual
from autoscaler.scaleup.optimiser.model import NodeOffer, PackingModel, PurchaseLimits
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.options import PackedOption
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scaleup.planner import plan_scale_up
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.overlay import Trial
from autoscaler.tie_break import dice
from cloudprovider.interface import GroupSettings
from tests.builders import a_group, a_node, a_pod, a_situation, a_template, an_option, replicas


class TemplatePrices:
    """Prices by the name of a template's node; what is not listed is not known."""

    def __init__(self, **known: float) -> None:
        self._known = known

    def node(self, node: Node) -> float | None:
        return self._known.get(node.name)

    def requests(self, requests: Requests) -> float | None:
        return None


def best(*options: Option, **known: float) -> list[str]:
    return [option.group.id for option in CostExpander(TemplatePrices(**known)).best(options)]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        pytest.param([an_option("a", 2, 10, price=1.0), an_option("b", 1, 4, price=1.0)], ["a"], id="by the pod"),
        pytest.param([an_option("a", 2, 4, price=1.0), an_option("b", 1, 2, price=1.0)], ["a", "b"], id="ties stay"),
        pytest.param([an_option("a", 1, 1), an_option("b", 9, 1, price=9.0)], ["b"], id="no price, no comparison"),
        pytest.param([an_option("a", 1, 1), an_option("b", 9, 1)], ["a", "b"], id="no prices at all"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_the_lowest_price_for_a_pod_stays(options: list[Option], kept: list[str]) -> None:
    assert best(*options) == kept


def test_a_group_without_a_price_of_its_own_costs_what_its_template_does() -> None:
    assert best(an_option("a", 1, 1), an_option("b", 1, 1, price=0.5), a=0.4) == ["a"]
    assert best(an_option("a", 1, 1, price=0.6), an_option("b", 1, 1, price=0.5), a=0.4) == ["b"]


def test_a_group_that_grows_at_once_is_paid_for_the_room_it_has() -> None:
    cost = CostExpander(TemplatePrices())
    whole = GroupSettings(zero_or_max_node_scaling=True)
    assert cost.price(an_option("a", 9, price=1.0, target=4, max_size=9, settings=whole)) == 5.0
    assert cost.price(an_option("a", 9, price=1.0, target=4, max_size=9)) == 9.0


def planned(*groups: Group, pods: int, cpu: str = "2") -> ScaleUpPlan:
    templates = {group.id: a_template(a_node(group.id)) for group in groups}
    chain = build_chain(("cost",), ExpanderInputs(dice=dice(1), prices=TemplatePrices()))
    backlog = replicas(a_pod(cpu=cpu), pods)
    placer = Placer(Trial(view_of([], [])))
    plan = plan_scale_up(placer, backlog, a_situation(groups, templates), chain, ScaleUp(), Rules())
    assert placer.trial.count == 0, "the trial is left as it was found"
    return plan


def test_a_group_of_unknown_price_grows_only_where_no_other_is_left() -> None:
    unpriced = a_group("odd", max_size=9)
    dear = a_group("dear", max_size=2, price=99.0)
    few, many, alone = planned(unpriced, dear, pods=4), planned(unpriced, dear, pods=8), planned(unpriced, pods=2)
    assert [(increase.group, increase.delta) for increase in few.increases] == [("dear", 2)]
    assert [(increase.group, increase.delta) for increase in many.increases] == [("dear", 2), ("odd", 2)]
    assert [(increase.group, increase.delta) for increase in alone.increases] == [("odd", 1)]


def candidate(price: float, *pods_by_group: tuple[str, int]) -> Combination:
    return Combination(
        tuple(PackedOption(an_option(name, 1, pods, price=1.0), ()) for name, pods in pods_by_group), price
    )


@pytest.mark.parametrize(
    ("candidates", "margin", "chosen"),
    [
        pytest.param([candidate(1.0, ("a", 3)), candidate(9.0, ("b", 4))], 0.05, 1, id="more pods come first"),
        pytest.param([candidate(1.0, ("a", 4)), candidate(0.9, ("b", 4))], 0.5, 1, id="of as many groups the cheaper"),
        pytest.param([candidate(1.05, ("a", 4)), candidate(1.0, ("a", 2), ("b", 2))], 0.05, 0, id="within the margin"),
        pytest.param([candidate(1.06, ("a", 4)), candidate(1.0, ("a", 2), ("b", 2))], 0.05, 1, id="beyond the margin"),
        pytest.param([candidate(1.0, ("a", 2), ("b", 2)), candidate(1.0, ("a", 4))], 0.0, 1, id="simpler at one price"),
    ],
)
def test_the_simplest_of_the_cheapest_that_help_most(candidates: list[Combination], margin: float, chosen: int) -> None:
    assert simplest(candidates, margin) is candidates[chosen]


def a_model(pods: int) -> PackingModel:
    """Two classes of pods, one good: a node takes two of each."""
    return PackingModel(
        offers=(NodeOffer(an_option("a", 1, 1), 1.0, 1, 99),),
        pods=tuple(PodGroup(a_pod(cpu=f"{number}").cls, tuple(replicas(a_pod(), pods))) for number in (1, 2)),
        requests=((3, 1), (1, 3)),
        capacity=((8, 8),),
        accepts=(frozenset((0, 1)),),
        limits=PurchaseLimits((99,)),
    )


def test_a_search_says_whether_its_answer_is_optimal() -> None:
    model = a_model(4)
    ample = PackingSearch(model, solve_dual(model), 1000, (8, 0.0)).run()
    assert ample.optimal
    assert ample.best is not None
    assert (ample.best.left_out, ample.best.cost(model)) == (0, 2.0)
    short = PackingSearch(model, solve_dual(model), 3, (8, 0.0)).run()
    assert (short.optimal, short.best) == (False, None)


def test_a_search_is_over_at_once_where_nothing_can_beat_what_is_known() -> None:
    model = a_model(20)
    search = PackingSearch(model, solve_dual(model), 1, (0, 10.0)).run()
    assert (search.optimal, search.best) == (True, None)


def test_the_price_of_a_pod_is_what_room_for_it_costs_in_the_right_mix() -> None:
    """Two of one class and two of the other fill a node of price 1: together they cost that."""
    model = a_model(20)
    prices = solve_dual(model)
    assert 2 * prices.by_class[0] + 2 * prices.by_class[1] == pytest.approx(1.0, abs=0.01)
    assert prices.value_of((20, 20)) <= 10.0 + 1e-9
