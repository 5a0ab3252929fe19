"""Turns failures into errors of the contract: HTTP answers, failed operations, machines that could not be created."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cloudprovider.interface import (
    ErrorClass,
    InstanceError,
    NotFound,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
)

PERMISSIONS = "PERMISSIONS_ERROR"
OTHER = "OTHER"
_POOL_EXHAUSTED = "RESOURCE_POOL_EXHAUSTED"
_INSUFFICIENT = "INSUFFICIENT_CAPACITY"
_QUOTA = "QUOTA_EXCEEDED"
_STOCK_OUTS = {
    "RESOURCE_POOL_EXHAUSTED": _POOL_EXHAUSTED,
    "ZONE_RESOURCE_POOL_EXHAUSTED": _POOL_EXHAUSTED,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": _POOL_EXHAUSTED,
    "INSUFFICIENT_CAPACITY": _INSUFFICIENT,
}
_BY_CODE = (
    ("IP_SPACE_EXHAUSTED", "IP_SPACE_EXHAUSTED"),
    ("PERMISSIONS_ERROR", PERMISSIONS),
)
_BY_MESSAGE: Sequence[tuple[str, str, str]] = (
    # What the cloud's code contains, what its message matches, and the code that users of Cluster Autoscaler know.
    (
        "CONDITION_NOT_MET",
        r"Constraint constraints/compute\.vmExternalIpAccess violated for project",
        "VM_EXTERNAL_IP_ACCESS_POLICY_CONSTRAINT",
    ),
    ("", r"it requires reservation to be in READY state", "RESERVATION_NOT_READY"),
    (
        "",
        r"Incompatible AggregateReservation VMFamily"
        r"|Could not find the given reservation with the following name"
        r"|must use ReservationAffinity of"
        r"|The reservation must exist in the same project as the instance"
        r"|only compatible with Aggregate Reservations"
        r"|Please target a reservation with workload_type ="
        r"|AggregateReservation VMFamily: should be a .* VM Family for instance with .* machine type"
        r"|VM Family: .* is not supported for aggregate reservations\. It must be one of"
        r"|Reservation .* is incorrect for the requested resources"
        r"|Zone does not currently have sufficient capacity for the requested resources",
        "INVALID_RESERVATION",
    ),
    ("", r"Specified reservations? .* do(?:es)? not exist", "RESERVATION_NOT_FOUND"),
    (
        "",
        r"Specified reservation .* does not have available resources for the request",
        "RESERVATION_CAPACITY_EXCEEDED",
    ),
    ("", r"No available resources in specified reservations", "RESERVATION_INCOMPATIBLE"),
    ("CONDITION_NOT_MET", r"Unsupported TPU configuration", "UNSUPPORTED_TPU_CONFIGURATION"),
    (
        "",
        r"There is no automatic reservation matching the instance in your project",
        "AUTOMATIC_RESERVATIONS_NOT_AVAILABLE",
    ),
    (
        "",
        r"All automatic reservations in your project, or shared with your project, are fully consumed",
        "AUTOMATIC_RESERVATIONS_NO_CAPACITY",
    ),
)
_NOT_RUNNING_YET = ("", "PROVISIONING", "STAGING")
_RATE_REASONS = ("rateLimitExceeded", "userRateLimitExceeded", "rateLimited", "concurrentLimitExceeded")
_LONGEST_MESSAGE = 1000


def creation_error(errors: Iterable[Mapping[str, Any]], instance_status: str) -> InstanceError | None:
    """Return why the creation of a machine fails; None if it does not.

    The last error with a known code counts. Other errors count only while the machine is not running.
    """
    cause: tuple[ErrorClass, str] | None = None
    messages: list[str] = []
    for error in errors:
        code, message = str(error.get("code") or ""), str(error.get("message") or "")[:_LONGEST_MESSAGE]
        named = _named(code, message)
        if named is None and instance_status not in _NOT_RUNNING_YET:
            continue
        cause = named or cause or (ErrorClass.OTHER, OTHER)
        if message:
            messages.append(message)
    return None if cause is None else InstanceError(*cause, "; ".join(messages))


def _named(code: str, message: str) -> tuple[ErrorClass, str] | None:
    if code in _STOCK_OUTS:
        return ErrorClass.OUT_OF_RESOURCES, _STOCK_OUTS[code]
    if "QUOTA" in code:
        return ErrorClass.OUT_OF_RESOURCES, _QUOTA
    for part, name in _BY_CODE:
        if part in code:
            return ErrorClass.OTHER, name
    for part, pattern, name in _BY_MESSAGE:
        if part in code and re.search(pattern, message):
            return ErrorClass.OTHER, name
    return None


def operation_error(what: str, operation: Mapping[str, Any]) -> ProviderError | None:
    """Return why a finished operation failed; None if it did not."""
    errors = (operation.get("error") or {}).get("errors") or []
    if not errors:
        return None
    first = errors[0]
    message = str(first.get("message") or "")[:_LONGEST_MESSAGE]
    code = str(first.get("code") or "")
    text = "; ".join(f"{error.get('code', '')}: {error.get('message', '')}" for error in errors)
    return _error(f"{what}: {text}", code, message, operation.get("httpErrorStatusCode"))


def http_error(what: str, status: int, body: Mapping[str, Any], retry_after: float | None) -> ProviderError:
    """Return the contract's error for an unsuccessful HTTP answer."""
    error = body.get("error")
    error = error if isinstance(error, Mapping) else {}
    message = str(error.get("message") or "")
    reasons = [str(item.get("reason") or "") for item in error.get("errors") or [] if isinstance(item, Mapping)]
    text = f"{what}: HTTP {status}{f': {message}' if message else ''}"[:_LONGEST_MESSAGE]
    if status == 429 or any(reason in _RATE_REASONS for reason in reasons):
        return Throttled(text, retry_after)
    if "quotaExceeded" in reasons:
        return QuotaExceeded(text)
    if "resourceNotReady" in reasons:
        return Transient(text)
    return _error(text, reasons[0] if reasons else "", message, status)


def _error(text: str, code: str, message: str, status: Any) -> ProviderError:
    text = text[:_LONGEST_MESSAGE]
    if code in _STOCK_OUTS:
        return OutOfCapacity(text, _STOCK_OUTS[code])
    if "RATE_LIMIT" in code or "OPERATION_RATE" in code:
        return Throttled(text)
    if "QUOTA" in code:
        return QuotaExceeded(text)
    if code == "RESOURCE_NOT_FOUND" or status == 404:
        return NotFound(text)
    if status in (408, 409, 425) or (isinstance(status, int) and status >= 500) or code == "RESOURCE_NOT_READY":
        return Transient(text)
    if status in (401, 403) or "PERMISSION" in code:
        return ProviderError(text, PERMISSIONS)
    named = _named(code, message)
    return ProviderError(text, named[1] if named is not None else OTHER)
