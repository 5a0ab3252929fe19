"""Answers `/api/v1/explain`: why the last pass decided as it did for a pod, node or group, and what would change it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from autoscaler.explain.answer import GroupExplanation, NodeExplanation, PodExplanation
from autoscaler.explain.explain import ExplainKind, ExplainTarget
from autoscaler.explain.service import Reply
from autoscaler.observe import reason_table
from autoscaler.observe.api.answers import Name
from autoscaler.observe.http.endpoint import Endpoint, EndpointRoutes, SuccessResponse
from autoscaler.observe.http.public_json import public_json
from autoscaler.observe.http.routing import JSON, HttpProblem, Request, Response
from autoscaler.observe.meanings import GivenReason, ReasonMeaning, meanings
from autoscaler.observe.status import Decision, GroupReason, GroupStatus, NodeStatus, PodStatus
from autoscaler.observe.status_board import StatusBoard, StatusView
from autoscaler.reasons import Skip

PATH = "/api/v1/explain"
_MOST_DECISIONS = 20
_NOUNS = {ExplainKind.POD: "pod without a node", ExplainKind.NODE: "node", ExplainKind.GROUP: "node group"}

Ask = Callable[[ExplainTarget, Callable[[], bool]], Reply]
"""`ExplainService.ask`."""


class ExplainQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The object to explain; exactly one parameter is required."""

    pod: Annotated[Name, Meta(description="A pending pod, `NAMESPACE/NAME`.")] | UnsetType = UNSET
    node: Annotated[Name, Meta(description="A node.")] | UnsetType = UNSET
    group: Annotated[Name, Meta(description="A node group, by its id.")] | UnsetType = UNSET


class Tally(msgspec.Struct, frozen=True):
    """How many times a reason occurs."""

    reason: str
    count: int


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why the last pass decided as it did for one pod, node or node group. Only the field of that object is set."""

    pass_started_at: float | None
    pod: PodStatus | None = None
    node: NodeStatus | None = None
    group: GroupStatus | None = None
    pods_refused: tuple[Tally, ...] = ()
    """For a group: why it cannot help pending pods."""
    nodes_kept: tuple[Tally, ...] = ()
    """For a group: why its nodes stay."""
    meanings: tuple[ReasonMeaning, ...] = ()
    """The meaning of every reason that the answer names."""
    decisions: tuple[Decision, ...] = ()
    """Recent decisions about the groups involved, newest first."""
    explanation: PodExplanation | NodeExplanation | GroupExplanation | None = None
    """Near misses and remedies, as `autoscaler plan --explain -o json` prints them."""
    not_explained: str | None = None
    """Why there is no explanation."""


def explain_routes(board: StatusBoard, ask: Ask) -> EndpointRoutes:
    """Return the route of the endpoint."""

    def serve(query: ExplainQuery, request: Request) -> Response:
        target = _target(query)
        view = board.view
        explained = _explained(view, target)
        reply = ask(target, request.client_gone)
        if reply.view is not view:
            explained = _explained(reply.view, target)
        answer = msgspec.structs.replace(explained, explanation=reply.explanation, not_explained=reply.missing or None)
        return Response(public_json(answer), JSON)

    endpoint = Endpoint(
        summary="Explains the outcome for one pod, node or group in the last pass, and what would change it; "
        "give exactly one.",
        exposes="what the lists expose about the object; names of other nodes, groups, pods and budgets; uses CPU time "
        "between passes, for one request at a time",
        query=ExplainQuery,
        serve=serve,
        responses={200: SuccessResponse(forms=(Explanation,))},
        errors={404: "The last pass saw nothing of that name."},
    )
    return {PATH: {"GET": endpoint}}


def _target(query: ExplainQuery) -> ExplainTarget:
    names = {ExplainKind.POD: query.pod, ExplainKind.NODE: query.node, ExplainKind.GROUP: query.group}
    targets = [ExplainTarget(kind, name) for kind, name in names.items() if name is not UNSET]
    if len(targets) != 1:
        raise HttpProblem(400, "invalid_parameter", "name exactly one pod, node or group: ?pod=NAMESPACE/NAME")
    return targets[0]


def _explained(view: StatusView, target: ExplainTarget) -> Explanation:
    """Return the published status of the target; raises `HttpProblem` if the pass did not see the target."""
    explain = {ExplainKind.POD: _pod, ExplainKind.NODE: _node, ExplainKind.GROUP: _group}[target.kind]
    explanation = explain(view, target.name)
    if explanation is None:
        missing = _NOUNS[target.kind]
        raise HttpProblem(404, "not_found", f"the last pass saw no {missing} called {target.name}", target.kind.value)
    return explanation


def _pod(view: StatusView, key: str) -> Explanation | None:
    namespace, _, name = key.partition("/")
    pod = next((pod for pod in view.status.pods if pod.name == name and pod.namespace == namespace), None)
    if pod is None:
        return None
    given: list[GivenReason] = [(pod.verdict, reason_table.OF_PODS)]
    given += [(reason.reason, reason_table.OF_GROUPS) for reason in pod.reasons]
    groups = {pod.planned_group, *(reason.group for reason in pod.reasons)}
    return _with_meanings(Explanation(pass_started_at=None, pod=pod), view, given, groups)


def _node(view: StatusView, name: str) -> Explanation | None:
    node = next((node for node in view.status.nodes if node.name == name), None)
    if node is None:
        return None
    given: list[GivenReason] = [] if node.stays is None else [(node.stays.reason, reason_table.OF_NODES)]
    return _with_meanings(Explanation(pass_started_at=None, node=node), view, given, {node.group})


def _group(view: StatusView, group_id: str) -> Explanation | None:
    group = next((group for group in view.status.groups if group.id == group_id), None)
    if group is None:
        return None
    nodes = (node for node in view.status.nodes if node.group == group_id)
    kept = Counter(node.stays.reason for node in nodes if node.stays is not None)
    refused = Counter(_refusals(view.status.pods, group_id))
    given: list[GivenReason] = [(reason, reason_table.OF_GROUPS) for reason in refused]
    given += [(Skip.BACKED_OFF, reason_table.OF_GROUPS)] if group.backoff is not None else []
    given += [(reason, reason_table.OF_NODES) for reason in kept]
    explanation = Explanation(
        pass_started_at=None, group=group, pods_refused=_tallies(refused), nodes_kept=_tallies(kept)
    )
    return _with_meanings(explanation, view, given, {group_id})


def _refusals(pods: Iterable[PodStatus], group: str) -> Iterator[str]:
    """Return one reason for each pod that the group does not help; pods of one class share their reason."""
    known: dict[int, str | None] = {}
    for pod in pods:
        shared = id(pod.reasons)
        if shared not in known:
            known[shared] = _reason_of(pod.reasons, group)
        if (reason := known[shared]) is not None:
            yield reason


def _reason_of(reasons: Iterable[GroupReason], group: str) -> str | None:
    return next((reason.reason for reason in reasons if reason.group == group), None)


def _tallies(counts: Counter[str]) -> tuple[Tally, ...]:
    return tuple(Tally(reason, count) for reason, count in counts.most_common())


def _with_meanings(
    explanation: Explanation, view: StatusView, given: Iterable[GivenReason], groups: set[str | None]
) -> Explanation:
    concerned = [decision for decision in reversed(view.history) if decision.group in groups]
    last = view.status.last_pass
    return msgspec.structs.replace(
        explanation,
        pass_started_at=None if last is None else last.started_at,
        meanings=tuple(meanings(given)),
        decisions=tuple(concerned[:_MOST_DECISIONS]),
    )
