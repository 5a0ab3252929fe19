import math
from collections.abc import Mapping
from typing import Any

import pytest

from autoscaler.objects.node import Node, Taint
from autoscaler.objects.pod import Pod
from autoscaler.objects.requests import Requests
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.price import PriceExpander, ProviderPrices, preferred_cpu_milli
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES
from cloudprovider.interface import NodeTemplate, ProviderError, TaintSpec
from tests.builders import a_node, a_pod, an_option

GIB = 1 << 30
CORE_HOUR, GIB_HOUR = 0.03, 0.004


class ListPrices:
    """Nodes by name, requests by unit prices; what is not listed is not known."""

    def __init__(self, nodes: Mapping[str, float], unknown_cpu_milli: int | None = None) -> None:
        self._nodes = nodes
        self._unknown_cpu_milli = unknown_cpu_milli

    def node(self, node: Node) -> float | None:
        return self._nodes.get(node.name)

    def requests(self, requests: Requests) -> float | None:
        cpu = requests.get("cpu", 0)
        if cpu == self._unknown_cpu_milli:
            return None
        return cpu / 1000 * CORE_HOUR + requests.get("memory", 0) / GIB * GIB_HOUR


SMALL = a_pod(cpu="500m", memory="1Gi", spec={"initContainers": [{"resources": {"requests": {"cpu": "9999m"}}}]})


def for_four(name: str, nodes: int = 1, cpu: str = "8", *, pod: Pod = SMALL, **node: Any) -> Option:
    """Return an option that helps four small pods."""
    return an_option(name, nodes, 4, pod=pod, node=a_node(name, cpu=cpu, **node))


def a_price(prices: ListPrices, cluster_nodes: int | None = 5, gpu_label: str = "gpu") -> PriceExpander:
    return PriceExpander(prices, cluster_nodes, gpu_label, ALL_GPU_RESOURCES)


def test_the_score_of_a_worked_example() -> None:
    # P = 2 nodes at 0.2 = 0.4. Four pods of half a core and 1 GiB: Q = 4 * (0.015 + 0.004) = 0.076.
    # S = 0.5 * 0.03 + 500/1024 * 0.004 = 0.016953125. (P + S) / (Q + S) = 4.485627.
    # In a cluster of 5 nodes 2 cores suit best: unfit = 8/2 = 4; softened = 3 * (1 - tanh(1/15)) + 1 = 3.800295.
    score = a_price(ListPrices({"a": 0.2})).score(for_four("a", nodes=2))
    assert score == pytest.approx(4.485627 * 3.800295, rel=1e-6)


@pytest.mark.parametrize(
    ("nodes", "cpu_milli"),
    [
        (0, 1000),
        (2, 1000),
        (3, 2000),
        (6, 2000),
        (7, 4000),
        (20, 4000),
        (21, 8000),
        (60, 8000),
        (61, 16000),
        (200, 16000),
        (201, 32000),
        (None, 4000),
    ],
)
def test_the_preferred_node_grows_with_the_cluster(nodes: int | None, cpu_milli: int) -> None:
    assert preferred_cpu_milli(nodes) == cpu_milli


def chosen(price: PriceExpander, *options: Option) -> list[str]:
    return [option.group.id for option in price.best(options)]


def test_the_cheaper_of_two_alike_wins() -> None:
    assert chosen(a_price(ListPrices({"a": 0.3, "b": 0.2})), for_four("a"), for_four("b")) == ["b"]


def test_exact_ties_stay() -> None:
    assert chosen(a_price(ListPrices({"a": 0.2, "b": 0.2})), for_four("a"), for_four("b")) == ["a", "b"]


def test_the_better_shape_wins_at_one_price() -> None:
    prices = ListPrices({"a": 0.2, "b": 0.2})
    assert chosen(a_price(prices), for_four("a", cpu="8"), for_four("b", cpu="2")) == ["b"]
    assert chosen(a_price(prices), for_four("a", cpu="500m"), for_four("b", cpu="4")) == ["b"]


