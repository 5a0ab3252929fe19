"""What machines and pods cost: the prices section of the groups file, and the file named by `--price-file`."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from cloudprovider.document import read_document
from cloudprovider.fields import Fields, Problems
from cloudprovider.interface import NodeTemplate, ProviderError
from cloudprovider.quantity import parse_quantity

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


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices in one currency, per hour. The unit prices default to a typical on-demand list price in US dollars."""

    cpu_per_hour: float = 0.033
    memory_gib_per_hour: float = 0.0045
    gpu_per_hour: float = 0.7
    instance_types: Mapping[str, float] = {}
    spot_instance_types: Mapping[str, float] = {}
    """Of nodes that a label marks as spot capacity; where a type is missing here, it costs what it costs otherwise."""

    def of_node(self, node: NodeTemplate, hours: float) -> float:
        """Price of a node for `hours`, by its instance type, else by what it holds."""
        instance_type = node.labels.get(INSTANCE_TYPE, "")
        by_type = self.instance_types.get(instance_type)
        if is_spot(node.labels):
            by_type = self.spot_instance_types.get(instance_type, by_type)
        return self.of_resources(node.capacity, hours) if by_type is None else by_type * hours

    def of_resources(self, amounts: Mapping[str, str], hours: float) -> float:
        """Price of so much cpu, memory and GPUs (quantity strings) for `hours`, at the unit prices."""
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
    """Whether a node's labels say that the cloud may take it back."""
    return any(labels.get(label, "").lower() == value for label, value in _SPOT_LABELS.items())


def decode_prices(data: Any, path: str, problems: Problems) -> Prices:
    """Decode a prices section; a unit price that is left out has its default."""
    fields = Fields(data, path, problems)
    cpu, memory, gpu = (fields.number(key) for key in ("cpuPerHour", "memoryGiBPerHour", "gpuPerHour"))
    by_type, spot_by_type = (_by_type(fields, key) for key in ("instanceTypes", "spotInstanceTypes"))
    fields.close()
    default = Prices()
    return Prices(
        cpu_per_hour=default.cpu_per_hour if cpu is None else cpu,
        memory_gib_per_hour=default.memory_gib_per_hour if memory is None else memory,
        gpu_per_hour=default.gpu_per_hour if gpu is None else gpu,
        instance_types=by_type,
        spot_instance_types=spot_by_type,
    )


def read_price_file(path: str) -> Prices:
    """Read a price list, one YAML or JSON document; `Misconfigured` has a line for every problem."""
    return read_document(path, _decode_alone)


def _decode_alone(document: Any) -> Prices:
    problems = Problems()
    prices = decode_prices(document, "", problems)
    problems.raise_if_any()
    return prices


def _by_type(fields: Fields, key: str) -> dict[str, float]:
    types = Fields(fields.mapping(key), fields.at(key), fields.problems)
    found = {name: types.number(name) for name in fields.mapping(key)}
    return {name: price for name, price in found.items() if price is not None}


def _total(amounts: Mapping[str, str], names: Iterable[str]) -> float:
    try:
        return sum(float(parse_quantity(amounts[name])) for name in names if name in amounts)
    except ValueError as error:
        raise ProviderError(f"cannot price {dict(amounts)}: {error}") from error
