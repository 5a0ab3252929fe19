"""The status changes of custom objects: decided here, written by `actuation.status_writes`."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from autoscaler.objects.capacity import CapacityBuffer, CapacityQuota, ProvisioningRequest, StatusCondition
from autoscaler.objects.meta import rfc3339


class StatusChange(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions and fields that one object's status is to have; what else it has stays."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    conditions: tuple[StatusCondition, ...] = ()
    """They replace those of the same type."""
    fields: Mapping[str, Any] = {}
    """Further fields by their name in the API; None removes one."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name where the kind has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def change_of(
    of: ProvisioningRequest | CapacityBuffer | CapacityQuota,
    *conditions: StatusCondition,
    fields: Mapping[str, Any] | None = None,
) -> StatusChange:
    """Return a change of this object's status."""
    return StatusChange(
        api_version=of.api_version,
        kind=type(of).__name__,
        namespace=of.namespace,
        name=of.name,
        uid=of.uid,
        conditions=conditions,
        fields=fields or {},
    )


def condition(kind: str, status: str, reason: str, message: str, wall: float, generation: int = 0) -> StatusCondition:
    """Return a condition that holds since `wall`, Unix seconds."""
    return StatusCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=rfc3339(wall),
        observed_generation=generation,
    )


def merged(present: Iterable[StatusCondition], new: Iterable[StatusCondition]) -> list[StatusCondition]:
    """Return conditions with new ones in the place of those of the same type."""
    by_type = {old.type: old for old in present}
    by_type.update((changed.type, changed) for changed in new)
    return list(by_type.values())
