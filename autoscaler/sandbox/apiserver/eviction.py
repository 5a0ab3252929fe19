"""Pod subresources with effects: eviction under disruption budgets, and binding to a node."""

from collections.abc import Iterable

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver import selectors
from autoscaler.sandbox.apiserver.errors import ApiError, conflict
from autoscaler.sandbox.apiserver.kinds import Kind

_BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."


def needs_budget(pod: JsonObject) -> bool:
    """Whether budgets protect the pod; they do not protect a finished, pending or terminating pod."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed", "Pending") and pod["metadata"].get("deletionTimestamp") is None


def budget_of(pod: JsonObject, budgets: Iterable[JsonObject]) -> JsonObject | None:
    """Return the one budget that selects the pod; raises ApiError 500 when there are several, as the real server."""
    labels = pod["metadata"].get("labels") or {}
    if not labels:  # then no budget is checked, not even one for all pods
        return None
    matching = []
    for budget in budgets:
        selector = selectors.from_object((budget.get("spec") or {}).get("selector"))
        if selector is not None and selectors.labels_match(selector, labels):
            matching.append(budget)
    if len(matching) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "", message)
    return matching[0] if matching else None


def is_exempt(pod: JsonObject, budget: JsonObject) -> bool:
    """Whether an unready pod may be evicted without using the budget (`unhealthyPodEvictionPolicy`)."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = int(status.get("desiredHealthy") or 0)
    return desired > 0 and int(status.get("currentHealthy") or 0) >= desired


def use_disruption(pod: JsonObject, budget: JsonObject, now: str) -> JsonObject:
    """Return the budget with one disruption less; raises ApiError 429 while it allows none."""
    metadata, status = budget["metadata"], dict(budget.get("status") or {})
    name = metadata["name"]
    if int(status.get("observedGeneration") or 0) < int(metadata.get("generation") or 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = int(status.get("disruptionsAllowed") or 0)
    if allowed < 1:
        needs, has = int(status.get("desiredHealthy") or 0), int(status.get("currentHealthy") or 0)
        raise _too_many(f"The disruption budget {name} needs {needs} healthy pods and has {has} currently")
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: now}
    return {**budget, "status": status}


def _too_many(message: str, retry_after_s: int | None = None) -> ApiError:
    details: JsonObject = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    if retry_after_s is not None:
        details["retryAfterSeconds"] = retry_after_s
    return ApiError(429, "TooManyRequests", _BLOCKED, details)


def with_condition(pod: JsonObject, condition: JsonObject) -> JsonObject:
    """Return the pod with this status condition set."""
    status = dict(pod.get("status") or {})
    others = [other for other in status.get("conditions") or () if other.get("type") != condition["type"]]
    status["conditions"] = [*others, condition]
    return {**pod, "status": status}


def with_eviction_condition(pod: JsonObject, now: str) -> JsonObject:
    """Mark the pod as evicted through the API."""
    message = "Eviction API: evicting"
    condition = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    return with_condition(pod, {**condition, "reason": "EvictionByEvictionAPI", "message": message})


def bound_to(kind: Kind, pod: JsonObject, node: str, now: str) -> JsonObject:
    """Return the pod assigned to the node; raises ApiError 409 if it cannot be assigned."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    if spec.get("nodeName"):
        raise conflict(kind, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if pod["metadata"].get("deletionTimestamp") is not None:
        raise conflict(kind, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("schedulingGates"):
        raise conflict(kind, name, f"pod {name} has non-empty .spec.schedulingGates")
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    return with_condition({**pod, "spec": {**spec, "nodeName": node}}, condition)
