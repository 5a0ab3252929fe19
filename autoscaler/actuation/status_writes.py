"""Writes the status of custom objects (merges the decided fields into the current status), and pauses."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from autoscaler.errors import AutoscalerError, Gone, RetryLater
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.writes import ClusterWrites
from autoscaler.objects.capacity import ConditionedStatus, ProvisioningRequest, StatusCondition
from autoscaler.objects.lenient_json import without_nulls, words
from autoscaler.objects.meta import JsonObject
from autoscaler.scaledown.pause import Pause, entry_of
from autoscaler.scaleup.status_change import StatusChange, merged


class WriteOutcome(StrEnum):
    """The kind of result of a write."""

    DONE = "done"
    GONE = "gone"
    """The object no longer exists."""
    FAILED = "failed"
    """To be retried; the write may still have taken effect."""


class StatusWrite(msgspec.Struct, frozen=True):
    """The result of a write, and why it failed."""

    outcome: WriteOutcome = WriteOutcome.DONE
    error: str = ""


class ClusterStatuses:
    """Writes of the deciding thread to custom objects and to the ConfigMap of pauses. No method raises."""

    def __init__(self, writes: ClusterWrites) -> None:
        self._writes = writes

    def put(self, change: StatusChange) -> StatusWrite:
        """Apply a change to a status; after a conflict, read the object again and retry."""
        ref = ObjectRef(change.api_version, change.kind, change.name, change.namespace)
        return _written(lambda: self._writes.edit_status(ref, change.uid, lambda held: _apply(change, held)))

    def store(self, template: Mapping[str, Any]) -> StatusWrite:
        """Create or update a PodTemplate by server-side apply."""
        return _written(lambda: self._writes.apply(template))

    def pause(self, namespace: str, config_map: str, pause: Pause) -> StatusWrite:
        """Add a pause to the ConfigMap of pauses; it takes the place of the one of its name."""
        return _written(lambda: self._writes.put_config_map(namespace, config_map, {pause.name: entry_of(pause)}))

    def try_create(self, pod: Mapping[str, Any]) -> JsonObject | StatusWrite:
        """Return a pod as the API server would store it, or why it would not; nothing is stored."""
        try:
            return self._writes.try_create(pod)
        except AutoscalerError as error:
            return StatusWrite(WriteOutcome.FAILED, str(error))

    def delete(self, request: ProvisioningRequest) -> StatusWrite:
        """Delete a request that has ended, unless it has changed since it was read."""
        ref = ObjectRef(request.api_version, "ProvisioningRequest", request.name, request.namespace)
        return _written(lambda: self._writes.delete(ref, request.uid, request.metadata.resource_version))


def _written(write: Callable[[], object]) -> StatusWrite:
    try:
        write()
    except Gone as error:
        return StatusWrite(WriteOutcome.GONE, str(error))
    except AutoscalerError as error:
        return StatusWrite(WriteOutcome.FAILED, str(error))
    return StatusWrite()


def _apply(change: StatusChange, held: JsonObject) -> bool:
    """Merge a change into the status `held`; return False if that changes nothing."""
    status = held.get("status") or {}
    try:
        present = msgspec.convert(without_nulls(status), ConditionedStatus).conditions
    except msgspec.ValidationError as error:
        raise RetryLater(f"the conditions of {change.kind} {change.name} cannot be read: {words(error)}") from error
    wanted: JsonObject = {**status, **change.fields}
    wanted["conditions"] = [_form(condition) for condition in merged(present, change.conditions)]
    held["status"] = {name: value for name, value in wanted.items() if value is not None}
    return bool(held["status"] != status)


def _form(condition: StatusCondition) -> JsonObject:
    """Return a condition with all fields that its schema requires, even empty ones."""
    required = {
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    return {**required, **msgspec.to_builtins(condition)}
