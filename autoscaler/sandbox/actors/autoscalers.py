"""HorizontalPodAutoscalers: size workloads by the CPU and memory that their pods use.

Metrics of pods, objects and the outside, and the policies of `behavior`, are left out; the stabilization window of
scale-down counts.
"""

import math
from collections.abc import Iterator

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject, rfc3339
from autoscaler.objects.quantity import amount, text
from autoscaler.ports import EventType
from autoscaler.sandbox.actors.event_recorder import Recorder, subject
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.replicas import report
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.actors.wire import is_ready, is_terminating, key_of, new_condition, spec_of
from autoscaler.sandbox.actors.workqueue import QueueActor, WorkQueue
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.apiserver.usage import Usage, requested, runs

_AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
_TOLERANCE = 0.1
_LEAST_GROWTH = 4
"""Replicas that one step may always add; larger workloads may at most double."""


class _NoMetric(Exception):
    """The figure for a metric is unavailable."""


class _Measured(msgspec.Struct, frozen=True):
    """The present state of one metric: its entry of the status, and the replicas that follow from it."""

    current: JsonObject
    wanted: int
    """The number of replicas that would bring the metric to its target."""


class Autoscalers(QueueActor[Key]):
    """The HorizontalPodAutoscaler controller."""

    def __init__(self, storage: Storage, informers: SharedInformers, recorder: Recorder, timing: Timing) -> None:
        self._storage = storage
        self._recorder = recorder
        self._timing = timing
        self._autoscalers = informers.informer(_AUTOSCALERS)
        self._queue = WorkQueue()
        self._next: dict[Key, float] = {}
        self._wanted: dict[Key, list[tuple[float, int]]] = {}
        """Recent recommendations with their times."""
        self._autoscalers.subscribe(self._changed)

    def _changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is None and new is not None:
            self._queue.add(key_of(new))
        elif new is None and old is not None:
            self._wanted.pop(key_of(old), None)

    def _sync(self, key: Key, now: Instant) -> None:
        autoscaler = self._autoscalers.objects.get(key)
        if autoscaler is None or now.mono < self._next.get(key, -math.inf):
            return
        self._next[key] = now.mono + self._timing.autoscale_s
        self._queue.add_at(key, self._next[key])
        report(self._storage, _AUTOSCALERS, autoscaler, self._sized(key, autoscaler, now))

    def _sized(self, key: Key, autoscaler: JsonObject, now: Instant) -> JsonObject:
        """Size the workload and return the autoscaler's status."""
        target = autoscaler["spec"]["scaleTargetRef"]
        try:
            kind = self._kind_of(target)
            scale = self._storage.get_scale(kind, target["name"], key[0])
        except ApiError as error:
            message = f"the HPA controller was unable to get the target's current scale: {error.message}"
            return {"conditions": [_condition(autoscaler, "AbleToScale", False, "FailedGetScale", message, now)]}
        replicas = scale["spec"]["replicas"]
        status: JsonObject = {"currentReplicas": scale["status"]["replicas"], "desiredReplicas": replicas}
        able = _condition(
            autoscaler, "AbleToScale", True, "ReadyForNewScale", "recommended size matches current size", now
        )
        if replicas == 0:
            why = "scaling is disabled since the replica count of the target is zero"
            off = _condition(autoscaler, "ScalingActive", False, "ScalingDisabled", why, now)
            return {**status, "conditions": [able, off]}
        try:
            measured = list(self._measured(autoscaler, replicas, key[0], scale["status"]["selector"]))
        except _NoMetric as error:
            why = f"the HPA was unable to compute the replica count: {error}"
            failed = _condition(autoscaler, "ScalingActive", False, "FailedGetResourceMetric", why, now)
            return {**status, "conditions": [able, failed]}
        wanted, limited = self._bounded(key, autoscaler, replicas, max(metric.wanted for metric in measured), now)
        if wanted != replicas:
            self._storage.scale(kind, target["name"], wanted, namespace=key[0])
            side = "above" if wanted > replicas else "below"
            message = f"New size: {wanted}; reason: resource utilization is {side} target"
            self._recorder.event(subject(autoscaler), EventType.NORMAL, "SuccessfulRescale", message)
            message = f"the HPA controller was able to update the target scale to {wanted}"
            able = _condition(autoscaler, "AbleToScale", True, "SucceededRescale", message, now)
            status["lastScaleTime"] = rfc3339(now.wall)
        message = "the HPA was able to successfully calculate a replica count from resource utilization"
        active = _condition(autoscaler, "ScalingActive", True, "ValidMetricFound", message, now)
        status |= {"desiredReplicas": wanted, "currentMetrics": [metric.current for metric in measured]}
        return {**status, "conditions": [able, active, limited]}

    def _kind_of(self, target: JsonObject) -> Kind:
        group = str(target.get("apiVersion") or "").rpartition("/")[0]
        return self._storage.kind(f"{str(target['kind']).lower()}s.{group}".rstrip("."))

    def _measured(self, autoscaler: JsonObject, replicas: int, namespace: str, selector: str) -> Iterator[_Measured]:
        """Yield every metric; raises `_NoMetric`."""
        pods = [
            pod
            for pod in self._storage.list("pods", namespace=namespace, label_selector=selector)
            if runs(pod) and is_ready(pod) and not is_terminating(pod)
        ]
        if not pods:
            raise _NoMetric("did not receive metrics for any ready pods")
        usage = Usage(self._storage)
        for metric in autoscaler["spec"]["metrics"]:
            if metric.get("type") != "Resource" or metric["resource"].get("name") not in ("cpu", "memory"):
                raise _NoMetric(f"the sandbox has no metrics of type {metric.get('type')} but CPU and memory of pods")
            yield _measure(metric["resource"], pods, replicas, usage)

    def _bounded(
        self, key: Key, autoscaler: JsonObject, replicas: int, desired: int, now: Instant
    ) -> tuple[int, JsonObject]:
        """Return the new size, and the condition that says whether a bound limited it."""
        spec = autoscaler["spec"]
        down = (spec.get("behavior") or {}).get("scaleDown") or {}
        window_s = down.get("stabilizationWindowSeconds")
        since = now.mono - (self._timing.autoscale_down_s if window_s is None else window_s)
        lately = [(at, size) for at, size in self._wanted.get(key, [(now.mono, replicas)]) if at > since]
        self._wanted[key] = [*lately, (now.mono, desired)]
        if desired < replicas:
            desired = min(replicas, max(size for _, size in self._wanted[key]))
        desired = min(desired, max(2 * replicas, replicas + _LEAST_GROWTH))
        bounded = max(spec["minReplicas"], min(desired, spec["maxReplicas"]))
        reason, message = "DesiredWithinRange", "the desired count is within the acceptable range"
        if bounded < desired:
            reason, message = "TooManyReplicas", "the desired replica count is more than the maximum replica count"
        elif bounded > desired:
            reason, message = "TooFewReplicas", "the desired replica count is less than the minimum replica count"
        return bounded, _condition(autoscaler, "ScalingLimited", bounded != desired, reason, message, now)


