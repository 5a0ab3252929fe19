"""The gangs that wait: what each wants, what is possible, and when and at what price it can start."""

from collections import defaultdict
from collections.abc import Sequence

from autoscaler.observe.report import PassReport
from autoscaler.observe.status import GangStatus, PodState, PodStatus
from autoscaler.scaleup.gang_purchases import purchases
from autoscaler.scaleup.gangs import ShortGang, WaitingGang


def gang_statuses(report: PassReport, pods: Sequence[PodStatus]) -> tuple[GangStatus, ...]:
    """Return the gangs that wait, by name; `pods` are the statuses of the view's pending pods."""
    if not report.gangs or report.view is None:
        return ()
    members: dict[str, list[PodStatus]] = defaultdict(list)
    for pod, status in zip(report.view.pending, pods, strict=True):
        if pod.cls.gang is not None:
            members[pod.cls.gang.key].append(status)
    plan = report.scale_up.plan
    short = {gang.name: gang for gang in (() if plan is None else plan.short_gangs)}
    return tuple(_status(gang, members[gang.name], short.get(gang.name), report) for gang in report.gangs)


def _status(gang: WaitingGang, pods: Sequence[PodStatus], short: ShortGang | None, report: PassReport) -> GangStatus:
    helped = sum(pod.state is PodState.ON_ITS_WAY for pod in pods)
    possible = gang.running + helped if short is None else short.possible
    if short is not None:
        state = PodState.WAITING if short.incomplete else PodState.STUCK
    else:
        state = PodState.ON_ITS_WAY if possible >= gang.wanted else PodState.WAITING
    nodes = _nodes(gang.name, report)
    known = sorted(pod.eta_s for pod in pods if pod.eta_s is not None)
    lacking = gang.wanted - gang.running
    return GangStatus(
        gang=gang.name,
        wanted=gang.wanted,
        possible=possible,
        pending=gang.pending,
        state=state,
        detail=f"{gang.wanted} wanted, {possible} possible" if short is None else short.figures,
        nodes=nodes,
        node_price=_price(nodes, report),
        eta_s=known[lacking - 1] if len(known) >= lacking and short is None else None,
    )


def _nodes(name: str, report: PassReport) -> dict[str, int]:
    nodes: dict[str, int] = {}
    plan = report.scale_up.plan
    for purchase in () if plan is None else purchases(plan, report.increases):
        if purchase.gang == name:
            nodes[purchase.group] = nodes.get(purchase.group, 0) + purchase.machines
    return nodes


def _price(nodes: dict[str, int], report: PassReport) -> float | None:
    """Return what nodes cost per hour; None if there are none, or if the price of any is unknown."""
    by_id = {} if report.view is None else report.view.groups.by_id
    total = 0.0
    for group_id, count in nodes.items():
        price = by_id[group_id].node_price if group_id in by_id else None
        if price is None:
            return None
        total += price * count
    return total if nodes else None
