from collections.abc import Sequence

import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import TieBreak
from autoscaler.errors import ConfigError
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.node import Node
from autoscaler.objects.requests import Requests
from autoscaler.objects.workload import ConfigMap
from autoscaler.scaleup.choice import ExpanderStep
from autoscaler.scaleup.expander import (
    Expander,
    ExpanderInputs,
    LeastNodes,
    LeastWaste,
    MostPods,
    Random,
    build_chain,
    problems,
)
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.priority import PriorityWarning
from autoscaler.tie_break import dice
from tests.builders import a_node, a_pod, an_option

GIB = 1 << 30
POD = a_pod(cpu="500m", memory="2Gi", spec={"initContainers": [{"resources": {"requests": {"cpu": "1"}}}]})
"""Asks for one CPU to start, and for half of one from then on."""
MODEST = a_node(allocatable={"cpu": "1m", "memory": "1"})


def best(expander: Expander, *options: Option) -> list[str]:
    return [option.group.id for option in expander.best(options)]


@pytest.mark.parametrize(
    ("expander", "options", "kept"),
    [
        pytest.param(MostPods(), [an_option("a", pods=3), an_option("b", pods=5)], ["b"], id="most pods"),
        pytest.param(MostPods(), [an_option("a", pods=5), an_option("b", pods=5)], ["a", "b"], id="as many pods"),
        pytest.param(LeastNodes(), [an_option("a", nodes=3), an_option("b", nodes=2)], ["b"], id="fewest nodes"),
        pytest.param(LeastNodes(), [an_option("a", nodes=2), an_option("b", nodes=2)], ["a", "b"], id="as few nodes"),
        pytest.param(
            LeastNodes(), [an_option("a", nodes=0), an_option("b", nodes=2)], ["b"], id="no nodes is no offer"
        ),
        pytest.param(LeastWaste(), [an_option("a", pod=POD), an_option("b", pods=2, pod=POD)], ["b"], id="less waste"),
        pytest.param(
            LeastWaste(),
            [an_option("a", pods=2, pod=POD), an_option("b", pods=2, pod=POD)],
            ["a", "b"],
            id="as much waste",
        ),
    ],
)
def test_simple_expanders(expander: Expander, options: list[Option], kept: list[str]) -> None:
    assert best(expander, *options) == kept


@pytest.mark.parametrize(
    "expander", [MostPods(), LeastNodes(), LeastWaste(), Random(dice(0))], ids=lambda one: type(one).__name__
)
def test_of_nothing_comes_nothing(expander: Expander) -> None:
    assert best(expander) == []


@pytest.mark.parametrize(
    ("option", "plain", "waste"),
    [
        # 8 cores and 32 GiB for 5 pods of 1 core and 2 GiB: 3/8 + 22/32.
        pytest.param(
            an_option("a", nodes=2, pods=5, pod=POD, node=MODEST), False, 0.375 + 0.6875, id="two nodes, half used"
        ),
        # 8 cores and 16 GiB for the same: 3/8 + 6/16.
        pytest.param(an_option("a", pods=5, pod=POD, node=a_node(cpu="8")), False, 0.375 + 0.375, id="one larger node"),
        # Plain containers ask for half a core each: 5.5/8 + 22/32.
        pytest.param(an_option("a", nodes=2, pods=5, pod=POD), True, 0.6875 + 0.6875, id="plain containers only"),
        pytest.param(an_option("a", pods=4, pod=POD, node=a_node(memory="8Gi")), False, 0.0, id="nothing is wasted"),
        pytest.param(
            an_option("a", pods=0, node=a_node(cpu="0", memory="0")), False, 0.0, id="a node of nothing wastes nothing"
        ),
    ],
)
def test_waste_goes_by_capacity(option: Option, plain: bool, waste: float) -> None:
    assert LeastWaste(plain_containers=plain).waste(option) == waste


def test_random_is_fixed_by_its_seed_and_reaches_every_option() -> None:
    options = [an_option("a"), an_option("b"), an_option("c")]
    first, second = Random(dice(7)), Random(dice(7))
    drawn = [best(first, *options) for _ in range(50)]
    assert drawn == [best(second, *options) for _ in range(50)]
    assert {one for (one,) in drawn} == {"a", "b", "c"}


def supplies(
    tie_break: TieBreak = TieBreak.STABLE, priorities: str | None = None, rules: Rules | None = None
) -> ExpanderInputs:
    config_map = None
    if priorities is not None:
        config_map = ConfigMap(metadata=ObjectMeta(name="p"), data={"priorities": priorities})
    return ExpanderInputs(dice=dice(1), tie_break=tie_break, priorities=config_map, rules=rules or Rules())


