"""The part of a groups file that describes the behaviour of machines: boot times, stock-outs and faults."""

from enum import StrEnum
from typing import Any

from cloudprovider.fields import Fields
from cloudprovider.interface import ErrorClass, InstanceError
from cloudprovider.static.faults import stock_out
from cloudprovider.static.spec import BootDelay, Call, CallFault, CreationFault, FaultKind, When

_CREATE = "create"


class _Fails(StrEnum):
    INCREASE = Call.INCREASE.value
    DELETE = Call.DELETE.value
    DECREASE_TARGET = Call.DECREASE_TARGET.value
    REFRESH = Call.REFRESH.value
    CREATE = _CREATE


def boot_delay(group: Fields) -> BootDelay | None:
    """Decode `bootSeconds`: a number, or the bounds it is drawn between."""
    value = group.raw("bootSeconds")
    if not isinstance(value, dict):
        seconds = group.number("bootSeconds")
        return None if seconds is None else BootDelay(seconds, seconds)
    fields = Fields(value, group.at("bootSeconds"), group.problems)
    fields.raw("min", required=True)
    fields.raw("max", required=True)
    least, most = fields.number("min"), fields.number("max")
    fields.close()
    if least is None or most is None:
        return None
    if most < least:
        fields.complain("max", f"{most:g} is below min {least:g}")
    return BootDelay(least, most)


def call_faults(group: Fields) -> tuple[CallFault, ...]:
    """Decode the entries of `faults` that hit calls, and `increaseError`."""
    found: list[CallFault] = []
    message = group.text("increaseError")
    if message is not None:
        found.append(CallFault(call=Call.INCREASE, message=message))
    for path, item in group.entries("faults"):
        fields = Fields(item, path, group.problems)
        fails = fields.choice("fails", _Fails, required=True)
        if fails is not None and fails is not _Fails.CREATE:
            found.append(_call_fault(fields, Call(fails.value)))
            fields.close()
    return tuple(found)


def creation_faults(group: Fields, group_id: str) -> tuple[CreationFault, ...]:
    """Decode `stockOuts`, and the entries of `faults` that hit machines."""
    found: list[CreationFault] = []
    for path, item in group.entries("stockOuts"):
        fields = Fields(item, path, group.problems)
        found.append(CreationFault(error=stock_out(group_id).error, when=_when(fields)))
        fields.close()
    for path, item in group.entries("faults"):
        if _is_creation(item):
            fields = Fields(item, path, group.problems)
            fields.raw("fails")
            found.append(_creation_fault(fields))
            fields.close()
    return tuple(found)


def _is_creation(item: Any) -> bool:
    return isinstance(item, dict) and item.get("fails") == _CREATE


def _call_fault(fields: Fields, call: Call) -> CallFault:
    kind = fields.choice("error", FaultKind) or FaultKind.PROVIDER_ERROR
    retry_after_s = fields.duration_s("retryAfter")
    if retry_after_s is not None and kind is not FaultKind.THROTTLED:
        fields.complain("retryAfter", f"belongs to {FaultKind.THROTTLED.value} only")
    return CallFault(
        call=call,
        error=kind,
        message=fields.text("message") or "injected fault",
        code=fields.text("code"),
        retry_after_s=retry_after_s,
        takes_effect=fields.flag("takesEffect") or False,
        when=_when(fields),
    )


def _creation_fault(fields: Fields) -> CreationFault:
    error_class = fields.choice("class", ErrorClass) or ErrorClass.OTHER
    error = InstanceError(error_class, fields.text("code") or "OTHER", fields.text("message") or "injected fault")
    return CreationFault(error=error, after_s=fields.duration_s("after") or 0.0, when=_when(fields))


def _when(fields: Fields) -> When:
    from_s, until_s = fields.duration_s("from") or 0.0, fields.duration_s("until")
    if until_s is not None and until_s <= from_s:
        fields.complain("until", "is not after from")
    return When(
        from_s=from_s,
        until_s=until_s,
        every=fields.integer("every", least=1) or 1,
        times=fields.integer("times", least=1),
    )
