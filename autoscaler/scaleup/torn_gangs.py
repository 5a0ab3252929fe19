"""Gangs that got a part of their nodes, because the cloud refused the rest: what was asked for in vain."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from autoscaler.reasons import PodVerdict
from autoscaler.scaleup.plan import HeldReason, ScaleUpPlan


class TornGangs(msgspec.Struct, frozen=True):
    """What a plan has for gangs that cannot start."""

    pods: Mapping[str, PodVerdict]
    """Why each of their pods gets no node after all, by key."""
    machines: Mapping[str, int]
    """Machines that were asked for only for them, by group."""


def torn_apart(plan: ScaleUpPlan) -> TornGangs:
    """Return what rounds of a plan are for gangs that a later attempt of the same pass found too large."""
    short = {gang.name: gang.reason for gang in plan.short_gangs}
    pods: dict[str, PodVerdict] = {}
    machines: Counter[str] = Counter()
    for plan_round in plan.rounds if short else ():
        gangs = {pod.key: pod.cls.gang.key for pod in plan_round.helped if pod.cls.gang is not None}
        mine = {key: short[gang] for key, gang in gangs.items() if gang in short}
        pods |= mine
        if mine and len(mine) == len(plan_round.helped):
            machines.update({increase.group: increase.delta for increase in plan_round.increases})
    return TornGangs(pods, machines)


def without_gangs(plan: ScaleUpPlan, torn: TornGangs) -> ScaleUpPlan:
    """Return a plan in which these gangs get nothing."""
    rounds = (plan_round.without(torn.pods) for plan_round in plan.rounds)
    held: dict[str, HeldReason] = {**plan.held, **torn.pods}
    return msgspec.structs.replace(
        plan,
        rounds=tuple(plan_round for plan_round in rounds if plan_round.helped),
        triggered=tuple(pod for pod in plan.triggered if pod.key not in torn.pods),
        held=held,
    )
