"""What the simulated cloud's machines and pods cost."""

from collections.abc import Iterable, Mapping, Sequence

from cloudprovider.interface import NodeTemplate, ProviderError
from cloudprovider.quantity import parse_quantity
from cloudprovider.static.spec import GroupSpec, Prices

GROUP_ANNOTATION = "static.autoscaler/node-group"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_HOSTNAME = "kubernetes.io/hostname"
_GIB = 1024**3
_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe", "habana.ai/gaudi", "microsoft.com/directx")


class PriceList:
    """Prices by group, else by instance type, else by what the machine holds.

    A group goes first because one type of machine may cost less in another group: as spot capacity, for example.
    """

    def __init__(self, prices: Prices, groups: Sequence[GroupSpec]) -> None:
        self._prices = prices
        self._priced_groups = [group for group in groups if group.price_per_hour is not None]

    def node(self, node: NodeTemplate, hours: float) -> float:
        """Price of a node for `hours`."""
        group = next((group for group in self._priced_groups if _looks_like(node, group)), None)
        if group is not None and group.price_per_hour is not None:
            return group.price_per_hour * hours
        by_type = self._prices.instance_types.get(node.labels.get(INSTANCE_TYPE, ""))
        if by_type is not None:
            return by_type * hours
        return self.resources(node.capacity, hours)

    def resources(self, amounts: Mapping[str, str], hours: float) -> float:
        """Price of so much cpu, memory and GPUs for `hours`."""
        prices = self._prices
        per_hour = (
            _total(amounts, ("cpu",)) * prices.cpu_per_hour
            + _total(amounts, ("memory",)) / _GIB * prices.memory_gib_per_hour
            + _total(amounts, _GPU_RESOURCES) * prices.gpu_per_hour
        )
        return per_hour * hours


def _total(amounts: Mapping[str, str], names: Iterable[str]) -> float:
    try:
        return sum(float(parse_quantity(amounts[name])) for name in names if name in amounts)
    except ValueError as error:
        raise ProviderError(f"cannot price {dict(amounts)}: {error}") from error


def _looks_like(node: NodeTemplate, group: GroupSpec) -> bool:
    """Whether a node, or a template made from one, is of a group; ids are not at hand here, only looks are."""
    marked = node.annotations.get(GROUP_ANNOTATION)
    if marked is not None:
        return marked == group.id
    if group.match_labels:
        return group.match_labels.items() <= node.labels.items()
    template = group.template
    if template is None:
        return False
    own = {key: value for key, value in template.labels.items() if key != _HOSTNAME}
    return own.items() <= node.labels.items() and dict(template.capacity) == dict(node.capacity)
