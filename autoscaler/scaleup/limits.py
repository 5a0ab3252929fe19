"""Limits of the whole cluster: cores, memory, GPUs by type, and nodes.

What the cluster may still grow by is an `Allowance`; it never changes, taking from it makes another one.
"""

from collections.abc import Iterable, Mapping

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ResourceLimits
from autoscaler.objects.node import Node
from autoscaler.snapshot.contribution import (
    Contribution,
    bounds,
    contribution,
    gpu_resources,
    totals,
    virtual_kubelet,
)
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.template import Template

QUOTA = "cluster-wide"
"""What messages call the limits that flags set."""


class Exceeded(msgspec.Struct, frozen=True):
    """Resources that would exceed the limits of the cluster: `cpu`, `memory`, GPU types, in that order."""

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
    """What the cluster has is unknown: the group has no template, so nothing may be scaled up."""

    group: str


class Allowance(msgspec.Struct, frozen=True):
    """What may still be added, by resource; one that is absent has no limit.

    None marks a limited resource whose use is unknown, so none of it may be added.
    """

    left: Mapping[str, int | None] = {}

    def exceeded_by(self, node: Contribution, nodes: int = 1) -> Exceeded | None:
        """Return the limits that this many nodes would exceed; None where they exceed none."""
        resources = tuple(name for name, share in node.shares() if not self._covers(name, share, nodes))
        return Exceeded(resources) if resources else None

    def cap(self, node: Contribution, nodes: int) -> int:
        """Return how many of `nodes` such nodes may be added."""
        for name, share in node.shares():
            if not self._covers(name, share, nodes):
                nodes = (self.left[name] or 0) // share if share else 0
        return nodes

    def after(self, node: Contribution, nodes: int) -> "Allowance":
        """Return what remains once this many nodes are added; at least 0."""
        left = dict(self.left)
        for name, share in node.shares():
            amount = left.get(name)
            if amount is not None:
                left[name] = max(0, amount - (share or 0) * nodes)
        return Allowance(left)

    def _covers(self, name: str, share: int | None, nodes: int) -> bool:
        if name not in self.left or share == 0:
            return True
        amount = self.left[name]
        return amount is not None and share is not None and share * nodes <= amount


def allowance(
    options: ResourceLimits,
    rules: Rules,
    groups: Groups,
    templates: Mapping[str, Template],
    nodes: Iterable[Node],
    upcoming: Mapping[str, int] | None = None,
) -> Allowance | Uncountable:
    """Return what the cluster may still grow by; see `usage` for what counts. A maximum of 0 is no limit."""
    used = usage(options, rules, groups, templates, nodes, upcoming)
    if isinstance(used, Uncountable):
        return used
    maxima = {name: bound.max for name, bound in bounds(options).items() if bound.max > 0}
    return Allowance({name: _left(limit, used[name]) for name, limit in maxima.items()})


def usage(
    options: ResourceLimits,
    rules: Rules,
    groups: Groups,
    templates: Mapping[str, Template],
    nodes: Iterable[Node],
    upcoming: Mapping[str, int] | None = None,
) -> Mapping[str, int | None] | Uncountable:
    """Return how much of each limited resource is in use, None where a node does not say.

    In use is what `nodes` and the `upcoming` ones (count by group) have or, where rules say so, what groups have
    asked for and nodes of no group have. Nodes that are no machines do not count.
    """
    counted: list[tuple[Contribution, int]] = []
    resources = gpu_resources(rules)
    for group_id, count in _targets(groups) if rules.limits_count_group_targets else (upcoming or {}).items():
        template = templates.get(group_id)
        if template is not None:
            counted.append((contribution(template.node, groups.get(group_id), groups.gpu_label, resources), count))
        elif rules.limits_count_group_targets:
            return Uncountable(group_id)
    for node in nodes:
        owner = groups.of_node.get(node.name)
        if virtual_kubelet(node) or (rules.limits_count_group_targets and owner is not None):
            continue
        group = None if owner is None else groups.get(owner)
        counted.append((contribution(node, group, groups.gpu_label, resources), 1))
    return totals((name for name, bound in bounds(options).items() if bound.max > 0), counted)


def need_of(group: Group, template: Template, groups: Groups, rules: Rules) -> Contribution:
    """Return what one more node of a group adds."""
    return contribution(template.node, group, groups.gpu_label, gpu_resources(rules))


def nodes_left(max_nodes_total: int, present: int) -> int | None:
    """Return how many nodes the cluster may still grow by, upcoming ones counted in `present`; None: no limit."""
    return max(0, max_nodes_total - present) if max_nodes_total > 0 else None


def _targets(groups: Groups) -> tuple[tuple[str, int], ...]:
    return tuple((group.id, group.target_size) for group in groups.all)


def _left(limit: int, used: int | None) -> int | None:
    return None if used is None else max(0, limit - used)
