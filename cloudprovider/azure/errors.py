"""Translates Azure's errors into errors of the provider contract."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

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
from cloudprovider.moment import retry_after_s

_NO_CAPACITY = {
    "allocationfailed",
    "zonalallocationfailed",
    "overconstrainedallocationrequest",
    "overconstrainedzonalallocationrequest",
    "spotallocationfailed",
    "lowpriorityallocationfailed",
    "skunotavailable",
    "skunotavailableinzone",
    "capacityreservationfull",
}
_NO_QUOTA = {
    "quotaexceeded",
    "resourcequotaexceeded",
    "subscriptionquotaexceeded",
    "lowpriorityquotaexceeded",
    "spotquotaexceeded",
    "publicipcountlimitreached",
    "subnetisfull",
}
_THROTTLED = {"toomanyrequests", "subscriptionrequeststhrottled", "operationthrottled"}
_PASSING_STATUS = (408, 409, 500, 502, 503, 504)
_CODE = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_CODE, _LONGEST_MESSAGE = 64, 500


class ChangedMeanwhile(Transient):
    """Nothing happened, because the resource has changed since it was read."""


class Failure(msgspec.Struct, frozen=True):
    """A code and a message of Azure's."""

    code: str
    message: str = ""

    def instance_error(self) -> InstanceError:
        """Return the failure as the reason why a machine was not created."""
        short = _lacks(self, _NO_CAPACITY) or _lacks_quota(self)
        error_class = ErrorClass.OUT_OF_RESOURCES if short else ErrorClass.OTHER
        return InstanceError(error_class, self.code, self.message)


def failure_of(data: Any, status: int) -> Failure:
    """Return the failure that an error document reports. The innermost lack of capacity or quota wins. Never raises."""
    outer = data.get("error", data) if isinstance(data, Mapping) else {}
    failures = list(_flat(outer, 0)) or [Failure("")]
    telling = [failure for failure in failures if _lacks(failure, _NO_CAPACITY) or _lacks_quota(failure)]
    chosen = (telling or failures)[0]
    return Failure(_CODE.sub("", chosen.code)[:_LONGEST_CODE] or f"HTTP{status}", chosen.message[:_LONGEST_MESSAGE])


def error_of(what: str, status: int, failure: Failure, headers: Mapping[str, str]) -> ProviderError:
    """Return the error for an answer. `what` describes the attempted call."""
    text = f"{what}: {failure.code}: {failure.message}" if failure.message else f"{what}: {failure.code}"
    if status == 429 or failure.code.lower() in _THROTTLED:
        return Throttled(text, retry_after_s(headers.get("retry-after"), headers.get("date")))
    if _lacks(failure, _NO_CAPACITY):
        return OutOfCapacity(text, failure.code)
    if _lacks_quota(failure):
        return QuotaExceeded(text, failure.code)
    if status == 404:
        return NotFound(text)
    if status == 412:
        return ChangedMeanwhile(text, failure.code)
    if status in _PASSING_STATUS:
        return Transient(text, failure.code)
    return ProviderError(text, failure.code)


def _lacks(failure: Failure, codes: set[str]) -> bool:
    return failure.code.lower() in codes


def _lacks_quota(failure: Failure) -> bool:
    if _lacks(failure, _NO_QUOTA):
        return True
    return failure.code.lower() == "operationnotallowed" and "quota" in failure.message.lower()


def _flat(error: Any, depth: int) -> Any:
    """Yield an error, and those that it lists as its details."""
    if not isinstance(error, Mapping) or depth > 4:
        return
    yield Failure(str(error.get("code") or ""), " ".join(str(error.get("message") or "").split()))
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        yield from _flat(detail, depth + 1)
