"""Random clusters under CapacityQuotas: no purchase exceeds one, and none is left out where every quota has room."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ResourceLimits, ScaleUp, TieBreak
from autoscaler.config.syntax import Range
from autoscaler.objects.capacity import CapacityQuota
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.scaleup.capacity_quotas import obeyed
from autoscaler.scaleup.expander import ExpanderInputs, build_chain
from autoscaler.scaleup.limits import Allowance, allowance
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scaleup.planner import plan_scale_up
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template
from autoscaler.tie_break import dice
from tests.builders import a_node, a_pod, a_situation
from tests.properties.test_combining_properties import NoPrices
from tests.seeds import seeds
from tests.unit.capacity import a_quota

ZONE = "topology.kubernetes.io/zone"
DEVICE = "example.com/device"
UNLIMITED = ResourceLimits(cores_total=Range(0, 0), memory_total=Range(0, 0))
GIB = 1 << 30


class Case:
    """Nodes that are full, groups that could grow, quotas, and pods that wait."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.nodes = [self._node(f"n{number}") for number in range(self.dice.randint(0, 5))]
        names = [f"g{number}" for number in range(self.dice.randint(1, 4))]
        self.templates = {name: Template(self._node(name)) for name in names}
        prices = [self.dice.choice((0.5, 1.0, 1.7)) for _ in names]
        self.groups = tuple(
            Group(id=name, min_size=0, max_size=self.dice.randint(1, 6), target_size=0, node_price=price)
            for name, price in zip(names, prices, strict=True)
        )
        self.upcoming = {names[0]: self.dice.choice((0, 0, 1, 2))}
        self.quotas = [self._quota(number) for number in range(self.dice.randint(0, 4))]
        self.pods = [
            a_pod(f"p{number}", cpu=self.dice.choice(("1", "2500m", "4")), memory=self.dice.choice(("1Gi", "5Gi")))
            for number in range(self.dice.randint(1, 14))
        ]

    def _node(self, name: str) -> Node:
        extra = {DEVICE: "2"} if self.dice.random() < 0.3 else {}
        return a_node(
            name,
            cpu=self.dice.choice(("2", "3500m", "4", "8")),
            memory=self.dice.choice(("4Gi", "8Gi")),
            zone=self.dice.choice("abc"),
            labels={"spot": "yes"} if self.dice.random() < 0.5 else {},
            extra=extra,
        )

    def _quota(self, number: int) -> CapacityQuota:
        most: dict[str, Any] = {
            name: self.dice.choice(choices)
            for name, choices in {
                "nodes": (0, 2, 5, 9),
                "cpu": (0, 7, 16, 40),
                "memory": ("9Gi", "30Gi", "60Gi"),
                DEVICE: (0, 3, 8),
            }.items()
            if self.dice.random() < 0.5
        }
        selectors: tuple[Mapping[str, Any] | None, ...] = (
            None,
            {},
            {ZONE: self.dice.choice("abc")},
            {"spot": "yes"},
            {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]},
            {"matchExpressions": [{"key": "spot", "operator": "DoesNotExist"}]},
        )
        return a_quota(f"q{number}", most=most, selector=self.dice.choice(selectors))

    def plan(self) -> ScaleUpPlan:
        quotas = obeyed(self.quotas)
        groups = Groups(self.groups)
        left = allowance(UNLIMITED, Rules(), groups, self.templates, self.nodes, self.upcoming, quotas)
        assert isinstance(left, Allowance)
        similar = {name: tuple(other for other in self.templates if other != name) for name in self.templates}
        situation = a_situation(
            self.groups, self.templates, allowance=left, quotas=quotas, similar=self.dice.choice(({}, similar))
        )
        expander = self.dice.choice(("least-waste", "most-pods", "cost", "random"))
        chain = build_chain((expander,), ExpanderInputs(dice=dice(1), tie_break=TieBreak.STABLE, prices=NoPrices()))
        return plan_scale_up(Placer(Trial(view_of([], []))), self.pods, situation, chain, ScaleUp(), Rules())


def selected(quota: CapacityQuota, node: Node) -> bool:
    """Whether a quota selects a node, as the API says; only for the selectors above."""
    selector = quota.spec.selector
    if selector is None:
        return True
    for key, value in selector.match_labels.items():
        if node.labels.get(key) != value:
            return False
    for expression in selector.match_expressions:
        there = node.labels.get(expression.key)
        if (there in expression.values) if expression.operator == "NotIn" else there is not None:
            return False
    return True


def used(quota: CapacityQuota, resource: str, nodes: list[Node]) -> int:
    total = 0
    for node in nodes:
        if selected(quota, node):
            cores = -(-node.capacity["cpu"] // 1000)
            total += {"nodes": 1, "cpu": cores, "memory": node.capacity["memory"]}.get(
                resource, node.capacity.get(resource, 0)
            )
    return total


def limit(quota: CapacityQuota, resource: str) -> int:
    most = str(quota.spec.limits.resources[resource])
    return int(most.removesuffix("Gi")) * GIB if most.endswith("Gi") else int(most)


def room_for(case: Case, name: str, nodes: list[Node]) -> bool:
    """Whether one more node of a group exceeds no quota that selects it."""
    new = case.templates[name].node
    return all(
        used(quota, resource, [new]) == 0 or used(quota, resource, [*nodes, new]) <= limit(quota, resource)
        for quota in case.quotas
        for resource in quota.spec.limits.resources
        if selected(quota, new)
    )


def takes(node: Node, pod: Pod) -> bool:
    return all(node.allocatable.get(resource, 0) >= amount for resource, amount in pod.cls.requests.items())


@pytest.mark.parametrize("seed", seeds(300))
def test_quotas_are_never_exceeded_and_hold_nothing_that_they_do_not_limit(seed: int) -> None:
    case = Case(seed)
    before = [*case.nodes, *(case.templates[name].node for name, count in case.upcoming.items() for _ in range(count))]
    plan = case.plan()
    grown = {group.id: 0 for group in case.groups}
    for increase in plan.increases:
        grown[increase.group] += increase.delta
    bought = [case.templates[name].node for name, count in grown.items() for _ in range(count)]
    after = before + bought
    for quota in case.quotas:
        for resource in quota.spec.limits.resources:
            if used(quota, resource, bought):
                assert used(quota, resource, after) <= limit(quota, resource), (quota.name, resource)
    helped = {pod.key for pod in plan.triggered}
    for pod in case.pods:
        if pod.key not in helped:
            assert not [
                group.id
                for group in case.groups
                if grown[group.id] < group.max_size
                and takes(case.templates[group.id].node, pod)
                and room_for(case, group.id, after)
            ]
