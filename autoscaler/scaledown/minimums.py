"""The resources that a cluster must keep: cores, memory, and GPUs by type."""

from collections.abc import Iterator, Mapping

from autoscaler.config.scaleup import Limits
from autoscaler.objects.node import Node
from autoscaler.scaledown.plan import Situation
from autoscaler.scaledown.taints import being_deleted
from autoscaler.snapshot.contribution import Contribution, contribution, gpu_resources, virtual_kubelet
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.overlay import Trial

_GIB = 1024**3


class Reserve:
    """What may still be taken away, by resource; None: nobody can tell, so nothing. Only `take` changes it."""

    def __init__(self, trial: Trial, situation: Situation) -> None:
        self._situation = situation
        self._left: dict[str, int | None] = {}
        fewest = _minima(situation.limits)
        if not fewest:
            return
        used: dict[str, int | None] = dict.fromkeys(fewest, 0)
        for node, group in self._counted(trial):
            for resource, amount in _shares(self._contribution(node, group)):
                if resource in used:
                    before = used[resource]
                    used[resource] = None if before is None or amount is None else before + amount
        for resource, least in fewest.items():
            amount = used[resource]
            self._left[resource] = None if amount is None else max(0, amount - least)

    def take(self, node: Node, group: Group) -> str | None:
        """Take a node away, or return the resource of which too little would remain; then nothing has changed."""
        if not self._left:
            return None
        shares = [(name, amount) for name, amount in _shares(self._contribution(node, group)) if name in self._left]
        for name, amount in shares:
            left = self._left[name]
            if amount != 0 and (left is None or amount is None or amount > left):
                return name
        for name, amount in shares:
            self._left[name] = (self._left[name] or 0) - (amount or 0) if amount else self._left[name]
        return None

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


def _minima(limits: Limits) -> Mapping[str, int]:
    minima = {"cpu": limits.cores_total.min, "memory": limits.memory_total.min * _GIB}
    minima.update((one.gpu_type, one.min) for one in limits.gpu_total)
    return {name: least for name, least in minima.items() if least > 0}


def _shares(one: Contribution) -> Iterator[tuple[str, int | None]]:
    yield "cpu", one.cores
    yield "memory", one.memory_bytes
    if one.gpu_type is not None:
        yield one.gpu_type, one.gpus
