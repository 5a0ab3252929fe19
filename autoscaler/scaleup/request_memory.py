"""The state of ProvisioningRequests between passes: statuses not yet seen in the watch, and retry delays.

A status that was decided holds from then on, even if its write fails or the watch shows it late.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.config.scaleup import Features
from autoscaler.objects.capacity import (
    ConditionedStatus,
    ProvisioningRequest,
    RequestCondition,
    StatusCondition,
    condition_in,
)
from autoscaler.scaleup.status_change import StatusChange, merged

_LATEST_S = 60.0
"""How long a watch may take to show what was written."""


class DecidedStatus(msgspec.Struct, frozen=True):
    """A status that was decided, until the API server shows it."""

    change: StatusChange
    at: Instant
    written: bool = False

    def settled(self, request: ProvisioningRequest, now: Instant) -> bool:
        """Whether the API server shows it, or should have by now, so that another client must have changed it."""
        if self.written and now.mono - self.at.mono > _LATEST_S:
            return True
        return all(_shows(request, condition) for condition in self.change.conditions)


def _shows(request: ProvisioningRequest, condition: StatusCondition) -> bool:
    """Whether a request has the condition, or a later one in its place."""
    seen = condition_in(request.status.conditions, condition.type)
    return seen is not None and (
        seen.since > condition.since or (seen.since, seen.status) == (condition.since, condition.status)
    )


class RequestMemory(msgspec.Struct, frozen=True):
    """What one pass leaves to the next about requests."""

    known: Mapping[str, DecidedStatus] = {}
    """By uid."""
    waits: Mapping[str, float] = {}
    """Seconds that a request waits for its next try, by uid; the one used last comes last."""
    pods_next: bool = False
    """Whether it is the turn of ordinary pods, where both they and a request wait."""


def up_to_date(
    observed: Mapping[str, ProvisioningRequest], memory: RequestMemory, now: Instant
) -> tuple[tuple[ProvisioningRequest, ...], RequestMemory]:
    """Return the requests with what was decided about them, and the memory without what has been seen since."""
    known: dict[str, DecidedStatus] = {}
    requests: list[ProvisioningRequest] = []
    for request in observed.values():
        held = memory.known.get(request.uid)
        if held is None or held.settled(request, now):
            requests.append(request)
        else:
            known[request.uid] = held
            requests.append(told(request, held.change))
    present = {request.uid for request in requests}
    waits = {uid: wait for uid, wait in memory.waits.items() if uid in present}
    return tuple(requests), replace(memory, known=known, waits=waits)


def decided(memory: RequestMemory, change: StatusChange, now: Instant, *, written: bool) -> RequestMemory:
    """Remember a status until the API server shows it."""
    before = memory.known.get(change.uid)
    earlier = () if before is None else before.change.conditions
    merged_change = replace(change, conditions=tuple(merged(earlier, change.conditions)))
    return replace(memory, known={**memory.known, change.uid: DecidedStatus(merged_change, now, written)})


def forgotten(memory: RequestMemory, uid: str) -> RequestMemory:
    """Drop a request that is gone."""
    return replace(
        memory,
        known={key: known for key, known in memory.known.items() if key != uid},
        waits={key: wait for key, wait in memory.waits.items() if key != uid},
    )


def told(request: ProvisioningRequest, change: StatusChange) -> ProvisioningRequest:
    """Return a request as it is once its status says so."""
    conditions = merged(request.status.conditions, change.conditions)
    return replace(request, status=ConditionedStatus(conditions=conditions))


def tried(memory: RequestMemory, request: ProvisioningRequest, features: Features) -> RequestMemory:
    """Remember that a request is tried: it waits twice as long after every try but the first."""
    if request.condition(RequestCondition.PROVISIONED) is None:
        return memory
    first_s, longest_s = (
        features.provisioning_request_initial_backoff_time_s,
        features.provisioning_request_max_backoff_time_s,
    )
    waits = dict(memory.waits)
    waits[request.uid] = min(2 * waits.pop(request.uid, first_s), longest_s)
    excess = len(waits) - features.provisioning_request_max_backoff_cache_size
    return replace(memory, waits=dict(list(waits.items())[max(0, excess) :]))
