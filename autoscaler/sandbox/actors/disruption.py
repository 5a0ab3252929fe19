"""The status of PodDisruptionBudgets: how many pods may be disrupted right now."""

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject, unix_seconds
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.replicas import scaled
from autoscaler.sandbox.actors.wire import (
    controller_of,
    is_finished,
    is_ready,
    is_terminating,
    key_of,
    new_condition,
    uid_of,
)
from autoscaler.sandbox.actors.workqueue import QueueActor, WorkQueue
from autoscaler.sandbox.apiserver import selectors
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage

_BUDGETS = "poddisruptionbudgets.policy"
_SCALED_BY = {
    "ReplicaSet": "replicasets.apps",
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
    "ReplicationController": "replicationcontrollers",
}
_DISRUPTION_LASTS_S = 120.0
"""Seconds after which an evicted pod that still exists counts again."""


class DisruptionController(QueueActor[Key]):
    """The disruption controller."""

    def __init__(self, storage: Storage, informers: SharedInformers) -> None:
        self._storage = storage
        self._budgets = informers.informer(_BUDGETS)
        self._pods = informers.informer("pods")
        self._owners = {kind: informers.informer(resource) for kind, resource in _SCALED_BY.items()}
        self._queue = WorkQueue()
        self._budgets.subscribe(self._budget_changed)
        self._pods.subscribe(self._pod_changed)
        for informer in self._owners.values():
            informer.subscribe(self._owner_changed)

    def _budget_changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))

    def _pod_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._queue_budgets_of(pod)

    def _owner_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is None or new is None or old["spec"].get("replicas") != new["spec"].get("replicas"):
            changed = new or old
            if changed is not None:
                for budget in self._budgets.in_namespace(key_of(changed)[0]):
                    self._queue.add(key_of(budget))

    def _queue_budgets_of(self, pod: JsonObject) -> None:
        for budget in self._budgets.in_namespace(key_of(pod)[0]):
            if _selects(budget, pod):
                self._queue.add(key_of(budget))

    def _sync(self, key: Key, now: Instant) -> None:
        budget = self._budgets.objects.get(key)
        if budget is None or is_terminating(budget):
            return
        pods = [pod for pod in self._pods.in_namespace(key[0]) if _selects(budget, pod) and not is_finished(pod)]
        expected, desired = self._bounds(budget["spec"], pods)
        disrupted = self._disrupted(key, budget, pods, now)
        names = (pod["metadata"]["name"] for pod in pods if is_ready(pod) and not is_terminating(pod))
        healthy = sum(name not in disrupted for name in names)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        reason = "SufficientPods" if allowed else "InsufficientPods"
        condition = new_condition(
            budget, "DisruptionAllowed", holds=allowed > 0, reason=reason, message="", wall=now.wall
        )
        status = {
            "expectedPods": expected,
            "desiredHealthy": desired,
            "currentHealthy": healthy,
            "disruptionsAllowed": allowed,
            "observedGeneration": budget["metadata"]["generation"],
            "conditions": [condition],
            **({"disruptedPods": disrupted} if disrupted else {}),
        }
        if status != (budget.get("status") or {}):
            # With the resource version, so that an eviction granted in the meantime is not lost.
            self._storage.update_status(_BUDGETS, {**budget, "status": status})

    def _bounds(self, spec: JsonObject, pods: list[JsonObject]) -> tuple[int, int]:
        """The expected number of pods, and how many of them must be healthy."""
        min_available, max_unavailable = spec.get("minAvailable"), spec.get("maxUnavailable")
        if isinstance(min_available, int):
            return len(pods), min_available
        expected = self._expected(pods)
        if max_unavailable is not None:
            return expected, max(0, expected - scaled(max_unavailable, expected, round_up=True, default=0))
        return expected, scaled(min_available, expected, round_up=True, default=1)

    def _expected(self, pods: list[JsonObject]) -> int:
        """The wanted replicas of the pods' controllers; pods without a scalable controller count as they are."""
        scales: dict[str, int] = {}
        others = 0
        for pod in pods:
            owner = self._scale_of(pod)
            if owner is None:
                others += 1
            else:
                scales[uid_of(owner)] = int(owner["spec"].get("replicas") or 0)
        return others + sum(scales.values())

    def _scale_of(self, obj: JsonObject) -> JsonObject | None:
        """The topmost controller with a number of replicas."""
        owner = controller_of(obj)
        informer = self._owners.get(owner["kind"]) if owner is not None else None
        controller = informer.objects.get((key_of(obj)[0], owner["name"])) if informer is not None and owner else None
        if controller is None:
            return None
        return self._scale_of(controller) or controller

    def _disrupted(self, key: Key, budget: JsonObject, pods: list[JsonObject], now: Instant) -> dict[str, str]:
        """Pods whose eviction was granted but has not begun."""
        present = {pod["metadata"]["name"] for pod in pods if not is_terminating(pod)}
        still_disrupted = {}
        for name, since in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
            left_s = unix_seconds(since) + _DISRUPTION_LASTS_S - now.wall
            if name in present and left_s > 0:
                still_disrupted[name] = since
                self._queue.add_at(key, now.mono + left_s)
        return still_disrupted


def _selects(budget: JsonObject, pod: JsonObject) -> bool:
    """Whether the budget selects the pod; a budget with an invalid selector selects none."""
    try:
        selector = selectors.from_object((budget.get("spec") or {}).get("selector"))
    except ApiError:
        return False
    return selector is not None and selectors.labels_match(selector, pod["metadata"].get("labels") or {})
