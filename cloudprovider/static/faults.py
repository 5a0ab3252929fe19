"""Decides which calls and machines of one group fail, and counts them for rules such as "every third"."""

from collections import deque

import msgspec

from cloudprovider.interface import (
    ErrorClass,
    InstanceError,
    Misconfigured,
    NotFound,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
)
from cloudprovider.static.spec import Call, CallFault, CreationFault, FaultKind, GroupSpec, When

_PLAIN: dict[FaultKind, type[ProviderError]] = {
    FaultKind.PROVIDER_ERROR: ProviderError,
    FaultKind.OUT_OF_CAPACITY: OutOfCapacity,
    FaultKind.QUOTA_EXCEEDED: QuotaExceeded,
    FaultKind.NOT_FOUND: NotFound,
    FaultKind.TRANSIENT: Transient,
    FaultKind.MISCONFIGURED: Misconfigured,
}


class Failure(msgspec.Struct, frozen=True):
    """How one call fails."""

    error: ProviderError
    takes_effect: bool = False
    """Whether the call does its work all the same."""
    at_most: int | None = None
    """How many machines an increase with `takes_effect` adds; None for all."""


class Faults:
    """The fault rules of one group, and the manually injected faults, which apply first."""

    def __init__(self, spec: GroupSpec, started_s: float) -> None:
        self._call_rules = [(fault, _Tally(fault.when, started_s)) for fault in spec.call_faults]
        self._creation_rules = [(fault, _Tally(fault.when, started_s)) for fault in spec.creation_faults]
        self._next_calls: dict[Call, deque[Failure]] = {call: deque() for call in Call}
        self._next_machines: deque[CreationFault] = deque()

    def inject(self, call: Call, failure: Failure) -> None:
        """Make the next such call fail."""
        self._next_calls[call].append(failure)

    def inject_creation(self, error: InstanceError) -> None:
        """Make the next machine fail at once."""
        self._next_machines.append(CreationFault(error=error))

    def of_call(self, call: Call, now: float) -> Failure | None:
        """Count one call and return how it fails; None if it does not."""
        if self._next_calls[call]:
            return self._next_calls[call].popleft()
        for fault, tally in self._call_rules:
            if fault.call is call and tally.hits(now):
                return Failure(_error_of(fault), fault.takes_effect)
        return None

    def of_creation(self, now: float) -> CreationFault | None:
        """Count one machine and return how its creation fails; None if it does not."""
        if self._next_machines:
            return self._next_machines.popleft()
        return next((fault for fault, tally in self._creation_rules if tally.hits(now)), None)


class _Tally:
    """Counts the calls or machines in a rule's window."""

    def __init__(self, when: When, started_s: float) -> None:
        self._when = when
        self._started_s = started_s
        self._seen = 0
        self._hits = 0

    def hits(self, now: float) -> bool:
        when, age_s = self._when, now - self._started_s
        if age_s < when.from_s or (when.until_s is not None and age_s >= when.until_s):
            return False
        if when.times is not None and self._hits >= when.times:
            return False
        self._seen += 1
        if self._seen % when.every:
            return False
        self._hits += 1
        return True


def stock_out(group: str) -> CreationFault:
    """Return the fault of a machine for which the cloud has no hardware."""
    return CreationFault(
        error=InstanceError(ErrorClass.OUT_OF_RESOURCES, "RESOURCE_POOL_EXHAUSTED", f"no more machines for {group}")
    )


def _error_of(fault: CallFault) -> ProviderError:
    if fault.error is FaultKind.THROTTLED:
        throttled = Throttled(fault.message, fault.retry_after_s)
        throttled.code = fault.code or throttled.code
        return throttled
    return _PLAIN[fault.error](fault.message, fault.code)