def _measure(resource: JsonObject, pods: list[JsonObject], replicas: int, usage: Usage) -> _Measured:
    """Measure one resource on the pods that are ready; raises `_NoMetric`."""
    name, target = resource["name"], resource.get("target") or {}
    used = sum(amounts[name] for pod in pods for amounts in usage.of_pod(pod).values())
    current: JsonObject = {"averageValue": text(name, used // len(pods))}
    if target.get("type") == "Utilization":
        asked = [requested(container, name) for pod in pods for container in spec_of(pod)["containers"]]
        total = sum(request for request in asked if request is not None)
        if None in asked or not total or not target.get("averageUtilization"):
            raise _NoMetric(f"failed to get {name} utilization: missing request for {name} in a container")
        current["averageUtilization"] = used * 100 // total
        ratio = used * 100 / total / target["averageUtilization"]
    else:
        try:
            wanted = amount(name, str(target["averageValue"]))
        except (KeyError, ValueError):
            raise _NoMetric(f"the target of {name} is neither a utilization nor an average value") from None
        ratio = used / len(pods) / max(1, wanted)
    wanted_replicas = _wanted(ratio, len(pods), replicas)
    return _Measured({"type": "Resource", "resource": {"name": name, "current": current}}, wanted_replicas)


def _wanted(ratio: float, ready: int, replicas: int) -> int:
    """Return the replicas that bring the ratio to one; pods that are not ready yet count against any change."""
    if abs(ratio - 1) <= _TOLERANCE:
        return replicas
    if ratio > 1:
        return max(replicas, math.ceil(ratio * ready))
    return min(replicas, math.ceil(ratio * ready) + max(0, replicas - ready))


def _condition(autoscaler: JsonObject, kind: str, holds: bool, reason: str, message: str, now: Instant) -> JsonObject:
    return new_condition(autoscaler, kind, holds=holds, reason=reason, message=message, wall=now.wall)
