"""What the simulated cloud's machines and pods cost."""

from collections.abc import Mapping, Sequence

from cloudprovider.interface import NodeTemplate
from cloudprovider.prices import Prices
from cloudprovider.static.spec import GroupSpec

GROUP_ANNOTATION = "static.autoscaler/node-group"
_HOSTNAME = "kubernetes.io/hostname"


class PriceList:
    """Prices by group, else by instance type, else by what the machine holds.

    The group comes first because a type may cost less in another group, for example as spot capacity.
    """

    def __init__(self, prices: Prices, groups: Sequence[GroupSpec]) -> None:
        self._prices = prices
        self._priced_groups = [group for group in groups if group.price_per_hour is not None]

    def node(self, node: NodeTemplate, hours: float) -> float:
        """Price of a node for `hours`."""
        group = next((group for group in self._priced_groups if _looks_like(node, group)), None)
        if group is not None and group.price_per_hour is not None:
            return group.price_per_hour * hours
        return self._prices.of_node(node, hours)

    def resources(self, amounts: Mapping[str, str], hours: float) -> float:
        """Price of these amounts of cpu, memory and GPUs for `hours`."""
        return self._prices.of_resources(amounts, hours)


def _looks_like(node: NodeTemplate, group: GroupSpec) -> bool:
    """Whether a node or a template belongs to a group. There are no ids, so annotation, labels and capacity decide."""
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
