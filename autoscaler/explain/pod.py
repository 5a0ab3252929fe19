"""Explains a pod: its verdict, then what every node and node group has against it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from autoscaler.config.tree import Config
from autoscaler.explain.answer import EXAMPLES, GroupFate, GroupSet, LeftOut, NodeSet, PodExplanation
from autoscaler.explain.options import offers
from autoscaler.explain.remedies.pods import beyond, needy_remedies, shortlist, waiting_remedies
from autoscaler.explain.remedies.remedy import Remedy
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects import quantity
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.requests import DEFERRED, INFEASIBLE
from autoscaler.observe.pod_summary import pod_statuses
from autoscaler.reasons import PodVerdict, Rejection, ScaleUpResult, Skip, Skipped, Waiting
from autoscaler.scaleup.next_zone import verdict
from autoscaler.scaleup.pending import expendable
from autoscaler.scheduling.fit_error import unschedulable
from autoscaler.scheduling.misses import Miss, near_misses
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import profile_of
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.overlay import Trial

RUNS = "Runs"
_UNDECIDED = (ScaleUpResult.IN_COOLDOWN, ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL)
"""Verdicts of pods that the pass held against no group."""

_NOT_ASKED = (Waiting.GATED, Waiting.TERMINATING, Waiting.FOREIGN_SCHEDULER)
"""Why pods wait of which the scheduler says nothing."""

_UNKNOWN = Miss(rejections=(), positions=(), shortfall=0.0)
_FATES = tuple(GroupFate)


class _Stand(msgspec.Struct, frozen=True):
    """Where one group stands towards a pod."""

    group: str
    fate: GroupFate
    miss: Miss
    skipped: Skipped | None

    @property
    def takes(self) -> bool:
        """Whether the group may grow, and a new node of it would take the pod."""
        return self.skipped is None and not self.miss.rejections

    @property
    def words(self) -> tuple[str, ...]:
        """What groups of one set have in common."""
        left_out = () if self.skipped is None else (self.skipped.reason, self.skipped.message)
        return (self.fate, *left_out, *(word for one in self.miss.rejections for word in (one.reason, one.message)))

    @property
    def order(self) -> tuple[int, int, float]:
        """Groups that help come first; being left out counts as one more filter that fails."""
        filters, missed = self.miss.distance
        helps = min(_FATES.index(self.fate), _FATES.index(GroupFate.LEFT_OUT))
        return helps, filters + (self.skipped is not None), missed if filters else 1.0


def explain_running(target: str, pod: Pod, node: str, view: ClusterView) -> PodExplanation:
    """Explain a pod that has its node."""
    where = (
        f"on node {node}" if node in view.positions else f"on node {node}, which is not in the cluster: it is skipped"
    )
    return PodExplanation(
        target=target,
        verdict=RUNS,
        message=f"has finished {where}" if pod.finished else f"runs {where}{_resize(pod.cls)}",
        node=node,
        requests=_requests(pod.cls),
    )


def _resize(cls: PodClass) -> str:
    if cls.resize_pending == INFEASIBLE:
        return "; its resize is infeasible there, so its requests do not count"
    if cls.held_for_resize:
        state = "is deferred" if cls.resize_pending == DEFERRED else "is under way"
        return f"; its resize {state}, and until it is finished the larger requests count"
    return ""


def explain_pending(target: str, pod: Pod, p: EndedPass, view: ClusterView, config: Config) -> PodExplanation:
    """Explain a pod without a node."""
    seen = p.report.view or view
    alone = msgspec.structs.replace(seen, pending=tuple(one for one in seen.pending if one.key == pod.key))
    status = pod_statuses(msgspec.structs.replace(p.report, view=alone))[0]
    node = _node_of(pod, p)
    found = PodExplanation(
        target=target,
        verdict=status.verdict,
        message=_message(status.verdict, status.detail, node, status.planned_group),
        node=node,
        group=status.planned_group,
        scheduler_message=_scheduler_message(pod, p, view, config),
        requests=_requests(pod.cls),
        offers=offers(p.report.scale_up.plan, lambda option: any(one.key == pod.key for one in option.pods)),
    )
    if p.placer is None:
        return _with_remedies(found, shortlist(needy_remedies(pod, status.verdict, p, config, (), ())))
    with _lifted(pod, node, p.placer.trial, view, config):
        misses = near_misses(p.placer, pod.cls, slice(0, p.placer.trial.count))
        stands = sorted(_stands(pod, p, view), key=lambda one: one.order)
        nearest = [position for miss in misses if miss.rejections for position in miss.positions]
        waiting = p.report.pods.waiting.get(pod.key)
        remedies = (
            needy_remedies(pod, status.verdict, p, config, [(one.group, one.skipped) for one in stands], nearest)
            if waiting is None
            else waiting_remedies(pod, waiting, p, config, nearest)
        )
        waits = waiting is not None or status.verdict in _UNDECIDED
        if waits and all(miss.rejections for miss in misses) and not any(stand.takes for stand in stands):
            reach = [(one.group, one.skipped) for one in stands]
            remedies = beyond(remedies, pod, p, config, reach, nearest)
        explained = msgspec.structs.replace(found, nodes=_node_sets(p.placer, misses), groups=_group_sets(stands))
        return _with_remedies(explained, shortlist(remedies))


def _scheduler_message(pod: Pod, p: EndedPass, view: ClusterView, config: Config) -> str:
    if p.report.pods.waiting.get(pod.key) in _NOT_ASKED:
        return ""
    profile = profile_of(config.scheduler, config.rules, device_claims=config.device_claims_count)
    return unschedulable(Placer(Trial(view), profile), pod.cls)


def _with_remedies(found: PodExplanation, remedies: Sequence[Remedy]) -> PodExplanation:
    return msgspec.structs.replace(found, remedy=remedies[0] if remedies else None, alternatives=list(remedies[1:]))


def _node_of(pod: Pod, p: EndedPass) -> str | None:
    match p.report.pods.waiting.get(pod.key):
        case Waiting.FITS:
            return p.memory.hints.get(pod)
        case Waiting.NOMINATED:
            return pod.nominated_node
        case _:
            return None


def _message(verdict: str, detail: str, node: str | None, group: str | None) -> str:
    match verdict:
        case Waiting.FITS:
            return f"needs no new node: it fits on {node}"
        case Waiting.NOMINATED:
            return f"{detail} The node is {node}."
        case PodVerdict.HELPED:
            return f"gets a new node of group {group}"
        case PodVerdict.NO_GROUP_FITS:
            return "needs a new node, and no node group that may grow would take it"
        case PodVerdict.NEXT_PASS:
            return "needs a new node; some node group could take it, but this pass handles others first"
        case PodVerdict.NOT_CHOSEN:
            return "needs a new node; some node group could take it, but the expander selected none"
        case _:
            return detail


def _requests(cls: PodClass) -> dict[str, str]:
    return {name: quantity.text(name, value) for name, value in cls.requests.items() if value}


@contextmanager
def _lifted(pod: Pod, node: str | None, trial: Trial, view: ClusterView, config: Config) -> Iterator[None]:
    """Take away the pod's own place, if the pass gave it one: it must not stand in its own way."""
    position = None if node is None else view.positions.get(node)
    if position is None and node is not None:
        position = next((one for one in range(trial.base, trial.count) if trial.name(one) == node), None)
    with trial.fork():
        if position is not None and not expendable(pod, config.pods.expendable_pods_priority_cutoff):
            trial.lift(pod.cls, position)
        yield