def test_shape_matters_less_the_more_nodes_are_added() -> None:
    prices = ListPrices({"fit": 1.0, "unfit": 0.5})
    few = chosen(a_price(prices), for_four("fit", nodes=1, cpu="2"), for_four("unfit", nodes=1, cpu="8"))
    many = chosen(a_price(prices), for_four("fit", nodes=60, cpu="2"), for_four("unfit", nodes=60, cpu="8"))
    assert (few, many) == (["fit"], ["unfit"])


@pytest.mark.parametrize(
    "gpu",
    [
        pytest.param(for_four("gpu", cpu="2", labels={"gpu": "t4"}), id="by the provider's label"),
        pytest.param(for_four("gpu", cpu="2", allocatable={"amd.com/gpu": "1"}), id="by what pods can get"),
    ],
)
def test_gpu_nodes_are_the_last_choice(gpu: Option) -> None:
    price = a_price(ListPrices({"gpu": 0.01, "plain": 1.0}))
    assert chosen(price, gpu, for_four("plain")) == ["plain"]
    # 0.01 + 0.016953125 over 0.092953125, times 1000.
    assert price.score(gpu) == pytest.approx(289.9648, rel=1e-6)


def test_options_without_a_price_are_dropped() -> None:
    odd = a_pod(cpu="333m")
    price = a_price(ListPrices({"a": 0.2, "b": 0.1}, unknown_cpu_milli=333))
    assert chosen(price, for_four("a"), for_four("b", pod=odd), for_four("c")) == ["a"]
    assert chosen(price, for_four("c")) == []


def test_where_pods_cost_nothing_no_option_is_better() -> None:
    class Free(ListPrices):
        def requests(self, requests: Requests) -> float | None:
            return 0.0

    price = a_price(Free({"a": 0.2, "b": 0.1}))
    assert price.score(for_four("a")) == math.inf
    assert chosen(price, for_four("a"), for_four("b")) == ["a", "b"]


def test_a_node_without_cpu_suits_nobody() -> None:
    assert a_price(ListPrices({"a": 0.2})).score(for_four("a", cpu="0")) == math.inf


class FakePricing:
    """Answers by label and CPU text, and counts how often it is asked for pods."""

    def __init__(self) -> None:
        self.nodes: list[NodeTemplate] = []
        self.asked: list[Mapping[str, str]] = []

    def node_price(self, node: NodeTemplate, hours: float) -> float:
        if "price" not in node.labels:
            raise ProviderError("no such type")
        self.nodes.append(node)
        return float(node.labels["price"]) * hours

    def pod_price(self, requests: Mapping[str, str], hours: float) -> float:
        self.asked.append(requests)
        if requests.get("cpu") == "3":
            raise ProviderError("no such pod")
        return 0.25 * hours


def test_a_provider_is_asked_in_its_own_terms() -> None:
    pricing = FakePricing()
    prices = ProviderPrices(pricing)
    taint = Taint(key="k", value="v", effect="NoSchedule")
    assert prices.node(Node(name="n", labels={"price": "0.5"}, taints=(taint,), capacity={"cpu": 1500})) == 0.5
    assert pricing.nodes == [
        NodeTemplate(labels={"price": "0.5"}, taints=(TaintSpec("k", "v", "NoSchedule"),), capacity={"cpu": "1500m"})
    ]
    assert prices.requests({"cpu": 500, "memory": 2 * GIB}) == 0.25
    assert pricing.asked == [{"cpu": "500m", "memory": "2Gi"}]


def test_each_question_is_asked_once_and_failures_are_no_price() -> None:
    pricing = FakePricing()
    prices = ProviderPrices(pricing)
    assert [prices.requests({"cpu": 3000}) for _ in range(3)] == [None, None, None]
    assert len(pricing.asked) == 1
    assert prices.node(Node(name="n")) is None
