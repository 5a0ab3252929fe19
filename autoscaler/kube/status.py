"""What an HTTP answer of the API server means for the caller."""

import msgspec

from autoscaler.errors import AutoscalerError, Blocked, Conflict, Gone, Refused, RetryLater
from autoscaler.objects.oddities import loads

_LONGEST_MESSAGE = 500


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int | None = None


class _Status(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


def failure(
    what: str, code: int, body: bytes, retry_after: str | None = None, *, eviction: bool = False
) -> AutoscalerError:
    """Return the error for HTTP `code` in answer to the call `what`.

    429 on an eviction means that a disruption budget forbids it, if the server says so with a Status object; the
    flood control in front of the API answers 429 in plain text, and then the call may simply be made again.
    """
    status = _status(body)
    plain = body[:_LONGEST_MESSAGE].decode("utf-8", "replace").strip()
    said = status.message[:_LONGEST_MESSAGE] if status is not None else plain
    message = f"{what}: HTTP {code}" + (f": {said}" if said else "")
    wait_s = _seconds(retry_after)
    if wait_s is None and status is not None and status.details is not None:
        wait_s = status.details.retry_after_seconds
    if code == 409:
        return Conflict(message, wait_s)
    if code in (404, 410):
        return Gone(message)
    if code == 429 and eviction and status is not None:
        return Blocked(message, code)
    if code in (408, 429) or code >= 500:
        return RetryLater(message, wait_s)
    return Refused(message, code)


def _status(body: bytes) -> _Status | None:
    try:
        status = msgspec.convert(loads(body), _Status)
    except msgspec.MsgspecError:
        return None
    return status if status.kind == "Status" else None


def _seconds(header: str | None) -> float | None:
    """Read Retry-After. Kubernetes sends seconds; the date form is left to the caller's own pace."""
    return float(header) if header is not None and header.isascii() and header.isdigit() else None
