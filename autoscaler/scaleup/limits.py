"""Limits of the whole cluster: cores, memory, GPUs by type, and nodes; and those of CapacityQuotas.

What the cluster may still grow by is an `Allowance`; it never changes, taking from it makes another one.
"""

from collections.abc import Iterable, Mapping

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ResourceLimits
from autoscaler.objects.node import Node
from autoscaler.scaleup.capacity_quotas import NO_QUOTAS, Quotas
from autoscaler.snapshot.contribution import (
    CLUSTER_WIDE,
    Contribution,
    Limit,
    bounds,
    contribution,
    gpu_resources,
    totals,
    virtual_kubelet,
)
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.template import Template


class Exceeded(msgspec.Struct, frozen=True):
    """Limits that would be exceeded: `cpu`, `memory`, GPU types, then those of CapacityQuotas."""

    limits: tuple[Limit, ...]

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources, each once."""
        return tuple(dict.fromkeys(limit.resource for limit in self.limits))

    def message(self, *, names_quota: bool) -> str:
        """Return Cluster Autoscaler's words: the newer ones with `names_quota`, and for all but its flags."""
        by_quota: dict[str, list[str]] = {}
        for limit in self.limits:
            by_quota.setdefault(limit.quota, []).append(limit.resource)
        return ", ".join(
            f'exceeded quota: "{quota}", resources: {", ".join(resources)}'
            if names_quota or quota != CLUSTER_WIDE
            else f"max cluster {', '.join(resources)} limit reached"
            for quota, resources in by_quota.items()
        )


class Uncountable(msgspec.Struct, frozen=True):
    """What the cluster has is unknown: the group has no template, so nothing may be scaled up."""

    group: str


class Allowance(msgspec.Struct, frozen=True):
    """What may still be added, by limit; what is absent has none.

    None marks a limited resource whose use is unknown, so none of it may be added.
    """

    left: Mapping[Limit, int | None] = {}

    def exceeded_by(self, node: Contribution, nodes: int = 1) -> Exceeded | None:
        """Return the limits that this many nodes would exceed; None where they exceed none."""
        limits = tuple(limit for limit, share in node.shares() if not self._covers(limit, share, nodes))
        return Exceeded(limits) if limits else None

    def cap(self, node: Contribution, nodes: int) -> int:
        """Return how many of `nodes` such nodes may be added."""
        for limit, share in node.shares():
            if not self._covers(limit, share, nodes):
                nodes = (self.left[limit] or 0) // share if share else 0
        return nodes

    def after(self, node: Contribution, nodes: int) -> "Allowance":
        """Return what remains once this many nodes are added; at least 0."""
        left = dict(self.left)
        for limit, share in node.shares():
            amount = left.get(limit)
            if amount is not None:
                left[limit] = max(0, amount - (share or 0) * nodes)
        return Allowance(left)

    def _covers(self, limit: Limit, share: int | None, nodes: int) -> bool:
        if limit not in self.left or share == 0:
            return True
        amount = self.left[limit]
        return amount is not None and share is not None and share * nodes <= amount


def allowance(
    options: ResourceLimits,
    rules: Rules,
    groups: Groups,
    templates: Mapping[str, Template],
    nodes: Iterable[Node],
    upcoming: Mapping[str, int] | None = None,
    quotas: Quotas = NO_QUOTAS,
) -> Allowance | Uncountable:
    """Return what the cluster may still grow by; see `usage` for what counts."""
    used = usage(options, rules, groups, templates, nodes, upcoming, quotas)
    if isinstance(used, Uncountable):
        return used
    return Allowance({limit: _left(most, used[limit]) for limit, most in maxima(options, quotas).items()})


def maxima(options: ResourceLimits, quotas: Quotas) -> dict[Limit, int]:
    """Return all limits, in the units of contributions. A maximum of 0 that a flag sets is no limit."""
    return {limit: bound.max for limit, bound in bounds(options).items() if bound.max > 0} | quotas.limits


def usage(
    options: ResourceLimits,
    rules: Rules,
    groups: Groups,
    templates: Mapping[str, Template],
    nodes: Iterable[Node],
    upcoming: Mapping[str, int] | None = None,
    quotas: Quotas = NO_QUOTAS,
) -> Mapping[Limit, int | None] | Uncountable:
    """Return how much of each limited resource is in use, None where a node does not say.

    In use is what `nodes` and the `upcoming` ones (count by group) have or, where rules say so, what groups have
    asked for and nodes of no group have. Nodes that are no machines do not count.
    """
    counted: list[tuple[Contribution, int]] = []
    resources = gpu_resources(rules)
    for group_id, count in _targets(groups) if rules.limits_count_group_targets else (upcoming or {}).items():
        template = templates.get(group_id)
        if template is not None:
            group = groups.get(group_id)
            one = contribution(template.node, group, groups.gpu_label, resources)
            counted.append((quotas.counted(one, template.node, group), count))
        elif rules.limits_count_group_targets:
            return Uncountable(group_id)
    for node in nodes:
        owner = groups.of_node.get(node.name)
        if virtual_kubelet(node) or (rules.limits_count_group_targets and owner is not None):
            continue
        group = None if owner is None else groups.get(owner)
        one = contribution(node, group, groups.gpu_label, resources)
        counted.append((quotas.counted(one, node, group), 1))
    return totals(maxima(options, quotas), counted)


def need_of(group: Group, template: Template, groups: Groups, rules: Rules, quotas: Quotas = NO_QUOTAS) -> Contribution:
    """Return what one more node of a group adds."""
    one = contribution(template.node, group, groups.gpu_label, gpu_resources(rules))
    return quotas.counted(one, template.node, group)


def nodes_left(max_nodes_total: int, present: int) -> int | None:
    """Return how many nodes the cluster may still grow by, upcoming ones counted in `present`; None: no limit."""
    return max(0, max_nodes_total - present) if max_nodes_total > 0 else None


def _targets(groups: Groups) -> tuple[tuple[str, int], ...]:
    return tuple((group.id, group.target_size) for group in groups.all)


def _left(limit: int, used: int | None) -> int | None:
    return None if used is None else max(0, limit - used)
