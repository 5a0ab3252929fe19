"""What pods prefer, between options that are otherwise equal."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ScaleUp, TieBreak
from autoscaler.objects.node import ZONES, Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.requests import Requests
from autoscaler.scaleup.expander import ExpanderInputs, build_chain
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scaleup.planner import plan_scale_up
from autoscaler.scaleup.preferred import PreferredExpander
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.tie_break import dice
from tests.builders import Json, a_group, a_node, a_pod, a_situation, a_template, expression, over, replicas, term

ZONE = ZONES[0]
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"app": "web"}
NODES = {
    zone: a_node(f"template-{zone}", zone=zone, labels={"disk": "ssd" if zone == "b" else "hdd"}) for zone in "abc"
}


class OwnPrices:
    """Every group says itself what its nodes cost."""

    def node(self, node: Node) -> float | None:
        return None

    def requests(self, requests: Requests) -> float | None:
        return 0.0


def wish(weight: int, *expressions: Json) -> Json:
    return {"weight": weight, "preference": {"matchExpressions": list(expressions)}}


def in_zone(*zones: str, weight: int = 1) -> Json:
    return wish(weight, expression(ZONE, "In", *zones))


def liking(
    *wishes: Json, near: Sequence[Json] = (), away: Sequence[Json] = (), spread: Sequence[Json] = (), **more: Any
) -> Pod:
    affinity = {
        "nodeAffinity": {PREFERRED: list(wishes)},
        "podAffinity": {PREFERRED: [{"weight": 10, "podAffinityTerm": one} for one in near]},
        "podAntiAffinity": {PREFERRED: [{"weight": 10, "podAffinityTerm": one} for one in away]},
    }
    more.setdefault("name", "pod")
    return a_pod(cpu="1", labels=WEB, spread=spread, spec={"affinity": affinity}, **more)


def anyway(key: str = ZONE, **more: Any) -> Json:
    return {**over(key, labels=WEB, **more), "whenUnsatisfiable": "ScheduleAnyway"}


class Cluster:
    """A group in each zone, and pods on nodes there that are full."""

    def __init__(
        self,
        *,
        nodes: Mapping[str, Node] = NODES,
        placed: str = "",
        prices: Mapping[str, float] | None = None,
        most: Mapping[str, int] | None = None,
    ) -> None:
        self.templates = {name: a_template(node) for name, node in nodes.items()}
        self.groups = [
            a_group(name, price=None if prices is None else prices[name], max_size=(most or {}).get(name, 10))
            for name in nodes
        ]
        full = [a_node(f"old-{zone}", zone=zone, cpu="0") for zone in "abc"]
        there = [a_pod(f"old-{number}", labels=WEB, node=f"old-{zone}") for number, zone in enumerate(placed)]
        self.placer = Placer(Trial(view_of(full, there)))
        self.prices = None if prices is None else OwnPrices()

    def plan(
        self,
        pods: Sequence[Pod],
        *expanders: str,
        weighs: bool = True,
        margin: float = 0.05,
        options: ScaleUp = ScaleUp(),  # noqa: B008 it is frozen
        similar: Mapping[str, tuple[str, ...]] | None = None,
        tie_break: TieBreak = TieBreak.STABLE,
    ) -> ScaleUpPlan:
        preferred = PreferredExpander(self.placer, self.prices, margin) if weighs else None
        inputs = ExpanderInputs(dice=dice(1), tie_break=tie_break, prices=self.prices, preferred=preferred)
        chain = build_chain(expanders or ("least-waste",), inputs)
        situation = a_situation(self.groups, self.templates, similar=similar)
        return plan_scale_up(self.placer, pods, situation, chain, options, Rules())


def bought(plan: ScaleUpPlan) -> dict[str, int]:
    return {increase.group: increase.delta for increase in plan.increases}


def reasons(plan: ScaleUpPlan) -> list[str]:
    steps = [step for played in plan.rounds for step in played.steps]
    return [step.preference.text for step in steps if step.preference is not None]


def spot(*, taint: str = "spot:PreferNoSchedule") -> dict[str, Node]:
    return {
        "a-spot": a_node("spot", taints=[taint], labels={"life": "spot"}),
        "b-steady": a_node("steady", labels={"life": "steady"}),
    }


@pytest.mark.parametrize(
    ("cluster", "pod", "group", "why"),
    [
        pytest.param({}, liking(), "a", "", id="no preference leaves the choice as it was"),
        pytest.param({}, liking(in_zone("b")), "b", f"{ZONE}=b (NodeAffinity)", id="a zone"),
        pytest.param({}, liking(in_zone("b"), in_zone("c", weight=2)), "c", f"{ZONE}=c (NodeAffinity)", id="heavier"),
        pytest.param(
            {}, liking(in_zone("a", "b"), in_zone("b", "c")), "b", f"{ZONE}=b (NodeAffinity)", id="two together"
        ),
        pytest.param(
            {}, liking(wish(1, expression("disk", "NotIn", "hdd"))), "b", "disk=ssd (NodeAffinity)", id="any label"
        ),
        pytest.param({}, liking(in_zone("z")), "a", "", id="nobody has what it asks for"),
        pytest.param({}, liking(in_zone("a", "b", "c")), "a", "", id="everybody has what it asks for"),
        pytest.param({}, liking(wish(1)), "a", "", id="a term that asks for nothing matches nothing"),
        pytest.param({}, liking(in_zone("b", weight=0)), "a", "", id="a wish without weight"),
        pytest.param({}, liking(in_zone("b", weight=10**9)), "b", f"{ZONE}=b (NodeAffinity)", id="absurd weight"),
        pytest.param(
            {},
            liking(*(in_zone(*map(str, range(200))) for _ in range(60)), in_zone("b")),
            "a",
            "",
            id="too many wishes",
        ),
        pytest.param({"nodes": spot()}, liking(), "b-steady", "no taint spot (TaintToleration)", id="a soft taint"),
        pytest.param(
            {"nodes": spot()}, liking(tolerations=[{"key": "spot", "operator": "Exists"}]), "a-spot", "", id="tolerated"
        ),
        pytest.param(
            {"nodes": spot()},
            liking(wish(100, expression("life", "In", "spot"))),
            "b-steady",
            "no taint spot (TaintToleration)",
            id="taints weigh 3, node affinity 2",
        ),
        pytest.param({"placed": "ab"}, liking(spread=[anyway()]), "c", f"{ZONE}=c (PodTopologySpread)", id="spread"),
        pytest.param({"placed": "aabc"}, liking(spread=[anyway()]), "b", f"{ZONE}=b (PodTopologySpread)", id="even"),
        pytest.param({"placed": "abc"}, liking(spread=[anyway()]), "a", "", id="spread evenly"),
        pytest.param({"placed": "a"}, liking(spread=[anyway("rack")]), "a", "", id="a key that no node has"),
        pytest.param({"placed": "aab"}, liking(spread=[anyway("disk")]), "a", "", id="counted where the key is"),
        pytest.param(
            {"placed": "b"}, liking(near=[term(ZONE, labels=WEB)]), "b", f"{ZONE}=b (InterPodAffinity)", id="near"
        ),
        pytest.param(
            {"placed": "ac"}, liking(away=[term(ZONE, labels=WEB)]), "b", f"{ZONE}=b (InterPodAffinity)", id="away"
        ),
        pytest.param({"placed": "b"}, liking(near=[term(ZONE, labels={"app": "x"})]), "a", "", id="near to nobody"),
        pytest.param(
            {"placed": "aab"},
            liking(in_zone("a"), spread=[anyway()]),
            "a",
            f"{ZONE}=a (NodeAffinity)",
            id="a favourite zone with two pods more",
        ),
        pytest.param(
            {"prices": {"a": 1.0, "b": 1.05, "c": 1.0}},
            liking(in_zone("b")),
            "b",
            f"{ZONE}=b (NodeAffinity)",
            id="within the margin",
        ),
        pytest.param({"prices": {"a": 1.0, "b": 1.06, "c": 1.0}}, liking(in_zone("b")), "a", "", id="too dear"),
        pytest.param(
            {"prices": {"a": 1.0, "b": 2.0, "c": 1.0}},
            liking(in_zone("b", weight=9), in_zone("c")),
            "c",
            f"{ZONE}=c (NodeAffinity)",
            id="the next best that is cheap enough",
        ),
    ],
)
def test_one_pod(cluster: Mapping[str, Any], pod: Pod, group: str, why: str) -> None:
    plan = Cluster(**cluster).plan([pod])
    assert bought(plan) == {group: 1}
    assert reasons(plan) == ([f"1 of 1 pod prefers {why}"] if why else [])
    assert bought(Cluster(**cluster).plan([pod], weighs=False)) == {min(Cluster(**cluster).templates): 1}


@pytest.mark.parametrize(
    ("wishes", "group", "why"),
    [
        pytest.param("bba", "b", f"2 of 3 pods prefer {ZONE}=b (NodeAffinity)", id="the majority"),
        pytest.param("b--", "b", f"1 of 3 pods prefers {ZONE}=b (NodeAffinity)", id="one among many that do not mind"),
        pytest.param("abc", "a", "", id="as many for each"),
        pytest.param("bc-", "b", "", id="no group is best for all"),
    ],
)
def test_several_pods(wishes: str, group: str, why: str) -> None:
    pods = [
        liking(*([] if zone == "-" else [in_zone(zone)]), name=f"pod-{number}") for number, zone in enumerate(wishes)
    ]
    plan = Cluster().plan(pods)
    assert bought(plan) == {group: 1}
    assert [reason for reason in reasons(plan) if why] == ([why] if why else [])


@pytest.mark.parametrize(
    ("expanders", "group", "steps"),
    [
        pytest.param(("random",), "b", ["preferred"], id="before random"),
        pytest.param(("least-nodes", "random"), "b", ["least-nodes", "preferred"], id="after the others"),
        pytest.param(("preferred", "most-pods"), "b", ["preferred"], id="by name, first"),
        pytest.param(("cost",), "b", ["cost"], id="between combinations that cost the same"),
    ],
)
def test_where_preferences_stand_in_the_chain(expanders: tuple[str, ...], group: str, steps: list[str]) -> None:
    plan = Cluster(prices=dict.fromkeys("abc", 1.0)).plan([liking(in_zone("b"))], *expanders)
    assert bought(plan) == {group: 1}
    assert [step.expander for step in plan.rounds[0].steps] == steps


def test_a_chain_that_decides_alone_asks_for_no_preference() -> None:
    nodes = {"a": a_node("template-a", cpu="2", memory="2Gi", zone="a"), "b": NODES["b"]}
    plan = Cluster(nodes=nodes).plan([liking(in_zone("b"))])
    assert bought(plan) == {"a": 1}
    assert [step.expander for step in plan.rounds[0].steps] == ["least-waste"]


@pytest.mark.parametrize(
    ("price", "group"), [pytest.param(1.04, "b", id="within the margin"), pytest.param(1.1, "a", id="beyond it")]
)
def test_cost_weighs_preferences_within_its_margin(price: float, group: str) -> None:
    plan = Cluster(prices={"a": 1.0, "b": price, "c": 1.0}).plan(replicas(liking(in_zone("b")), 6), "cost")
    assert bought(plan) == {group: 2}


@pytest.mark.parametrize(
    ("pods", "most", "grown"),
    [
        pytest.param(16, {}, {"b": 4}, id="the favourite group has room"),
        pytest.param(16, {"b": 2}, {"a": 1, "b": 2, "c": 1}, id="the others take what it has no room for"),
    ],
)
def test_similar_groups_share_only_what_the_favourite_leaves(
    pods: int, most: Mapping[str, int], grown: Mapping[str, int]
) -> None:
    similar = {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
    plan = Cluster(most=most).plan(replicas(liking(in_zone("b")), pods), similar=similar)
    assert bought(plan) == grown


def test_similar_groups_share_as_ever_for_pods_that_only_spread() -> None:
    similar = {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
    plan = Cluster(placed="a").plan(replicas(liking(spread=[anyway()]), 12), similar=similar)
    assert bought(plan) == {"a": 1, "b": 1, "c": 1}


def test_points_do_not_depend_on_the_order_of_options_and_leave_the_trial_alone() -> None:
    cluster = Cluster(placed="a")
    pods = tuple(replicas(liking(in_zone("b"), spread=[anyway()]), 3))
    options = [
        Option(group=group, template=cluster.templates[group.id], nodes=1, pods=pods) for group in cluster.groups
    ]
    before = cluster.placer.trial.count
    expander = PreferredExpander(cluster.placer, None, 0.0)
    assert [[one.group.id for one in expander.best(some)] for some in (options, options[::-1])] == [["b"], ["b"]]
    assert cluster.placer.trial.count == before
    assert expander.best([]) == ()