def _node_sets(placer: Placer, misses: Sequence[Miss]) -> list[NodeSet]:
    trial = placer.trial
    return [
        NodeSet(
            count=len(miss.positions),
            upcoming=sum(1 for position in miss.positions if position >= trial.base),
            examples=[trial.name(position) for position in miss.positions[:EXAMPLES]],
            rejections=list(miss.rejections),
        )
        for miss in misses
    ]


def _group_sets(stands: Sequence[_Stand]) -> list[GroupSet]:
    sets: dict[tuple[str, ...], list[_Stand]] = {}
    for stand in stands:
        sets.setdefault(stand.words, []).append(stand)
    return [_group_set(members) for members in sets.values()]


def _group_set(members: Sequence[_Stand]) -> GroupSet:
    nearest = members[0]
    return GroupSet(
        fate=nearest.fate,
        groups=[one.group for one in members],
        skipped=left_out(nearest.skipped),
        rejections=list(nearest.miss.rejections),
    )


def left_out(skipped: Skipped | None) -> LeftOut | None:
    """Return why a group may not grow, in the form that is printed."""
    if skipped is None:
        return None
    return LeftOut(reason=skipped.reason, message=skipped.message, detail=skipped.detail)


def _stands(pod: Pod, p: EndedPass, view: ClusterView) -> Iterator[_Stand]:
    assert p.placer is not None
    plan = p.report.scale_up.plan
    left_out = () if plan is None else plan.full if pod.key in plan.held else plan.skipped
    skipped: Mapping[str, Skipped] = {one.group: one for one in left_out}
    grows, offered = _growing_for(pod, p), _offered_for(pod, p)
    for group in view.groups.all:
        template = p.report.templates.get(group.id)
        miss, reason = _UNKNOWN, skipped.get(group.id)
        if template is not None:
            with p.placer.trial.fork():
                fresh = p.placer.trial.add(template, 1)
                (miss,) = near_misses(p.placer, pod.cls, slice(fresh.start, fresh.stop))
            miss = msgspec.structs.replace(miss, rejections=verdict(p.placer, pod.cls, template, miss.rejections))
        elif reason is None:
            message = "not ready for scale-up"
            reason = Skipped(group.id, Skip.NO_TEMPLATE, message, "it has no template")
        yield _Stand(group.id, _fate(group.id, grows, offered, reason, miss.rejections), miss, reason)


def _growing_for(pod: Pod, p: EndedPass) -> frozenset[str]:
    """Return the groups that grow for the pod, as far as they did."""
    plan = p.report.scale_up.plan
    grown = {one.group for one in p.report.increases if one.after > one.before}
    rounds = () if plan is None else plan.rounds
    mine = (each for each in rounds if any(one.key == pod.key for one in each.helped))
    return frozenset(increase.group for each in mine for increase in each.increases if increase.group in grown)


def _offered_for(pod: Pod, p: EndedPass) -> frozenset[str]:
    plan = p.report.scale_up.plan
    options = [] if plan is None else [option for each in plan.rounds for option in each.options]
    return frozenset(option.group.id for option in options if any(one.key == pod.key for one in option.pods))


def _fate(
    group: str,
    grows: frozenset[str],
    offered: frozenset[str],
    skipped: Skipped | None,
    rejections: Sequence[Rejection],
) -> GroupFate:
    if group in grows:
        return GroupFate.GROWS
    if skipped is not None:
        return GroupFate.LEFT_OUT
    if rejections:
        return GroupFate.REJECTS
    return GroupFate.OFFERED if group in offered else GroupFate.FITS
