"""Events have two spellings over one storage: core/v1, which is stored, and events.k8s.io/v1."""

from autoscaler.objects.meta import JsonObject

_RENAMED = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


def to_core(event: JsonObject) -> JsonObject:
    """Respell an events.k8s.io/v1 event as core/v1, in place."""
    for new, old in _RENAMED:
        if new in event:
            event[old] = event.pop(new)
    event["apiVersion"] = "v1"
    return event


def to_events_v1(event: JsonObject) -> JsonObject:
    """Respell a core/v1 event as events.k8s.io/v1, in place."""
    for new, old in _RENAMED:
        if old in event:
            event[new] = event.pop(old)
    event["apiVersion"] = "events.k8s.io/v1"
    return event
