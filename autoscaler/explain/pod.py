"""Explains a pod: its verdict, and why every node and node group rejects it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from autoscaler.explain.answer import EXAMPLES, GroupFate, GroupSet, LeftOut, NodeSet, PodExplanation
from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.options import offers
from autoscaler.explain.remedies.effort import shortlist
from autoscaler.explain.remedies.pods import Reach, beyond, unschedulable_remedies
from autoscaler.explain.remedies.remedy import Remedy
from autoscaler.explain.remedies.waiting import waiting_remedies
from autoscaler.objects import quantity
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.requests import DEFERRED, INFEASIBLE
from autoscaler.observe.pod_summary import pod_statuses
from autoscaler.reasons import PodVerdict, Rejection, ScaleUpResult, Skip, Skipped, Waiting
from autoscaler.scaleup.next_zone import verdict
from autoscaler.scaleup.pending import expendable
from autoscaler.scheduling.deferred_resizes import deferred_resizes
from autoscaler.scheduling.fit_error import unschedulable
from autoscaler.scheduling.misses import Miss, near_misses
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import profile_of
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import UPCOMING, Template

RUNS = "Runs"
_UNDECIDED = (ScaleUpResult.IN_COOLDOWN, ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL)
"""Verdicts of pods for which the pass blamed no group."""

_NOT_ASKED = (Waiting.GATED, Waiting.TERMINATING, Waiting.FOREIGN_SCHEDULER)
"""Reasons to wait for which the scheduler has no message."""

_NODES_ASKED = 32
"""How many nodes the quick explanation looks at."""

_UNKNOWN = Miss(rejections=(), positions=(), shortfall=0.0)
_FATES = tuple(GroupFate)


class _GroupForPod(msgspec.Struct, frozen=True):
    """What one group could do for a pod."""

    group: str
    fate: GroupFate
    miss: Miss
    skipped: Skipped | None

    @property
    def takes(self) -> bool:
        """Whether the group may grow and a new node of it would take the pod."""
        return self.skipped is None and not self.miss.rejections

    @property
    def words(self) -> tuple[str, ...]:
        """The words that must be equal for groups to share a set."""
        skip = () if self.skipped is None else (self.skipped.reason, self.skipped.message)
        rejections = (word for rejection in self.miss.rejections for word in (rejection.reason, rejection.message))
        return (self.fate, *skip, *rejections)

    @property
    def order(self) -> tuple[int, int, float]:
        """The sort key. Groups that help come first; a group that may not grow counts as failing one more filter."""
        filters, missed = self.miss.distance
        helps = min(_FATES.index(self.fate), _FATES.index(GroupFate.LEFT_OUT))
        return helps, filters + (self.skipped is not None), missed if filters else 1.0


def explain_running(target: str, pod: Pod, node: str, view: ClusterView) -> PodExplanation:
    """Explain a pod that is on a node."""
    where = (
        f"on node {node}" if node in view.positions else f"on node {node}, which is not in the cluster: it is skipped"
    )
    return PodExplanation(
        target=target,
        verdict=RUNS,
        message=f"has finished {where}" if pod.finished else f"runs {where}{_resize(pod, view)}",
        node=node,
        requests=_requests(pod.cls),
    )


def _resize(pod: Pod, view: ClusterView) -> str:
    cls = pod.cls
    if cls.resize_pending == INFEASIBLE:
        return "; its resize is infeasible there, so its requests do not count"
    if cls.held_for_resize:
        short = next((one.shortage for one in deferred_resizes(view) if one.pod.key == pod.key), "")
        deferred = f"is deferred, because the node lacks {short}" if short else "is deferred"
        state = deferred if cls.resize_pending == DEFERRED else "is under way"
        return f"; its resize {state}, and until it is finished the larger requests count"
    return ""


def explain_pending(target: str, pod: Pod, ended: ExplainedPass) -> PodExplanation:
    """Explain a pod without a node."""
    alone = msgspec.structs.replace(ended.view, pending=tuple(other for other in ended.view.pending if other is pod))
    status = pod_statuses(msgspec.structs.replace(ended.report, view=alone))[0]
    node = _node_of(pod, ended)
    answer = PodExplanation(
        target=target,
        verdict=status.verdict,
        message=_message(status.verdict, status.detail, _place(node, ended), status.planned_group),
        node=node,
        group=status.planned_group,
        scheduler_message=_scheduler_message(pod, ended),
        requests=_requests(pod.cls),
        offers=offers(ended.report.scale_up.plan, lambda option: _helps(option.pods, pod)),
    )
    if ended.placer is None:
        return _with_remedies(answer, unschedulable_remedies(pod, status.verdict, ended, Reach()))
    with _lifted(pod, node, ended):
        misses = near_misses(ended.simulated, pod.cls, slice(0, ended.simulated.trial.count))
        cases = sorted(_group_cases(pod, ended), key=lambda case: case.order)
        remedies = _remedies(pod, status.verdict, misses, cases, ended)
        nodes, groups = _node_sets(ended.simulated, misses), _group_sets(cases)
        return _with_remedies(msgspec.structs.replace(answer, nodes=nodes, groups=groups), remedies)


def quick_remedies(pod: Pod, outcome: str, ended: ExplainedPass) -> list[Remedy]:
    """Return the remedies of `explain_pending` for a stuck pod, best first, from a look at a few nodes only."""
    if ended.placer is None:
        return shortlist(unschedulable_remedies(pod, outcome, ended, Reach()))
    with _lifted(pod, None, ended):
        misses = near_misses(ended.simulated, pod.cls, slice(0, ended.simulated.trial.count), _NODES_ASKED)
        cases = sorted(_group_cases(pod, ended), key=lambda case: case.order)
        return shortlist(_remedies(pod, outcome, misses, cases, ended))


def _remedies(
    pod: Pod, outcome: str, misses: Sequence[Miss], cases: Sequence[_GroupForPod], ended: ExplainedPass
) -> Iterator[Remedy]:
    nearest = [position for miss in misses if miss.rejections for position in miss.positions]
    reach = Reach([(case.group, case.skipped) for case in cases], nearest)
    waiting = ended.report.pods.waiting.get(pod.key)
    if waiting is None:
        remedies = unschedulable_remedies(pod, outcome, ended, reach)
    else:
        remedies = waiting_remedies(pod, waiting, ended, nearest)
    undecided = waiting is not None or outcome in _UNDECIDED
    if undecided and all(miss.rejections for miss in misses) and not any(case.takes for case in cases):
        return beyond(remedies, pod, ended, reach)
    return remedies


def _helps(pods: Iterable[Pod], pod: Pod) -> bool:
    return any(other.key == pod.key for other in pods)


def _scheduler_message(pod: Pod, ended: ExplainedPass) -> str:
    if ended.report.pods.waiting.get(pod.key) in _NOT_ASKED:
        return ""
    config = ended.config
    profile = profile_of(config.scheduler, config.rules, device_claims=config.device_claims_count)
    return unschedulable(Placer(Trial(ended.view), profile), pod.cls)


def _with_remedies(answer: PodExplanation, remedies: Iterator[Remedy]) -> PodExplanation:
    best = shortlist(remedies)
    return msgspec.structs.replace(answer, remedy=best[0] if best else None, alternatives=best[1:])


def _node_of(pod: Pod, ended: ExplainedPass) -> str | None:
    match ended.report.pods.waiting.get(pod.key):
        case Waiting.FITS:
            return ended.memory.hints.get(pod)
        case Waiting.NOMINATED:
            return pod.nominated_node
        case _:
            return None


def _place(node: str | None, ended: ExplainedPass) -> str:
    """Return the name of the node that the pod fits on or is nominated to."""
    group = None
    if node is not None and node not in ended.view.positions:
        names = {group: f"{template.node.name}-{UPCOMING}" for group, template in ended.report.templates.items()}
        group = next((group for group, name in names.items() if node.startswith(name)), None)
    return f"node {node}" if group is None else f"an upcoming node of group {group}"


def _message(verdict: str, detail: str, node: str, group: str | None) -> str:
    match verdict:
        case Waiting.FITS:
            return f"needs no new node: it fits on {node}"
        case Waiting.NOMINATED:
            return f"{detail} It is {node}."
        case PodVerdict.HELPED:
            return f"gets a new node of group {group}"
        case PodVerdict.NO_GROUP_FITS:
            return "needs a new node, and no node group that may grow would take it"
        case PodVerdict.NEXT_PASS:
            return "needs a new node; some node group could take it, but this pass handles others first"
        case PodVerdict.GANG_TOO_LARGE:
            return f"needs a new node, and gets none because its gang could not start: {detail}"
        case PodVerdict.NOT_CHOSEN:
            return "needs a new node; some node group could take it, but the expander selected none"
        case _:
            return detail


def _requests(cls: PodClass) -> dict[str, str]:
    return {name: quantity.text(name, value) for name, value in cls.requests.items() if value}


@contextmanager
def _lifted(pod: Pod, node: str | None, ended: ExplainedPass) -> Iterator[None]:
    """Remove the pod's own placement, if the pass made one, so that the pod does not block itself."""
    trial = ended.simulated.trial
    position = None if node is None else ended.view.positions.get(node)
    if position is None and node is not None:
        position = next((added for added in range(trial.base, trial.count) if trial.name(added) == node), None)
    with trial.fork():
        if position is not None and not expendable(pod, ended.config.pods.expendable_pods_priority_cutoff):
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


