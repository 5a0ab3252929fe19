"""What disruption budgets leave: the nodes that may be disrupted beside those that are disrupted now."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from autoscaler.config.disruption_budgets import NodeDisruptionBudget
from autoscaler.objects.node import Node
from autoscaler.scaledown.maintenance_windows import closed_for_s
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups


class DisruptionUse(msgspec.Struct, frozen=True):
    """How far one budget is used."""

    budget: str
    """As it is written in the configuration."""
    used: int
    limit: int
    applies: bool
    """Whether its window is open; a budget without a window always applies."""


class DisruptionLimits:
    """The budgets of one pass. Only `take` changes them."""

    def __init__(
        self, budgets: Iterable[NodeDisruptionBudget], view: ClusterView, disrupted: Mapping[str, str], wall: float
    ) -> None:
        """`disrupted` holds the reason of each node that is disrupted now; `wall` is in Unix seconds."""
        self._budgets = tuple(budgets)
        self._view = view
        self._applies = [budget.window is None or closed_for_s((budget.window,), wall) == 0 for budget in self._budgets]
        self._limits = [
            budget.limit(sum(_is_about(budget, node, view.groups) for node in view.nodes)) for budget in self._budgets
        ]
        self._used = [0] * len(self._budgets)
        for name, reason in disrupted.items():
            self.take((name,), reason)

    def blocker(self, names: Sequence[str], reason: str) -> str:
        """Return why these nodes may not be disrupted together now, for people; empty if they may."""
        for index, budget in enumerate(self._budgets):
            count = self._count(budget, names, reason)
            if count and self._applies[index] and self._used[index] + count > self._limits[index]:
                return f"budget {budget.text}: {self._used[index]} of {self._limits[index]} used"
        return ""

    def take(self, names: Sequence[str], reason: str) -> None:
        """Count these nodes as disrupted."""
        for index, budget in enumerate(self._budgets):
            self._used[index] += self._count(budget, names, reason)

    def uses(self) -> tuple[DisruptionUse, ...]:
        """Return how far each budget is used, in the order of the configuration."""
        rows = zip(self._budgets, self._used, self._limits, self._applies, strict=True)
        return tuple(DisruptionUse(budget.text, used, limit, applies) for budget, used, limit, applies in rows)

    def _count(self, budget: NodeDisruptionBudget, names: Sequence[str], reason: str) -> int:
        if not budget.counts(reason):
            return 0
        nodes = (self._view.node(name) for name in names)
        return sum(node is not None and _is_about(budget, node, self._view.groups) for node in nodes)


def _is_about(budget: NodeDisruptionBudget, node: Node, groups: Groups) -> bool:
    group = groups.of_node.get(node.name)
    return group is not None and budget.group in (None, group) and budget.zone in (None, node.zone)
