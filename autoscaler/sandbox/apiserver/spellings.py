"""Kinds with two spellings over one storage: events.k8s.io/v1 over core/v1, and autoscaling/v1 over autoscaling/v2."""

from collections.abc import Callable, Mapping

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.kinds import Kind

_EVENT_FIELDS = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)
_CPU_TARGET = "targetCPUUtilizationPercentage"
_CPU_NOW = "currentCPUUtilizationPercentage"


class _Spelling(msgspec.Struct, frozen=True):
    """The version that is stored, and the way there and back; both change the object in place."""

    stored: str
    to_stored: Callable[[JsonObject], None]
    from_stored: Callable[[JsonObject], None]


def to_stored(kind: Kind, obj: JsonObject) -> None:
    """Respell an object of this kind as it is stored, in place."""
    if (spelling := _SPELLINGS.get((kind.api_version, kind.kind))) is not None:
        spelling.to_stored(obj)
        obj["apiVersion"] = spelling.stored


def from_stored(kind: Kind, obj: JsonObject) -> None:
    """Respell a stored object as this kind has it, in place."""
    if (spelling := _SPELLINGS.get((kind.api_version, kind.kind))) is not None:
        spelling.from_stored(obj)
        obj["apiVersion"] = kind.api_version


def _event_to_core(event: JsonObject) -> None:
    for new, old in _EVENT_FIELDS:
        if new in event:
            event[old] = event.pop(new)


def _event_from_core(event: JsonObject) -> None:
    for new, old in _EVENT_FIELDS:
        if old in event:
            event[new] = event.pop(old)


def _cpu(section: str, figure: JsonObject) -> JsonObject:
    return {"type": "Resource", "resource": {"name": "cpu", section: figure}}


def _cpu_utilization(entries: list[JsonObject] | None, section: str) -> int | None:
    """The CPU figure of a list of metrics: all that autoscaling/v1 can say."""
    for entry in entries or ():
        resource = entry.get("resource") or {}
        if resource.get("name") == "cpu":
            value: int | None = (resource.get(section) or {}).get("averageUtilization")
            return value
    return None


def _autoscaler_to_v2(obj: JsonObject) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if (percent := spec.pop(_CPU_TARGET, None)) is not None:
        spec["metrics"] = [_cpu("target", {"type": "Utilization", "averageUtilization": percent})]
    if (used := status.pop(_CPU_NOW, None)) is not None:
        status["currentMetrics"] = [_cpu("current", {"averageUtilization": used})]


def _autoscaler_from_v2(obj: JsonObject) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    for section, fields, metrics, name in (
        ("target", spec, spec.pop("metrics", None), _CPU_TARGET),
        ("current", status, status.pop("currentMetrics", None), _CPU_NOW),
    ):
        if (percent := _cpu_utilization(metrics, section)) is not None:
            fields[name] = percent
    for fields, name in ((spec, "behavior"), (status, "conditions")):
        fields.pop(name, None)


_SPELLINGS: Mapping[tuple[str, str], _Spelling] = {
    ("events.k8s.io/v1", "Event"): _Spelling("v1", _event_to_core, _event_from_core),
    ("autoscaling/v1", "HorizontalPodAutoscaler"): _Spelling("autoscaling/v2", _autoscaler_to_v2, _autoscaler_from_v2),
}
"""By version and kind as served."""