def test_a_chain_narrows_until_one_is_left() -> None:
    options = [an_option("a", pods=5, nodes=3), an_option("b", pods=5, nodes=2), an_option("c", pods=4)]
    choice = build_chain(("most-pods", "least-nodes", "least-waste"), supplies()).choose(options)
    assert choice.option is options[1]
    assert choice.steps == (
        ExpanderStep("most-pods", ("a", "b"), {"a": 5.0, "b": 5.0, "c": 4.0}),
        ExpanderStep("least-nodes", ("b",), {"a": 3.0, "b": 2.0}),
    )


def test_a_stable_tie_break_takes_the_first_group() -> None:
    options = [an_option("b"), an_option("a")]
    assert build_chain(("most-pods",), supplies()).choose(options).option is options[0]


def test_a_random_tie_break_reaches_every_group() -> None:
    options = [an_option("a"), an_option("b")]
    chain = build_chain(("most-pods",), supplies(TieBreak.RANDOM))
    assert {choice.group.id for _ in range(50) if (choice := chain.choose(options).option)} == {"a", "b"}


def test_random_in_the_chain_decides_whatever_the_tie_break() -> None:
    options = [an_option("a"), an_option("b"), an_option("c", nodes=2)]
    chain = build_chain(("least-nodes", "random"), supplies())
    assert {choice.group.id for _ in range(50) if (choice := chain.choose(options).option)} == {"a", "b"}


def test_no_options_is_no_choice() -> None:
    assert build_chain(("least-waste", "random"), supplies()).choose([]).option is None


def test_warnings_of_the_priority_expander_are_handed_on() -> None:
    options = [an_option("a"), an_option("b")]
    choice = build_chain(("priority", "least-waste"), supplies(priorities="10: [a]")).choose(options)
    assert choice.option is options[0]
    assert [occurrence.reason for occurrence in choice.occurrences] == [PriorityWarning.NOT_MATCHED]


def test_rules_decide_what_least_waste_counts() -> None:
    # Of 4 cores and 8 GiB four pods use all, or half the cores going by their plain containers.
    heavy_start = an_option("a", pods=4, pod=POD, node=a_node(memory="8Gi"))
    # Three pods use 3 of 4 cores and all of 6 GiB either way.
    steady = an_option("b", pods=3, pod=a_pod(cpu="1", memory="2Gi"), node=a_node(memory="6Gi"))
    new = build_chain(("least-waste",), supplies())
    old = build_chain(("least-waste",), supplies(rules=Rules(least_waste_plain_containers=True)))
    assert new.choose([heavy_start, steady]).option is heavy_start
    assert old.choose([heavy_start, steady]).option is steady


class Nothing:
    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        return []


def test_an_expander_that_wants_nothing_ends_the_chain() -> None:
    given = ExpanderInputs(dice=dice(1), remote=Nothing())
    choice = build_chain(("grpc", "least-waste"), given).choose([an_option("a"), an_option("b")])
    assert choice.option is None
    assert choice.steps == (ExpanderStep("grpc", ()),)


class OneRate:
    """Nodes by name; requests by the core."""

    def node(self, node: Node) -> float | None:
        return {"a": 0.3, "b": 0.2}[node.name]

    def requests(self, requests: Requests) -> float | None:
        return requests.get("cpu", 0) / 1000


def test_the_price_expander_is_given_prices() -> None:
    given = ExpanderInputs(dice=dice(1), prices=OneRate(), cluster_nodes=5)
    choice = build_chain(("price",), given).choose([an_option("a"), an_option("b")])
    assert choice.option is not None
    assert choice.option.group.id == "b"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        pytest.param((), ["no expander"], id="no expander"),
        pytest.param(("cheapest",), ["cheapest"], id="an unknown one"),
        pytest.param(("most-pods", "least-waste", "most-pods"), ["most-pods"], id="one named twice"),
        pytest.param(("random", "least-waste"), ["least-waste"], id="one that random leaves nothing to do"),
        pytest.param(("cost", "most-pods"), ["most-pods", "prices"], id="one that cost leaves nothing to do"),
        pytest.param(("price",), ["prices"], id="the price expander without prices"),
        pytest.param(("grpc",), ["grpc-expander-url"], id="the gRPC expander without a server"),
        pytest.param(("cheapest", "random", "price"), ["cheapest", "price", "prices"], id="all at once"),
    ],
)
def test_chains_that_cannot_be(names: tuple[str, ...], words: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        build_chain(names, supplies())
    found = raised.value.problems
    assert len(found) == len(words)
    assert all(word in problem for word, problem in zip(words, found, strict=True))


def test_a_sound_chain_has_no_problems() -> None:
    names = ("priority", "price", "grpc", "least-waste", "least-nodes", "most-pods", "random")
    assert list(problems(names, has_prices=True, has_remote=True)) == []
