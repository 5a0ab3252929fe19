"""Raising groups that are below their minimum size (`--enforce-node-group-min-size`)."""

from autoscaler.config.rules import Rules
from autoscaler.scaleup.context import ScaleUpContext, over_limits, unfit
from autoscaler.scaleup.limits import Allowance
from autoscaler.scaleup.plan import Increase


def plan_minimum_sizes(situation: ScaleUpContext, rules: Rules) -> tuple[Increase, ...]:
    """Return what brings each group up to its minimum, as far as limits allow.

    Groups that are unhealthy, backed off or without template are left alone. Limits count what earlier groups take.
    """
    increases: list[Increase] = []
    needs = situation.needs(rules)
    for group in situation.groups.all:
        wanted = group.min_size - group.target_size
        if wanted <= 0 or unfit(group, situation) or over_limits(group, 1, situation, needs, rules):
            continue
        if isinstance(situation.allowance, Allowance):
            wanted = situation.allowance.cap(needs[group.id], wanted)
        if situation.nodes_left is not None:
            wanted = min(wanted, situation.nodes_left)
        if wanted > 0:
            increase = Increase(group=group.id, delta=wanted, before=group.target_size, max_size=group.max_size)
            increases.append(increase)
            situation = situation.after((increase,), needs)
    return tuple(increases)
