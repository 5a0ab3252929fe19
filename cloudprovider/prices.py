"""Prices of machines and pods, from the groups file and from the file of `--price-file`."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from cloudprovider.document import read_document
from cloudprovider.interface import NodeTemplate, ProviderError
from cloudprovider.problems import Problems
from cloudprovider.quantity import parse_quantity
from cloudprovider.structure import Amount, Strict, StructReader

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_SPOT_LABELS = {
    "eks.amazonaws.com/capacityType": "spot",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "karpenter.sh/capacity-type": "spot",
    "node.kubernetes.io/lifecycle": "spot",
}
"""Labels by which managed clusters mark nodes that the cloud may take back."""
_GIB = 1024**3
_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe", "habana.ai/gaudi", "microsoft.com/directx")


class Prices(Strict, frozen=True, kw_only=True):
    """Prices in one currency, per hour. The unit prices default to a typical on-demand list price in US dollars."""

    cpu_per_hour: Amount = 0.033
    memory_gib_per_hour: Amount = msgspec.field(default=0.0045, name="memoryGiBPerHour")
    gpu_per_hour: Amount = 0.7
    instance_types: Mapping[str, Amount] = {}
    spot_instance_types: Mapping[str, Amount] = {}
    """Prices of nodes that a label marks as spot capacity. Absent types have their usual price."""

    def of_node(self, node: NodeTemplate, hours: float) -> float:
        """Price of a node for `hours`, by its instance type, else by its capacity."""
        instance_type = node.labels.get(INSTANCE_TYPE, "")
        by_type = self.instance_types.get(instance_type)
        if is_spot(node.labels):
            by_type = self.spot_instance_types.get(instance_type, by_type)
        return self.of_resources(node.capacity, hours) if by_type is None else by_type * hours

    def of_resources(self, amounts: Mapping[str, str], hours: float) -> float:
        """Price of these amounts of cpu, memory and GPUs (quantity strings) for `hours`, at the unit prices."""
        per_hour = (
            _total(amounts, ("cpu",)) * self.cpu_per_hour
            + _total(amounts, ("memory",)) / _GIB * self.memory_gib_per_hour
            + _total(amounts, _GPU_RESOURCES) * self.gpu_per_hour
        )
        return per_hour * hours


class PriceListed:
    """The ability `Pricing`, for the class of a provider whose operator gave a price list."""

    _prices = Prices()

    def priced_by(self, prices: Prices) -> Self:
        """Take the prices from this list, and return the provider."""
        self._prices = prices
        return self

    def node_price(self, node: NodeTemplate, hours: float) -> float:
        """Price of such a node for `hours`."""
        return self._prices.of_node(node, hours)

    def pod_price(self, requests: Mapping[str, str], hours: float) -> float:
        """Price of the requests for `hours`, at the unit prices."""
        return self._prices.of_resources(requests, hours)


def is_spot(labels: Mapping[str, str]) -> bool:
    """Whether a node's labels mark it as spot capacity."""
    return any(labels.get(label, "").lower() == value for label, value in _SPOT_LABELS.items())


def decode_prices(data: Any, path: str, problems: Problems) -> Prices:
    """Decode a prices section. Absent unit prices have their defaults."""
    return StructReader(problems).read(Prices, data, path) or Prices()


def read_price_file(path: str) -> Prices:
    """Read a price list, one YAML or JSON document; `Misconfigured` has a line for every problem."""
    return read_document(path, _decode_alone)


def _decode_alone(document: Any) -> Prices:
    problems = Problems()
    prices = decode_prices(document, "", problems)
    problems.raise_if_any()
    return prices


def _total(amounts: Mapping[str, str], names: Iterable[str]) -> float:
    try:
        return sum(float(parse_quantity(amounts[name])) for name in names if name in amounts)
    except ValueError as error:
        raise ProviderError(f"cannot price {dict(amounts)}: {error}") from error
