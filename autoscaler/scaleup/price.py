"""The price expander: selects the option with the lowest cost for its pods, and prefers suitable node sizes.

For an option of N nodes over one hour, with P the price of the nodes, Q the price of the pods at the cloud's unit
prices and S that of a small pod that keeps the ratio of tiny options sane::

    ratio    = (P + S) / (Q + S)
    unfit    = max(preferred CPU / node CPU, node CPU / preferred CPU)
    softened = (unfit - 1) * (1 - tanh((N - 1) / 15)) + 1        1000 for GPU nodes
    score    = softened * ratio                                  the lowest wins

The preferred node grows with the cluster. The more nodes an option adds, the less their shape matters, because the
cluster grows towards the shape. GPU nodes get a bad mark that only other GPU nodes have, too, so that pods which can
live without do. Source: Cluster Autoscaler's price-based filter.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Protocol

from autoscaler.objects import quantity
from autoscaler.objects.node import Node
from autoscaler.objects.requests import Requests
from autoscaler.scaleup.choice import RatedOptions, rated
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.contribution import has_gpu
from cloudprovider.interface import NodeTemplate, Pricing, ProviderError, TaintSpec

HOURS = 1.0
GPU_UNFITNESS = 1000.0
_MIB = 1024**2
_STABILISING: Requests = {quantity.CPU: 500, quantity.MEMORY: 500 * _MIB}
_PREFERRED_CPU_MILLI = ((2, 1000), (6, 2000), (20, 4000), (60, 8000), (200, 16000))
"""Upper bounds of the number of nodes in the cluster, and the CPU capacity of nodes that is preferred up to it."""
_LARGEST_CPU_MILLI = 32000
_SIZE_UNKNOWN_CPU_MILLI = 4000


class Prices(Protocol):
    """What things cost for one hour, in one currency; None where that is not known."""

    def node(self, node: Node) -> float | None:
        """Price of a node."""
        ...

    def requests(self, requests: Requests) -> float | None:
        """Price of so much of each resource."""
        ...


class ProviderPrices:
    """Prices of a provider; remembers its answers, so make a new one for each pass."""

    def __init__(self, pricing: Pricing) -> None:
        self._pricing = pricing
        self._known: dict[tuple[tuple[str, int], ...], float | None] = {}

    def node(self, node: Node) -> float | None:
        """Price of a node, None where the provider gives none."""
        described = NodeTemplate(
            labels=node.labels,
            annotations=node.annotations,
            taints=tuple(TaintSpec(taint.key, taint.value, taint.effect) for taint in node.taints),
            capacity=_texts(node.capacity),
            allocatable=_texts(node.allocatable),
        )
        try:
            return self._pricing.node_price(described, HOURS)
        except ProviderError:
            return None

    def requests(self, requests: Requests) -> float | None:
        """Price of an amount of each resource, None where the provider gives none."""
        key = tuple(sorted(requests.items()))
        if key not in self._known:
            try:
                self._known[key] = self._pricing.pod_price(_texts(requests), HOURS)
            except ProviderError:
                self._known[key] = None
        return self._known[key]


def _texts(amounts: Requests) -> Mapping[str, str]:
    return {resource: quantity.text(resource, amount) for resource, amount in amounts.items()}


def preferred_cpu_milli(cluster_nodes: int | None) -> int:
    """Return the CPU capacity of the node that suits a cluster of this size; None: the size is unknown."""
    if cluster_nodes is None:
        return _SIZE_UNKNOWN_CPU_MILLI
    return next((cpu for nodes, cpu in _PREFERRED_CPU_MILLI if cluster_nodes <= nodes), _LARGEST_CPU_MILLI)


class PriceExpander:
    """Keeps the options with the best score; drops those whose price is not known."""

    def __init__(
        self, prices: Prices, cluster_nodes: int | None, gpu_label: str, gpu_resources: tuple[str, ...]
    ) -> None:
        self._prices = prices
        self._preferred_cpu_milli = preferred_cpu_milli(cluster_nodes)
        self._gpu_label = gpu_label
        self._gpu_resources = gpu_resources

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the options with the lowest score."""
        return self.weigh(options).options

    def weigh(self, options: Sequence[Option]) -> RatedOptions:
        """Return the same with the score of each option."""
        scores = [self.score(option) for option in options]
        return rated(options, scores, min((score for score in scores if score is not None), default=None))

    def score(self, option: Option) -> float | None:
        """Return the score of an option, None where the price of its node or of one of its pods is not known."""
        pods_price = self._price_of_pods(option)
        if pods_price is None:
            return None
        stabilising = self._prices.requests(_STABILISING) or 0.0
        worth, dearness = pods_price + stabilising, 0.0
        for part in option.parts:
            node_price = self._prices.node(part.template.node)
            if node_price is None:
                return None
            dearness += self._unfitness(part) * (node_price * part.nodes + stabilising / len(option.parts))
        return math.inf if worth == 0.0 else dearness / worth

    def _price_of_pods(self, option: Option) -> float | None:
        parts: list[float] = []
        for cls, count in Counter(map(attrgetter("cls"), option.pods)).items():
            price = self._prices.requests(cls.container_requests)
            if price is None:
                return None
            parts.append(price * count)
        return math.fsum(parts)

    def _unfitness(self, option: Option) -> float:
        node = option.template.node
        if has_gpu(node, self._gpu_label, self._gpu_resources):
            return GPU_UNFITNESS
        cpu, preferred = node.capacity.get(quantity.CPU, 0), self._preferred_cpu_milli
        if cpu <= 0:
            return math.inf
        unfit = max(preferred / cpu, cpu / preferred)
        return (unfit - 1) * (1 - math.tanh((option.nodes - 1) / 15)) + 1
