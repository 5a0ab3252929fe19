"""What people see of start-up estimates: JSON under `/api/v1/`, and the page `/status/starts`."""

import heapq
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.companions.capacity import Capacity
from autoscaler.companions.eta import Estimate, Times, estimate, unknown
from autoscaler.companions.eta_places import Outcome, Places, workload
from autoscaler.companions.eta_what_if import apart
from autoscaler.companions.lifecycle import Record, State, records_of
from autoscaler.companions.samples import Knowledge, Spread
from autoscaler.config.eta import PodStartEstimator
from autoscaler.objects import quantity
from autoscaler.objects.meta import unix_seconds
from autoscaler.objects.pod import Pod, PodInterner
from autoscaler.observe.public import public
from autoscaler.observe.routing import JSON, HttpProblem, Request, Response, Routes
from autoscaler.reasons import UnknownStart
from autoscaler.snapshot.cluster import ClusterView

_LARGEST, _USUAL = 1000, 100
_LONGEST_NAME = 300


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How estimates turned out so far."""

    pods: int = 0
    within_worst: int = 0
    late: int = 0
    abs_error_s: float = 0.0
    """Sum over all of them."""

    def counted(self, error_s: float, within: bool) -> "Accuracy":
        """Return it with one more pod."""
        return Accuracy(
            pods=self.pods + 1,
            within_worst=self.within_worst + within,
            late=self.late + (error_s > 0),
            abs_error_s=self.abs_error_s + abs(error_s),
        )


class EtaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """As of one pass. A replica that does not lead knows nothing."""

    estimator: PodStartEstimator
    computed_at: float | None = None
    capacity: Capacity | None = None
    estimates: Mapping[str, Estimate] = {}
    """By pod key."""
    outcome: Outcome | None = None
    knowledge: Knowledge = Knowledge()
    times: Times = Times()
    boots: Mapping[str, Spread] = {}
    view: ClusterView | None = None
    live: Mapping[str, Record] = {}
    ended: tuple[Record, ...] = ()
    accuracy: Accuracy = Accuracy()


class EtaPages:
    """Answers requests, from any thread."""

    def __init__(self, status: Callable[[], EtaStatus], wall: Callable[[], float], page: "Page") -> None:
        self._status = status
        self._wall = wall
        self._page = page
        self._asking = threading.Lock()
        self._imagined = WhatIf()

    def routes(self) -> Routes:
        """Return the routes."""
        return {
            "/api/v1/eta": {"GET": self._estimates, "POST": self._what_if},
            "/api/v1/pods/history": {"GET": self._history},
            "/status/starts": {"GET": self._shown},
        }

    def _estimates(self, request: Request) -> Response:
        query = _only(request, "namespace", "pod", "limit")
        status, limit = self._status(), _limit(query)
        if "pod" in query:
            return _json(self._one(status, query["pod"]))
        items = pod_answers(status, query.get("namespace"))
        answer = summary(status, self._wall())
        answer["total"] = len(items)
        answer["items"] = items[:limit]
        return _json(answer)

    def _one(self, status: EtaStatus, key: str) -> dict[str, Any]:
        for pod in () if status.view is None else status.view.pending:
            if pod.key == key:
                return _pod_answer(pod, _estimate_of(status, pod), status)
        if status.view is not None:
            namespace, _, name = key.partition("/")
            for record in records_of(status.live, status.view):
                if (record.namespace, record.name) == (namespace, name):
                    return public(record)  # type: ignore[no-any-return]
        raise HttpProblem(404, "pod_not_found", f"there is no pod {key[:_LONGEST_NAME]}", "pod")

    def _what_if(self, request: Request) -> Response:
        _only(request)
        pod = read_pod(request.body)
        with self._asking:
            return _json(self._imagined.ask(self._status(), pod))

    def _history(self, request: Request) -> Response:
        query = _only(request, "namespace", "state", "since", "limit")
        limit, since = _limit(query), _since(query)
        state = query.get("state")
        if state is not None and state not in set(State):
            raise HttpProblem(400, "invalid_parameter", f"state must be one of {', '.join(State)}", "state")
        status = self._status()
        chosen = heapq.nlargest(
            limit,
            (
                record
                for record in _records(status)
                if query.get("namespace") in (None, record.namespace)
                and state in (None, record.state)
                and (since is None or (record.requested_at or 0.0) >= since)
            ),
            key=lambda record: (record.requested_at or 0.0, record.uid),
        )
        return _json({"items": [public(record) for record in chosen]})

    def _shown(self, request: Request) -> Response:
        query = _only(request, "all")
        return self._page(self._status(), self._wall(), query.get("all") == "1")


Page = Callable[[EtaStatus, float, bool], Response]


def summary(status: EtaStatus, wall: float) -> dict[str, Any]:
    """Return what is known besides single pods."""
    accuracy = status.accuracy
    return {
        "estimator": status.estimator,
        "computedAt": None if status.computed_at is None else public({"at": status.computed_at})["at"],
        "ageSeconds": None if status.computed_at is None else round(max(0.0, wall - status.computed_at), 3),
        "capacity": None if status.capacity is None else capacity_answer(status.capacity),
        "boots": {
            group: {
                "samples": len(status.knowledge.boots.get(group, ())),
                "p50Seconds": one.expected,
                "p90Seconds": one.worst,
            }
            for group, one in status.boots.items()
        },
        "accuracy": {
            "pods": accuracy.pods,
            "withinWorst": accuracy.within_worst,
            "late": accuracy.late,
            "meanAbsErrorSeconds": round(accuracy.abs_error_s / accuracy.pods, 3) if accuracy.pods else None,
        },
    }


def pod_answers(status: EtaStatus, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return the estimate of each pending pod."""
    pending = () if status.view is None else status.view.pending
    return [
        _pod_answer(pod, _estimate_of(status, pod), status) for pod in pending if namespace in (None, pod.namespace)
    ]


