"""What earlier passes bought for gangs alone, so that it can be given back if a gang cannot start after all.

Machines are bought for a gang in several groups, and the cloud may fail some of them later: it asks to wait, an
instance fails, a node never registers. The others are of no use then. Those that have not registered are cancelled;
nodes that exist are unneeded, and scale-down removes them.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from autoscaler.scaleup.gangs import ShortGang
from autoscaler.scaleup.plan import Resized, ScaleUpPlan


class GangPurchase(msgspec.Struct, frozen=True):
    """Machines that one group was asked for, and that only pods of one gang were to use."""

    gang: str
    """`namespace/name`."""
    group: str
    machines: int


def purchases(plan: ScaleUpPlan, done: Sequence[Resized]) -> tuple[GangPurchase, ...]:
    """Return what a plan, as far as it was carried out, bought for gangs alone."""
    grown: dict[str, int] = {}
    for resized in done:
        grown[resized.group] = grown.get(resized.group, 0) + resized.after - resized.before
    bought: list[GangPurchase] = []
    for plan_round in plan.rounds:
        gangs = {None if pod.cls.gang is None else pod.cls.gang.key for pod in plan_round.helped}
        gang = gangs.pop() if len(gangs) == 1 else None
        for increase in plan_round.increases:
            machines = min(increase.delta, grown.get(increase.group, 0))
            grown[increase.group] = grown.get(increase.group, 0) - machines
            if gang is not None and machines > 0:
                bought.append(GangPurchase(gang, increase.group, machines))
    return tuple(bought)


def in_vain(
    bought: Sequence[GangPurchase], short: Sequence[ShortGang], idle: Mapping[str, int]
) -> tuple[GangPurchase, ...]:
    """Return what to give back: machines for gangs that cannot start, of which so many in each group are `idle`."""
    lacking = {gang.name for gang in short if not gang.incomplete}
    left, vain = dict(idle), []
    for purchase in bought:
        machines = min(purchase.machines, left.get(purchase.group, 0)) if purchase.gang in lacking else 0
        if machines > 0:
            left[purchase.group] -= machines
            vain.append(GangPurchase(purchase.gang, purchase.group, machines))
    return tuple(vain)


def still_open(
    bought: Sequence[GangPurchase], pending: Collection[str], upcoming: Mapping[str, int]
) -> tuple[GangPurchase, ...]:
    """Return the purchases for gangs with `pending` pods, by name, in groups with `upcoming` machines."""
    return tuple(each for each in bought if each.gang in pending and upcoming.get(each.group, 0) > 0)
