"""The part of a groups file that describes the behaviour of machines: boot times, stock-outs and faults."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from cloudprovider.interface import ErrorClass, InstanceError
from cloudprovider.problems import Problems
from cloudprovider.static.faults import stock_out
from cloudprovider.static.spec import BootDelay, Call, CallFault, CreationFault, FaultKind, When
from cloudprovider.structure import Amount, FromOne, Seconds, Strict, StructReader

_CREATE = "create"


class _Fails(StrEnum):
    INCREASE = Call.INCREASE.value
    DELETE = Call.DELETE.value
    DECREASE_TARGET = Call.DECREASE_TARGET.value
    REFRESH = Call.REFRESH.value
    CREATE = _CREATE


class _Bounds(Strict, frozen=True, kw_only=True):
    min: Amount
    max: Amount


class _Window(Strict, frozen=True, kw_only=True):
    """When a fault applies, as `When`."""

    from_s: Seconds = 0.0
    until_s: Seconds | None = None
    every: FromOne = 1
    times: FromOne | None = None

    def when(self, path: str, problems: Problems) -> When:
        if self.until_s is not None and self.until_s <= self.from_s:
            problems.add(f"{path}.until", "is not after from")
        return When(from_s=self.from_s, until_s=self.until_s, every=self.every, times=self.times)


class _FailingCall(_Window, frozen=True, kw_only=True):
    fails: _Fails
    error: FaultKind = FaultKind.PROVIDER_ERROR
    message: str = ""
    code: str | None = None
    retry_after_s: Seconds | None = None
    takes_effect: bool = False


class _FailingCreation(_Window, frozen=True, kw_only=True):
    fails: _Fails
    class_: ErrorClass = msgspec.field(default=ErrorClass.OTHER, name="class")
    message: str = ""
    code: str = ""
    after_s: Seconds = 0.0


def boot_delay(data: Any, path: str, problems: Problems) -> BootDelay | None:
    """Decode `bootSeconds`: a number, or the bounds it is drawn between."""
    reader = StructReader(problems)
    if not isinstance(data, Mapping):
        seconds = None if data is None else reader.value(Amount, data, path, default=None)
        return None if seconds is None else BootDelay(seconds, seconds)
    bounds = reader.read(_Bounds, data, path)
    if bounds is None:
        return None
    if bounds.max < bounds.min:
        problems.add(f"{path}.max", f"{bounds.max:g} is below min {bounds.min:g}")
    return BootDelay(bounds.min, bounds.max)


def call_faults(entries: Sequence[Any], path: str, problems: Problems) -> tuple[CallFault, ...]:
    """Decode the entries of `faults` that hit calls."""
    reader = StructReader(problems)
    return tuple(
        _call_fault(fault, place, problems)
        for place, entry in _placed(entries, path)
        if not _is_creation(entry) and (fault := reader.read(_FailingCall, entry, place)) is not None
    )


def creation_faults(
    stock_outs: Any, entries: Sequence[Any], path: str, group_id: str, problems: Problems
) -> tuple[CreationFault, ...]:
    """Decode `stockOuts` of the group at `path`, and the entries of `faults` that hit machines."""
    reader = StructReader(problems)
    error = stock_out(group_id).error
    faults = [
        CreationFault(error=error, when=window.when(place, problems))
        for place, entry in _placed(stock_outs, f"{path}.stockOuts")
        if (window := reader.read(_Window, entry, place)) is not None
    ]
    faults += [
        _creation_fault(fault, place, problems)
        for place, entry in _placed(entries, f"{path}.faults")
        if _is_creation(entry) and (fault := reader.read(_FailingCreation, entry, place)) is not None
    ]
    return tuple(faults)


def _placed(entries: Sequence[Any], path: str) -> list[tuple[str, Any]]:
    return [(f"{path}[{index}]", entry) for index, entry in enumerate(entries)]


def _is_creation(entry: Any) -> bool:
    return isinstance(entry, Mapping) and entry.get("fails") == _CREATE


def _call_fault(fault: _FailingCall, path: str, problems: Problems) -> CallFault:
    if fault.retry_after_s is not None and fault.error is not FaultKind.THROTTLED:
        problems.add(f"{path}.retryAfter", f"belongs to {FaultKind.THROTTLED.value} only")
    return CallFault(
        call=Call(fault.fails.value),
        error=fault.error,
        message=fault.message or "injected fault",
        code=fault.code,
        retry_after_s=fault.retry_after_s,
        takes_effect=fault.takes_effect,
        when=fault.when(path, problems),
    )


def _creation_fault(fault: _FailingCreation, path: str, problems: Problems) -> CreationFault:
    error = InstanceError(fault.class_, fault.code or "OTHER", fault.message or "injected fault")
    return CreationFault(error=error, after_s=fault.after_s, when=fault.when(path, problems))