def _group_sets(cases: Sequence[_GroupForPod]) -> list[GroupSet]:
    sets: dict[tuple[str, ...], list[_GroupForPod]] = {}
    for case in cases:
        sets.setdefault(case.words, []).append(case)
    return [_group_set(members) for members in sets.values()]


def _group_set(members: Sequence[_GroupForPod]) -> GroupSet:
    nearest = members[0]
    return GroupSet(
        fate=nearest.fate,
        groups=[member.group for member in members],
        skipped=left_out(nearest.skipped),
        rejections=list(nearest.miss.rejections),
    )


def left_out(skipped: Skipped | None) -> LeftOut | None:
    """Return why a group may not grow, in the form that is printed."""
    if skipped is None:
        return None
    return LeftOut(reason=skipped.reason, message=skipped.message, detail=skipped.detail)


def _group_cases(pod: Pod, ended: ExplainedPass) -> Iterator[_GroupForPod]:
    plan = ended.report.scale_up.plan
    skips = () if plan is None else plan.full if pod.key in plan.held else plan.skipped
    skipped = {skip.group: skip for skip in skips}
    grows, offered = _growing_for(pod, ended), _offered_for(pod, ended)
    for group in ended.view.groups.all:
        ended.check()
        template = ended.report.templates.get(group.id)
        skip = skipped.get(group.id)
        if template is None and skip is None:
            skip = Skipped(group.id, Skip.NO_TEMPLATE, "not ready for scale-up", "it has no template")
        miss = _UNKNOWN if template is None else _miss_of(pod.cls, template, ended.simulated)
        yield _GroupForPod(group.id, _fate(group.id, grows, offered, skip, miss.rejections), miss, skip)


def _miss_of(cls: PodClass, template: Template, placer: Placer) -> Miss:
    """Return why a new node of a group rejects a class."""
    with placer.trial.fork():
        fresh = placer.trial.add(template, 1)
        (miss,) = near_misses(placer, cls, slice(fresh.start, fresh.stop))
    return msgspec.structs.replace(miss, rejections=verdict(placer, cls, template, miss.rejections))


def _growing_for(pod: Pod, ended: ExplainedPass) -> frozenset[str]:
    """Return the groups that grow for the pod, and by how much."""
    plan = ended.report.scale_up.plan
    grown = {resized.group for resized in ended.report.increases if resized.after > resized.before}
    rounds = (round_ for round_ in (() if plan is None else plan.rounds) if _helps(round_.helped, pod))
    return frozenset(increase.group for round_ in rounds for increase in round_.increases if increase.group in grown)


def _offered_for(pod: Pod, ended: ExplainedPass) -> frozenset[str]:
    plan = ended.report.scale_up.plan
    options = (option for round_ in (() if plan is None else plan.rounds) for option in round_.options)
    return frozenset(option.group.id for option in options if _helps(option.pods, pod))


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