class WhatIf:
    """Answers when pods would be ready that do not exist. Several threads must not ask at a time."""

    def __init__(self) -> None:
        self._of: Outcome | None = None
        self._places: Places | None = None

    def ask(self, status: EtaStatus, pod: Pod) -> dict[str, Any]:
        """Return the answer for one pod; the copy of the cluster is made once for each pass that is asked about."""
        if status.outcome is None:
            return _pod_answer(pod, unknown(UnknownStart.NOT_CONSIDERED), status)
        if self._places is None or self._of is not status.outcome:
            self._of, self._places = status.outcome, apart(status.outcome)
        found = estimate(self._places.new(pod), workload(pod), status.knowledge, status.times)
        return _pod_answer(pod, found, status)


def capacity_answer(capacity: Capacity) -> dict[str, Any]:
    """Return the totals; a ratio to nothing is null."""
    cluster = capacity.cluster
    ratios = {resource: cluster.wanted_ratio(resource) for resource in capacity.resources}
    return {
        "cluster": _totals(cluster),
        "groups": {group: _totals(one) for group, one in capacity.groups.items()},
        "wantedRatio": {name: round(ratio, 6) if math.isfinite(ratio) else None for name, ratio in ratios.items()},
        "unknownPods": capacity.unknown,
    }


def _totals(totals: msgspec.Struct) -> dict[str, Any]:
    return {
        name: value
        if isinstance(value, int)
        else {resource: quantity.text(resource, n) for resource, n in value.items()}
        for name, value in msgspec.structs.asdict(totals).items()
    }


def _pod_answer(pod: Pod, found: Estimate, status: EtaStatus) -> dict[str, Any]:
    known = found.expected_s is not None and status.computed_at is not None
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "level": found.level.value,
        "reason": found.reason,
        "expectedSeconds": _rounded(found.expected_s),
        "worstSeconds": _rounded(found.worst_s),
        "expectedReadyAt": public({"at": (status.computed_at or 0.0) + (found.expected_s or 0.0)})["at"]
        if known
        else None,
        "node": found.node,
        "group": found.group,
        "overdue": found.overdue,
        "terms": {
            name: {"expectedSeconds": _rounded(one.expected), "worstSeconds": _rounded(one.worst)}
            for name, one in found.terms.items()
        },
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _estimate_of(status: EtaStatus, pod: Pod) -> Estimate:
    return status.estimates.get(pod.key) or unknown(UnknownStart.NOT_COMPUTED)


def _records(status: EtaStatus) -> Iterator[Record]:
    yield from status.ended
    if status.view is not None:
        yield from records_of(status.live, status.view)


def active_rows(view: ClusterView, *, everything: bool) -> Sequence[tuple[str, float | None]]:
    """Return name and request time of the pods that have not ended, the oldest first.

    At most six rows: of more, the first three and the last three, with a row in between that says how many are left
    out; its time is None.
    """
    pods = [pod for part in (view.pending, *view.pods) for pod in part]

    def key(pod: Pod) -> tuple[float, str]:
        return pod.created, pod.key

    if everything or len(pods) <= 6:
        return [(pod.key, pod.created) for pod in sorted(pods, key=key)]
    first, last = heapq.nsmallest(3, pods, key=key), heapq.nlargest(3, pods, key=key)[::-1]
    between = (f"... {len(pods) - 6} of {len(pods)} total omitted ...", None)
    return [*((pod.key, pod.created) for pod in first), between, *((pod.key, pod.created) for pod in last)]


def read_pod(body: bytes) -> Pod:
    """Return the pod of a request; raises `HttpProblem` that names the culprit."""
    try:
        raw = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise HttpProblem(400, "invalid_body", "the body is not a JSON object") from None
    spec = raw.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("containers"), list) or not spec["containers"]:
        raise HttpProblem(422, "invalid_pod", "a pod has at least one container", "spec.containers")
    for field, text in _requests(spec):
        try:
            quantity.parse(str(text))
        except quantity.BadQuantity as error:
            raise HttpProblem(422, "invalid_pod", str(error), field) from None
    raw = {**raw, "spec": {name: value for name, value in spec.items() if name != "nodeName"}, "status": {}}
    raw["metadata"] = raw.get("metadata") or {}
    try:
        return PodInterner().decoder().one(raw)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError) as error:
        raise HttpProblem(422, "invalid_pod", str(error)[:_LONGEST_NAME], "spec") from None


def _requests(spec: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield path and text of every quantity that a pod's spec asks for."""
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(kind) or ()):
            resources = container.get("resources") if isinstance(container, dict) else None
            requests = resources.get("requests") if isinstance(resources, dict) else None
            for name, text in (requests if isinstance(requests, dict) else {}).items():
                yield f"spec.{kind}[{number}].resources.requests.{name}", text


def _only(request: Request, *known: str) -> Mapping[str, str]:
    for name in request.query:
        if name not in known:
            raise HttpProblem(400, "invalid_parameter", f"there is no parameter {name[:100]}", name[:100])
    return request.query


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(_USUAL))
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= _LARGEST):
        raise HttpProblem(400, "invalid_parameter", f"limit must be a number from 1 to {_LARGEST}", "limit")
    return int(text)


def _since(query: Mapping[str, str]) -> float | None:
    text = query.get("since")
    if text is None:
        return None
    try:
        return unix_seconds(text)
    except ValueError:
        raise HttpProblem(
            400, "invalid_parameter", "since must be a time such as 2026-11-20T10:00:00Z", "since"
        ) from None


def _json(answer: object) -> Response:
    return Response(msgspec.json.encode(answer), JSON)
