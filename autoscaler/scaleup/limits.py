"""Limits of the whole cluster: cores, memory, GPUs by type, and nodes.

What the cluster may still grow by is an `Allowance`; it never changes, taking from it makes another one.
"""

from collections.abc import Iterable, Mapping

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Limits
from autoscaler.objects.node import Node
from autoscaler.snapshot.contribution import Contribution, contribution, gpu_resources, virtual_kubelet
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.template import Template

CORES = "cpu"
MEMORY = "memory"
QUOTA = "cluster-wide"
"""What messages call the limits that flags set."""
_GIB = 1024**3


class Exceeded(msgspec.Struct, frozen=True):
    """Resources of which the cluster would have more than it may: `cpu`, `memory`, GPU types, in that order."""

    resources: tuple[str, ...]

    def message(self, *, names_quota: bool) -> str:
        """Return Cluster Autoscaler's words, the newer ones with `names_quota`."""
        resources = ", ".join(self.resources)
        return (
            f'exceeded quota: "{QUOTA}", resources: {resources}'
            if names_quota
            else f"max cluster {resources} limit reached"
        )


class Uncountable(msgspec.Struct, frozen=True):
    """Nobody can tell what the cluster has: the group has no template, so nothing may be scaled up."""

    group: str


class Allowance(msgspec.Struct, frozen=True):
    """What may still be added, by resource; one that is absent has no limit.

    None marks a limited resource of which the use is not known, so none of it may be added.
    """

    left: Mapping[str, int | None] = {}

    def exceeded_by(self, one: Contribution, nodes: int = 1) -> Exceeded | None:
        """Return what so many nodes would break, None where they are fine."""
        resources = tuple(name for name, each in _shares(one) if not self._covers(name, each, nodes))
        return Exceeded(resources) if resources else None

    def cap(self, one: Contribution, nodes: int) -> int:
        """Return how many of `nodes` such nodes may be added."""
        for name, each in _shares(one):
            if not self._covers(name, each, nodes):
                nodes = (self.left[name] or 0) // each if each else 0
        return nodes

    def after(self, one: Contribution, nodes: int) -> "Allowance":
        """Return what remains once so many nodes are added; never below nothing."""
        left = dict(self.left)
        for name, each in _shares(one):
            amount = left.get(name)
            if amount is not None:
                left[name] = max(0, amount - (each or 0) * nodes)
        return Allowance(left)

    def _covers(self, name: str, each: int | None, nodes: int) -> bool:
        if name not in self.left or each == 0:
            return True
        amount = self.left[name]
        return amount is not None and each is not None and each * nodes <= amount


def _shares(one: Contribution) -> Iterable[tuple[str, int | None]]:
    yield CORES, one.cores
    yield MEMORY, one.memory_bytes
    if one.gpu_type is not None:
        yield one.gpu_type, one.gpus


def allowance(
    options: Limits,
    rules: Rules,
    groups: Groups,
    templates: Mapping[str, Template],
    nodes: Iterable[Node],
    upcoming: Mapping[str, int] | None = None,
) -> Allowance | Uncountable:
    """Return what the cluster may still grow by.

    In use is what `nodes` and the `upcoming` ones (count by group) have or, where rules say so, what groups have
    asked for and nodes of no group have. Nodes that are no machines do not count. A maximum of 0 is no limit.
    """
    limits = _maxima(options)
    counted = _targets(groups) if rules.limits_count_group_targets else tuple((upcoming or {}).items())
    of_template: list[tuple[Contribution, int]] = []
    resources = gpu_resources(rules)
    for group_id, count in counted:
        template = templates.get(group_id)
        if template is None:
            if rules.limits_count_group_targets:
                return Uncountable(group_id)
            continue
        one = contribution(template.node, groups.get(group_id), groups.gpu_label, resources)
        of_template.append((one, count))
    used: dict[str, int | None] = dict.fromkeys(limits, 0)
    for one, count in of_template:
        _use(used, one, count)
    for node in nodes:
        group_id_of_node = groups.of_node.get(node.name)
        if virtual_kubelet(node) or (rules.limits_count_group_targets and group_id_of_node is not None):
            continue
        group = None if group_id_of_node is None else groups.get(group_id_of_node)
        _use(used, contribution(node, group, groups.gpu_label, resources), 1)
    return Allowance({name: _left(limit, used[name]) for name, limit in limits.items()})


def need_of(group: Group, template: Template, groups: Groups, rules: Rules) -> Contribution:
    """Return what one more node of a group adds."""
    return contribution(template.node, group, groups.gpu_label, gpu_resources(rules))


def nodes_left(max_nodes_total: int, present: int) -> int | None:
    """Return how many nodes the cluster may still grow by, upcoming ones counted in `present`; None: no limit."""
    return max(0, max_nodes_total - present) if max_nodes_total > 0 else None


def _maxima(options: Limits) -> dict[str, int]:
    maxima = {CORES: options.cores_total.max, MEMORY: options.memory_total.max * _GIB}
    maxima.update((one.gpu_type, one.max) for one in options.gpu_total)
    return {name: limit for name, limit in maxima.items() if limit > 0}


def _targets(groups: Groups) -> tuple[tuple[str, int], ...]:
    return tuple((group.id, group.target_size) for group in groups.all)


def _use(used: dict[str, int | None], one: Contribution, count: int) -> None:
    if count <= 0:
        return
    for name, each in _shares(one):
        if name in used:
            before = used[name]
            used[name] = None if before is None or each is None else before + each * count


def _left(limit: int, used: int | None) -> int | None:
    return None if used is None else max(0, limit - used)
