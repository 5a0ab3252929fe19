"""Answers why the last pass decided as it did for a pod, a node or a node group."""

from collections import Counter
from collections.abc import Iterable, Iterator

from autoscaler.observe import reason_table
from autoscaler.observe.api.answers import Explanation, Tally
from autoscaler.observe.meanings import GivenReason, meanings
from autoscaler.observe.status import GroupReason, GroupStatus, NodeStatus, PodStatus, StatusView
from autoscaler.reasons import Skip

_MOST_DECISIONS = 20


def explain_pod(view: StatusView, target: str) -> Explanation | None:
    """Explain a pending pod, `namespace/name`; None: no such pod waits."""
    namespace, _, name = target.partition("/")
    pod = next((one for one in view.status.pods if one.name == name and one.namespace == namespace), None)
    if pod is None:
        return None
    given: list[GivenReason] = [(pod.verdict, reason_table.OF_PODS)]
    given += [(one.reason, reason_table.OF_GROUPS) for one in pod.reasons]
    groups = {pod.planned_group, *(one.group for one in pod.reasons)}
    return _explanation(view, given, groups, pod=pod)


def explain_node(view: StatusView, name: str) -> Explanation | None:
    """Explain a node; None: there is none of that name."""
    node = next((one for one in view.status.nodes if one.name == name), None)
    if node is None:
        return None
    given: list[GivenReason] = [] if node.stays is None else [(node.stays.reason, reason_table.OF_NODES)]
    return _explanation(view, given, {node.group}, node=node)


def explain_group(view: StatusView, group_id: str) -> Explanation | None:
    """Explain a node group; None: there is none of that id."""
    group = next((one for one in view.status.groups if one.id == group_id), None)
    if group is None:
        return None
    refused = Counter(_refusals(view.status.pods, group_id))
    kept = Counter(one.stays.reason for one in view.status.nodes if one.group == group_id and one.stays is not None)
    given: list[GivenReason] = [(reason, reason_table.OF_GROUPS) for reason in refused]
    given += [(Skip.BACKED_OFF, reason_table.OF_GROUPS)] if group.backoff is not None else []
    given += [(reason, reason_table.OF_NODES) for reason in kept]
    return _explanation(view, given, {group_id}, group=group, pods_refused=_tallies(refused), nodes_kept=_tallies(kept))


def _refusals(pods: Iterable[PodStatus], group: str) -> Iterator[str]:
    """Return one reason for each pod that the group does not help; pods of one class share theirs."""
    known: dict[int, str | None] = {}
    for pod in pods:
        shared = id(pod.reasons)
        if shared not in known:
            known[shared] = _reason_of(pod.reasons, group)
        if (reason := known[shared]) is not None:
            yield reason


def _reason_of(reasons: Iterable[GroupReason], group: str) -> str | None:
    return next((one.reason for one in reasons if one.group == group), None)


def _tallies(counts: Counter[str]) -> tuple[Tally, ...]:
    return tuple(Tally(reason, count) for reason, count in counts.most_common())


def _explanation(
    view: StatusView,
    given: Iterable[GivenReason],
    groups: set[str | None],
    *,
    pod: PodStatus | None = None,
    node: NodeStatus | None = None,
    group: GroupStatus | None = None,
    pods_refused: tuple[Tally, ...] = (),
    nodes_kept: tuple[Tally, ...] = (),
) -> Explanation:
    concerned = [one for one in reversed(view.history) if one.group in groups]
    last = view.status.last_pass
    return Explanation(
        pass_started_at=None if last is None else last.started_at,
        pod=pod,
        node=node,
        group=group,
        pods_refused=pods_refused,
        nodes_kept=nodes_kept,
        meanings=tuple(meanings(given)),
        decisions=tuple(concerned[:_MOST_DECISIONS]),
    )
