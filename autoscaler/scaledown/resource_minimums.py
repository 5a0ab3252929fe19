"""The resources that a cluster must keep: cores, memory, and GPUs by type."""

from collections.abc import Iterator

from autoscaler.objects.node import Node
from autoscaler.scaledown.plan import ScaleDownContext
from autoscaler.scaledown.taints import being_deleted
from autoscaler.snapshot.contribution import (
    Contribution,
    Limit,
    bounds,
    contribution,
    gpu_resources,
    totals,
    virtual_kubelet,
)
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.overlay import Trial


class Reserve:
    """What may still be taken away, by resource; None: unknown, so nothing. Only `take` changes it."""

    def __init__(self, trial: Trial, situation: ScaleDownContext) -> None:
        self._situation = situation
        self._left: dict[Limit, int | None] = {}
        fewest = {name: bound.min for name, bound in bounds(situation.limits).items() if bound.min > 0}
        if not fewest:
            return
        used = totals(fewest, ((self._contribution(node, group), 1) for node, group in self._counted(trial)))
        for resource, least in fewest.items():
            amount = used[resource]
            self._left[resource] = None if amount is None else max(0, amount - least)

    def scarce_without(self, node: Node, group: Group) -> Limit | None:
        """Return the limit of the resource that would become scarce without the node; None where none would."""
        for name, amount in self._shares(node, group):
            left = self._left[name]
            if amount != 0 and (left is None or amount is None or amount > left):
                return name
        return None

    def take(self, node: Node, group: Group) -> None:
        """Take a node away; `scarce_without` said that this is possible."""
        for name, amount in self._shares(node, group):
            left = self._left[name]
            self._left[name] = left if left is None or amount is None else left - amount

    def _shares(self, node: Node, group: Group) -> list[tuple[Limit, int | None]]:
        if not self._left:
            return []
        return [share for share in self._contribution(node, group).shares() if share[0] in self._left]

    def _contribution(self, node: Node, group: Group | None) -> Contribution:
        return contribution(node, group, self._situation.groups.gpu_label, gpu_resources(self._situation.rules))

    def _counted(self, trial: Trial) -> Iterator[tuple[Node, Group | None]]:
        """Yield the nodes that count, upcoming ones included, each with its group where that is known."""
        rules, wall = self._situation.rules, self._situation.now.wall
        groups = self._situation.groups
        for position in range(trial.count):
            template = trial.template(position)
            node = trial.view.nodes[position] if template is None else template.node
            if not trial.alive[position] or virtual_kubelet(node):
                continue
            if not rules.minimums_count_deleting_nodes and being_deleted(node, wall):
                continue
            yield node, groups.get(groups.of_node.get(node.name, "")) if template is None else None
