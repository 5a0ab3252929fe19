"""Errors of the provider contract as gRPC statuses, and back.

A status alone cannot distinguish a quota from a stock-out, so our server adds the error's code as trailing metadata.
For other servers, the status decides.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import grpc

from cloudprovider.interface import (
    Misconfigured,
    NotFound,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
)
from cloudprovider.number import parse_float

Metadata = Sequence[tuple[str, str]]
_CODE, _RETRY_AFTER = "autoscaler-error-code", "autoscaler-retry-after"
_Made = Callable[[str], ProviderError]
_BY_STATUS: Mapping[grpc.StatusCode, _Made] = {
    grpc.StatusCode.ABORTED: Transient,
    grpc.StatusCode.CANCELLED: Transient,
    grpc.StatusCode.DEADLINE_EXCEEDED: Transient,
    grpc.StatusCode.UNAVAILABLE: Transient,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.RESOURCE_EXHAUSTED: OutOfCapacity,
}
_KINDS: Sequence[tuple[type[ProviderError], grpc.StatusCode]] = (
    (OutOfCapacity, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (QuotaExceeded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Throttled, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (Transient, grpc.StatusCode.UNAVAILABLE),
    (Misconfigured, grpc.StatusCode.FAILED_PRECONDITION),
)
_BY_CODE: Mapping[str, _Made] = {kind.code: kind for kind, _ in _KINDS}


class Unimplemented(ProviderError):
    """The server has no such call."""

    code = "UNIMPLEMENTED"


def error_of(raised: grpc.RpcError, what: str) -> ProviderError:
    """Return the contract's error for a failed call. `what` names the call in the message."""
    call = cast("grpc.Call", raised)  # as grpc promises of what a call raises
    status, details = call.code(), call.details()
    message = f"{what}: {details or status.name}"
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return Unimplemented(message)
    metadata = {key: value for key, value in call.trailing_metadata() or () if isinstance(value, str)}
    code = metadata.get(_CODE, "")
    if code == Throttled.code:
        return Throttled(message, _number(metadata.get(_RETRY_AFTER)))
    if code in _BY_CODE:
        return _BY_CODE[code](message)
    made = _BY_STATUS.get(status)
    return ProviderError(message, code or status.name) if made is None else made(message)


def status_of(error: ProviderError) -> tuple[grpc.StatusCode, Metadata]:
    """Return the status and the trailing metadata for an error."""
    kinds = (status for kind, status in _KINDS if isinstance(error, kind))
    status = next(kinds, grpc.StatusCode.INTERNAL)
    metadata = [(_CODE, error.code)]
    if isinstance(error, Throttled) and error.retry_after is not None:
        metadata.append((_RETRY_AFTER, f"{error.retry_after:g}"))
    return status, metadata


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else max(0.0, parse_float(text))
    except ValueError:
        return None
