"""The cheapest combination against trying everything over the plain definition of the scheduler's filters."""

import math
import random
from functools import partial

import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import GroupsPerPass, ScaleUp, TieBreak
from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.requests import Requests
from autoscaler.scaleup.estimator import pod_groups
from autoscaler.scaleup.expander import ExpanderInputs, build_chain
from autoscaler.scaleup.limits import Allowance
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scaleup.planner import plan_scale_up
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.contribution import CORES
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template
from autoscaler.tie_break import dice
from tests.builders import a_node, a_pod, a_situation, a_template, over, replicas, term
from tests.properties.slow_combination import Ware, cheapest
from tests.properties.slow_scheduler import SlowCluster
from tests.seeds import seeds

ZONE = "topology.kubernetes.io/zone"
EXACT = ScaleUp(groups_per_pass=GroupsPerPass.ALL, cost_stability_margin=0.0)


class NoPrices:
    """Every group has a price of its own."""

    def node(self, node: Node) -> float | None:
        return None

    def requests(self, requests: Requests) -> float | None:
        return 0.0


class Case:
    """Some groups with prices and limits, and pods that wait."""

    def __init__(self, seed: int, *, constrained: bool, most_pods: int, limited: bool = False) -> None:
        self.dice = random.Random(seed)
        names = [f"g{number}" for number in range(self.dice.randint(2, 4))]
        self.templates = {name: self._template(name) for name in names}
        self.groups = tuple(self._group(name, limited=limited) for name in names)
        self.nodes_total = self.dice.choice((0, 2, 3)) if limited else 0
        self.cores = self.dice.choice((None, 6, 10)) if limited else None
        self.pods = self._backlog(most_pods, constrained=constrained)

    def _template(self, name: str) -> Template:
        cpu, memory = self.dice.choice((("2", "4Gi"), ("4", "8Gi"), ("4", "16Gi"), ("8", "16Gi"), ("2", "16Gi")))
        return a_template(a_node(name, cpu=cpu, memory=memory, zone=self.dice.choice("ab")))

    def _group(self, name: str, *, limited: bool) -> Group:
        node = self.templates[name].node
        fair = node.capacity["cpu"] / 1000 * 0.04 + node.capacity["memory"] / (1 << 30) * 0.005
        price = round(fair * self.dice.choice((0.35, 0.9, 1.0, 1.0, 1.1)), 3)
        most = self.dice.randint(1, 3) if limited else 9
        return Group(id=name, min_size=0, max_size=most, target_size=0, node_price=price)

    def _backlog(self, most: int, *, constrained: bool) -> list[Pod]:
        found: list[Pod] = []
        for number in range(self.dice.randint(1, 3)):
            labels = {"app": f"app-{number}"}
            kind = self.dice.choice(("plain", "apart", "spread", "port", "near")) if constrained else "plain"
            pod = a_pod(
                f"app-{number}",
                cpu=self.dice.choice(("500m", "1", "1500m", "3")),
                memory=self.dice.choice(("512Mi", "1Gi", "3Gi", "7Gi")),
                labels=labels,
                owner=f"ReplicaSet/app-{number}",
                away=[term(HOSTNAME, labels=labels)] if kind == "apart" else (),
                spread=[over(ZONE, labels=labels)] if kind == "spread" else (),
                host_ports=[80] if kind == "port" else (),
                near=[term(HOSTNAME, labels={"app": "app-0"})] if kind == "near" and number else (),
            )
            found.extend(replicas(pod, self.dice.randint(1, most)))
        return found[:most]

    def plan(self, *expanders: str, options: ScaleUp = EXACT) -> ScaleUpPlan:
        situation = a_situation(
            self.groups,
            self.templates,
            allowance=Allowance({} if self.cores is None else {CORES: self.cores}),
            max_nodes_total=self.nodes_total,
        )
        chain = build_chain(expanders, ExpanderInputs(dice=dice(1), tie_break=TieBreak.STABLE, prices=NoPrices()))
        # Pods that follow others onto nodes that were bought for those are no part of the combination.
        rules = Rules(pods_wait_for_affinity=False)
        return plan_scale_up(Placer(Trial(view_of([], []))), self.pods, situation, chain, options, rules)

    def price(self, plan: ScaleUpPlan) -> float:
        prices = {group.id: group.node_price or 0.0 for group in self.groups}
        return math.fsum(prices[increase.group] * increase.delta for increase in plan.increases)

    def wares(self) -> list[Ware]:
        return [
            Ware(self.templates[group.id], group.node_price or 0.0, group.max_size, self._cores(group.id))
            for group in self.groups
        ]

    def _cores(self, name: str) -> int:
        return -(-self.templates[name].node.capacity["cpu"] // 1000)


def slowly(case: Case) -> tuple[int, float]:
    """Pods that cannot be helped, and what helping the others costs at least; a pod must fit some fresh node."""
    related = view_of([], []).related
    fresh = [SlowCluster([template.node], [], related) for template in case.templates.values()]
    found = pod_groups(case.pods)
    wanted = [(each.cls, len(each.pods)) for each in found if any(one.fits(each.cls, 0) for one in fresh)]
    left, price = cheapest(SlowCluster([], [], related), wanted, case.wares(), case.nodes_total or None, case.cores)
    return left + len(case.pods) - sum(count for _, count in wanted), price


@pytest.mark.parametrize("seed", seeds(150))
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(partial(Case, constrained=False, most_pods=7), id="plain pods"),
        pytest.param(partial(Case, constrained=False, most_pods=5, limited=True), id="under limits"),
        pytest.param(partial(Case, constrained=True, most_pods=5), id="constrained pods"),
    ],
)
def test_a_small_backlog_gets_the_cheapest_combination_there_is(make: partial[Case], seed: int) -> None:
    case = make(seed)
    plan = case.plan("cost")
    left, price = slowly(case)
    assert len(case.pods) - len(plan.triggered) == left
    assert case.price(plan) == pytest.approx(price)


def _alone(case: Case, group: Group) -> tuple[int, float]:
    """Pods that one group by itself helps, and at what price."""
    single = Case.__new__(Case)
    single.__dict__.update(case.__dict__, groups=(group,))
    plan = single.plan("least-nodes")
    return len(plan.triggered), single.price(plan)


@pytest.mark.parametrize("constrained", [False, True], ids=["plain pods", "constrained pods"])
@pytest.mark.parametrize("seed", seeds(40))
def test_no_single_group_helps_more_pods_or_as_many_for_less(seed: int, constrained: bool) -> None:
    case = Case(1000 + seed, constrained=constrained, most_pods=60, limited=seed % 4 == 0)
    alone = [_alone(case, group) for group in case.groups]
    for margin in (0.0, 0.05, 0.5):
        plan = case.plan("cost", options=ScaleUp(cost_stability_margin=margin))
        helped, price = len(plan.triggered), case.price(plan)
        for by_itself, its_price in alone:
            assert by_itself <= helped, margin
            assert by_itself < helped or its_price >= price - 1e-9, margin


@pytest.mark.parametrize("seed", seeds(40))
def test_no_other_expander_is_cheaper(seed: int) -> None:
    case = Case(2000 + seed, constrained=seed % 2 == 1, most_pods=80)
    ours = case.plan("cost")
    for expander in ("least-waste", "least-nodes", "most-pods"):
        theirs = case.plan(expander)
        assert len(ours.triggered) >= len(theirs.triggered), expander
        if len(ours.triggered) == len(theirs.triggered):
            assert case.price(ours) <= case.price(theirs) + 1e-9, expander
