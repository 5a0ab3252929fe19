"""Lists the calls to the cloud and the cluster that the answer log records, and what distinguishes calls of one
kind.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from autoscaler.actuation.answer_log import AnswerLog, QuestionKind
from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.node_removal import NodeRemover
from autoscaler.actuation.status_writes import ClusterStatuses
from autoscaler.scaleup.price import Prices

P = ParamSpec("P")
T = TypeVar("T")


class Question(NamedTuple):
    """A method whose answers are recorded."""

    method: str
    kind: QuestionKind
    subject: Callable[..., Iterable[str]]
    """Maps the method's arguments to the subject of the question."""


def _question(
    method: Callable[Concatenate[Any, P], object],
    kind: QuestionKind,
    subject: Callable[P, Iterable[str]] = lambda *args, **kwargs: (),
) -> Question:
    return Question(method.__name__, kind, subject)


CLOUD = (
    _question(Cloud.knows_instances, QuestionKind.TELLS_GONE),
    _question(Cloud.group_price, QuestionKind.GROUP_PRICE, lambda group_id, template: (group_id,)),
    _question(
        Cloud.increase,
        QuestionKind.INCREASE,
        lambda group_id, delta, *, expected, atomic=False: (group_id, f"{delta}", f"{expected}"),
    ),
    _question(Cloud.decrease_target, QuestionKind.DECREASE_TARGET, lambda group_id, delta: (group_id, f"{delta}")),
    _question(
        Cloud.delete_instances,
        QuestionKind.DELETE_INSTANCES,
        lambda group_id, provider_ids, reason, *, force=False: (group_id, reason, *provider_ids),
    ),
    _question(Cloud.targets, QuestionKind.TARGETS, lambda group_ids: sorted(group_ids)),
)
PRICES = (
    _question(Prices.node, QuestionKind.NODE_PRICE, lambda node: (node.name,)),
    _question(
        Prices.requests,
        QuestionKind.REQUESTS_PRICE,
        lambda requests: (f"{resource}={amount}" for resource, amount in sorted(requests.items())),
    ),
)
REMOVAL = (
    _question(NodeRemover.under_way, QuestionKind.UNDER_WAY),
    _question(NodeRemover.drain_results, QuestionKind.ENDED),
    _question(
        NodeRemover.start,
        QuestionKind.START,
        lambda plan: (removal.node.name for removal in (*plan.empty, *plan.drained)),
    ),
    _question(NodeRemover.mark, QuestionKind.MARK),
    _question(
        NodeRemover.annotate,
        QuestionKind.ANNOTATE,
        lambda node, annotations: (node, *(f"{key}={value or ''}" for key, value in sorted(annotations.items()))),
    ),
    _question(NodeRemover.clean_up, QuestionKind.CLEAN_UP),
)
STATUSES = (
    _question(
        ClusterStatuses.put,
        QuestionKind.STATUS,
        lambda change: (
            change.kind,
            change.namespace,
            change.name,
            *(condition.type for condition in change.conditions),
        ),
    ),
    _question(
        ClusterStatuses.store,
        QuestionKind.STATUS,
        lambda template: ("PodTemplate", template["metadata"]["namespace"], template["metadata"]["name"]),
    ),
    _question(
        ClusterStatuses.pause,
        QuestionKind.STATUS,
        lambda namespace, config_map, pause: ("pause", namespace, config_map, pause.name),
    ),
    _question(ClusterStatuses.delete, QuestionKind.STATUS, lambda request: ("delete", request.namespace, request.name)),
)


def log_answers(port: T, questions: Iterable[Question], answer_log: AnswerLog) -> T:
    """Return the same port; from now on its answers to these questions are recorded, including calls by the port
    itself.
    """
    for question in questions:
        setattr(port, question.method, _asking(question, getattr(port, question.method), answer_log))
    return port


def _asking(question: Question, method: Callable[P, T], answer_log: AnswerLog) -> Callable[P, T]:
    @wraps(method)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        subject = tuple(question.subject(*args, **kwargs))
        return answer_log.ask(question.kind, subject, lambda: method(*args, **kwargs))

    return ask
