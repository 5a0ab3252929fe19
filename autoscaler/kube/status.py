"""Translates HTTP errors of the API server into errors for the caller."""

from collections.abc import Iterable

import msgspec

from autoscaler.errors import AutoscalerError, Blocked, Conflict, Gone, Refused, RetryLater
from autoscaler.objects.lenient_json import loads
from cloudprovider.moment import retry_after_s

_MAX_MESSAGE = 500


class _Cause(msgspec.Struct):
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int | None = None
    causes: list[_Cause] | None = None


class _StatusBody(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


def failure(
    what: str,
    code: int,
    body: bytes,
    retry_after: str | None = None,
    date: str | None = None,
    *,
    eviction: bool = False,
) -> AutoscalerError:
    """Return the error for HTTP status `code` in response to the call `what`.

    A 422 because of `metadata.uid` is also a `Conflict`: the object was replaced by another one.

    A 429 on an eviction means that a disruption budget forbids it, if the body is a Status object. The API's flood
    control also answers 429, in plain text; that call may be repeated. The headers `Retry-After` and `Date` say when.
    """
    status = _status(body)
    plain = body[:_MAX_MESSAGE].decode("utf-8", "replace").strip()
    details = (status.details if status is not None else None) or _Details()
    causes = details.causes or ()
    text = _message_with_causes(status.message, causes) if status is not None else plain
    message = f"{what}: HTTP {code}" + (f": {text}" if text else "")
    wait_s = retry_after_s(retry_after, date)
    if wait_s is None and details.retry_after_seconds is not None:
        wait_s = retry_after_s(f"{details.retry_after_seconds}")
    # A patch with another object's uid is invalid to the server, because it would change the uid.
    if code == 409 or (code == 422 and any(cause.field == "metadata.uid" for cause in causes)):
        return Conflict(message, wait_s)
    if code in (404, 410):
        return Gone(message)
    if code == 429 and eviction and status is not None:
        return Blocked(message, code)
    if code in (408, 429) or code >= 500:
        return RetryLater(message, wait_s)
    return Refused(message, code)


def _message_with_causes(message: str, causes: Iterable[_Cause]) -> str:
    """Return the server's message with the causes that it leaves out, such as the budget that forbids an eviction."""
    missing_causes = [cause.message for cause in causes if cause.message and cause.message not in message]
    return " ".join((message, *missing_causes))[:_MAX_MESSAGE].strip()


def _status(body: bytes) -> _StatusBody | None:
    try:
        status = msgspec.convert(loads(body), _StatusBody)
    except msgspec.MsgspecError:
        return None
    return status if status.kind == "Status" else None
