"""The answers of the estimates API, and their construction. Times end in `_at`."""

import math
from collections.abc import Callable, Iterator, Mapping

import msgspec

from autoscaler.config.eta import PodStartEstimator
from autoscaler.eta import capacity as accounting
from autoscaler.eta.estimate import StartEstimate, WaitLevel, estimate, unknown
from autoscaler.eta.gangs import GangStart
from autoscaler.eta.history import PodRecord
from autoscaler.eta.placements import PassOutcome, PlacementFinder, by_ratio, workload
from autoscaler.eta.status import EtaStatus
from autoscaler.eta.what_if import apart
from autoscaler.objects import quantity
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.requests import Requests
from autoscaler.reasons import UnknownStart

QuantityTexts = Mapping[str, str]
"""Kubernetes quantities by resource."""
_MOST_QUESTIONS = 1000
"""Maximum number of questions to one copy of the cluster; a large pod counts as several."""
_QUESTION_BYTES = 4096
_MOST_NAMES = 256
"""Maximum number of different resources and label keys in such questions: each adds a column over all nodes of the
copy.
"""


class CapacityTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Capacity and requests, as in `eta.capacity.ResourceTotals`."""

    nodes: int
    provisioned: QuantityTexts
    capacity: QuantityTexts
    upcoming: QuantityTexts
    running: QuantityTexts
    starting: QuantityTexts
    pending: QuantityTexts
    headroom_running: QuantityTexts
    headroom_pending: QuantityTexts


class CapacityAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Capacity of the cluster and of its node groups. Nodes without a group are under the empty name."""

    cluster: CapacityTotals
    groups: Mapping[str, CapacityTotals]
    wanted_ratio: Mapping[str, float | None]
    """Requests / capacity by resource; None if there are requests but no capacity."""
    unknown_pods: int


class Boots(msgspec.Struct, frozen=True, kw_only=True):
    """How long new nodes of a group take."""

    samples: int
    p50_s: float
    p90_s: float


class AccuracyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How accurate past estimates were."""

    pods: int
    within_worst: int
    late: int
    mean_abs_error_s: float | None


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One part of an estimate."""

    expected_s: float
    worst_s: float


class PodEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """When one pod will be ready, in seconds from the time of the estimate; None if unknown, with the `reason`."""

    namespace: str
    name: str
    level: WaitLevel
    reason: UnknownStart | None
    expected_s: float | None
    worst_s: float | None
    expected_ready_at: float | None
    node: str | None
    group: str | None
    overdue: bool
    assumed: bool
    """Whether the seconds are a default because no boot of any node has been seen yet."""
    terms: Mapping[str, Term]


class EtaSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Data that does not belong to single pods."""

    estimator: PodStartEstimator
    computed_at: float | None
    age_s: float | None
    capacity: CapacityAnswer | None
    boots: Mapping[str, Boots]
    """By node group."""
    accuracy: AccuracyAnswer
    gangs: tuple[GangStart, ...]
    """Gangs of pods that wait."""


class EtaList(EtaSummary, frozen=True, kw_only=True):
    """The estimates of pending pods, and the data behind them."""

    total: int
    """The number of all pods, without regard to `limit`."""
    items: tuple[PodEstimate, ...]


class HistoryList(msgspec.Struct, frozen=True, kw_only=True):
    """The histories of pods, newest first."""

    items: tuple[PodRecord, ...]


def summary(status: EtaStatus, wall: float) -> EtaSummary:
    """Return the data that does not belong to single pods."""
    accuracy = status.accuracy
    return EtaSummary(
        estimator=status.estimator,
        computed_at=status.computed_at,
        age_s=None if status.computed_at is None else round(max(0.0, wall - status.computed_at), 3),
        capacity=None if status.capacity is None else capacity_answer(status.capacity),
        boots={
            group: Boots(samples=len(status.knowledge.boots.get(group, ())), p50_s=boot.expected, p90_s=boot.worst)
            for group, boot in status.boots.items()
        },
        gangs=status.gangs,
        accuracy=AccuracyAnswer(
            pods=accuracy.pods,
            within_worst=accuracy.within_worst,
            late=accuracy.late,
            mean_abs_error_s=round(accuracy.abs_error_s / accuracy.pods, 3) if accuracy.pods else None,
        ),
    )


def pod_answers(status: EtaStatus, namespace: str | None = None) -> tuple[PodEstimate, ...]:
    """Return the estimate of each pending pod."""
    pending = () if status.view is None else status.view.pending
    return tuple(pod_answer(status, pod) for pod in pending if namespace in (None, pod.namespace))


def pod_answer(status: EtaStatus, pod: Pod) -> PodEstimate:
    """Return the estimate of a pending pod."""
    return _shown(pod, status.estimates.get(pod.key) or unknown(UnknownStart.NOT_COMPUTED), status)


class WhatIf:
    """Answers when hypothetical pods would be ready. Only one thread at a time may ask."""

    def __init__(self) -> None:
        self._of: PassOutcome | None = None
        self._places: PlacementFinder | None = None
        self._asked = 0
        self._named: set[str] = set()

    def ask(self, status: EtaStatus, pod: Pod, checkpoint: Callable[[], None] = lambda: None) -> PodEstimate:
        """Return the answer for one pod, from the configured estimator.

        `checkpoint` is called between steps of work, and may raise to end it. The copy of the cluster is made once for
        each pass in question. It remembers something about each question, so many questions make a new copy necessary.
        """
        if status.estimator is PodStartEstimator.RATIO and status.capacity is not None:
            return _shown(pod, by_ratio(pod, status.capacity, status.ratio, pending=False), status)
        if status.outcome is None:
            return _shown(pod, unknown(UnknownStart.NOT_CONSIDERED), status)
        checkpoint()
        if self._places is None or self._of is not status.outcome or self._remembers_much:
            self._places = None  # never keep two copies
            self._places, self._of, self._asked, self._named = apart(status.outcome), status.outcome, 0, set()
            checkpoint()
        self._asked += 1 + len(pod.cls.key) // _QUESTION_BYTES
        self._named.update(_names(pod.cls))
        start = estimate(self._places.new(pod, checkpoint), workload(pod), status.knowledge, status.times)
        return _shown(pod, start, status)

    @property
    def _remembers_much(self) -> bool:
        return self._asked >= _MOST_QUESTIONS or len(self._named) >= _MOST_NAMES


def _names(cls: PodClass) -> Iterator[str]:
    """Yield the names of resources and labels that a class asks for."""
    yield from cls.requests
    yield from cls.node_selector
    for term in () if cls.node_affinity is None else cls.node_affinity.node_selector_terms:
        yield from (requirement.key for requirement in term.match_expressions)
    yield from (term.topology_key for term in (*cls.pod_affinity, *cls.pod_anti_affinity))
    yield from (constraint.topology_key for constraint in cls.spread)


def capacity_answer(capacity: accounting.ClusterCapacity) -> CapacityAnswer:
    """Return the totals; a ratio without capacity is None."""
    ratios = {resource: capacity.cluster.wanted_ratio(resource) for resource in capacity.resources}
    return CapacityAnswer(
        cluster=_totals(capacity.cluster),
        groups={group: _totals(totals) for group, totals in capacity.groups.items()},
        wanted_ratio={name: round(ratio, 6) if math.isfinite(ratio) else None for name, ratio in ratios.items()},
        unknown_pods=capacity.unknown,
    )


def _totals(totals: accounting.ResourceTotals) -> CapacityTotals:
    parts = {part: _texts(getattr(totals, part)) for part in CapacityTotals.__struct_fields__ if part != "nodes"}
    return CapacityTotals(nodes=totals.nodes, **parts)


def _texts(amounts: Requests) -> QuantityTexts:
    return {resource: quantity.text(resource, value) for resource, value in amounts.items()}


def _shown(pod: Pod, start: StartEstimate, status: EtaStatus) -> PodEstimate:
    known = start.expected_s is not None and status.computed_at is not None
    return PodEstimate(
        namespace=pod.namespace,
        name=pod.name,
        level=start.level,
        reason=start.reason,
        expected_s=_rounded(start.expected_s),
        worst_s=_rounded(start.worst_s),
        expected_ready_at=(status.computed_at or 0.0) + (start.expected_s or 0.0) if known else None,
        node=start.node,
        group=start.group,
        overdue=start.overdue,
        assumed=start.assumed,
        terms={
            name: Term(expected_s=round(term.expected, 3), worst_s=round(term.worst, 3))
            for name, term in start.terms.items()
        },
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
