"""How answers, operations and machines that fail are named."""

import json
from typing import Any

import pytest

from cloudprovider.gce.faults import creation_error, http_error, operation_error
from cloudprovider.interface import (
    ErrorClass,
    NotFound,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
)

OUT, OTHER = ErrorClass.OUT_OF_RESOURCES, ErrorClass.OTHER


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("RESOURCE_POOL_EXHAUSTED", "", (OUT, "RESOURCE_POOL_EXHAUSTED")),
        ("ZONE_RESOURCE_POOL_EXHAUSTED", "", (OUT, "RESOURCE_POOL_EXHAUSTED")),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "", (OUT, "RESOURCE_POOL_EXHAUSTED")),
        ("INSUFFICIENT_CAPACITY", "", (OUT, "INSUFFICIENT_CAPACITY")),
        ("QUOTA_EXCEEDED", "", (OUT, "QUOTA_EXCEEDED")),
        ("REGIONAL_QUOTA_EXCEEDED", "", (OUT, "QUOTA_EXCEEDED")),
        ("IP_SPACE_EXHAUSTED_WITH_DETAILS", "", (OTHER, "IP_SPACE_EXHAUSTED")),
        ("PERMISSIONS_ERROR", "", (OTHER, "PERMISSIONS_ERROR")),
        (
            "CONDITION_NOT_MET",
            "Constraint constraints/compute.vmExternalIpAccess violated for project 1",
            (OTHER, "VM_EXTERNAL_IP_ACCESS_POLICY_CONSTRAINT"),
        ),
        ("CONDITION_NOT_MET", "Unsupported TPU configuration", (OTHER, "UNSUPPORTED_TPU_CONFIGURATION")),
        ("CONDITION_NOT_MET", "of another kind", (OTHER, "OTHER")),
        ("X", "it requires reservation to be in READY state", (OTHER, "RESERVATION_NOT_READY")),
        ("X", "Specified reservation [r] does not exist", (OTHER, "RESERVATION_NOT_FOUND")),
        ("X", "Specified reservations [r] do not exist", (OTHER, "RESERVATION_NOT_FOUND")),
        (
            "X",
            "Specified reservation r does not have available resources for the request.",
            (OTHER, "RESERVATION_CAPACITY_EXCEEDED"),
        ),
        ("X", "No available resources in specified reservations", (OTHER, "RESERVATION_INCOMPATIBLE")),
        ("X", "Reservation r is incorrect for the requested resources", (OTHER, "INVALID_RESERVATION")),
        (
            "X",
            "There is no automatic reservation matching the instance in your project",
            (OTHER, "AUTOMATIC_RESERVATIONS_NOT_AVAILABLE"),
        ),
        (
            "X",
            "All automatic reservations in your project, or shared with your project, are fully consumed",
            (OTHER, "AUTOMATIC_RESERVATIONS_NO_CAPACITY"),
        ),
        ("ANYTHING", "else", (OTHER, "OTHER")),
    ],
)
def test_a_machine_that_does_not_come(code: str, message: str, expected: tuple[ErrorClass, str]) -> None:
    error = creation_error([{"code": code, "message": message}], "")
    assert error is not None
    assert ((error.error_class, error.code), error.message) == (expected, message)


def test_a_machine_that_boots_has_no_error_without_a_name() -> None:
    assert creation_error([{"code": "ANYTHING"}], "RUNNING") is None
    assert creation_error([{"code": "ANYTHING"}], "STAGING") is not None
    assert creation_error([{"code": "QUOTA_EXCEEDED"}], "RUNNING") is not None
    assert creation_error([], "") is None


def test_an_error_with_a_name_counts_more_than_one_without_and_all_messages_are_kept() -> None:
    errors = [{"code": "QUOTA_EXCEEDED", "message": "CPUS"}, {"code": "ANYTHING", "message": "again"}]
    error = creation_error(errors, "")
    assert error is not None
    assert (error.code, error.message) == ("QUOTA_EXCEEDED", "CPUS; again")


@pytest.mark.parametrize(
    ("status", "reason", "expected", "code"),
    [
        (400, "invalid", ProviderError, "OTHER"),
        (400, "resourceNotReady", Transient, "TRANSIENT"),
        (401, "authError", ProviderError, "PERMISSIONS_ERROR"),
        (403, "forbidden", ProviderError, "PERMISSIONS_ERROR"),
        (403, "quotaExceeded", QuotaExceeded, "QUOTA_EXCEEDED"),
        (403, "rateLimitExceeded", Throttled, "THROTTLED"),
        (403, "userRateLimitExceeded", Throttled, "THROTTLED"),
        (404, "notFound", NotFound, "NOT_FOUND"),
        (408, "timeout", Transient, "TRANSIENT"),
        (409, "alreadyExists", Transient, "TRANSIENT"),
        (412, "conditionNotMet", ProviderError, "OTHER"),
        (429, "", Throttled, "THROTTLED"),
        (500, "internalError", Transient, "TRANSIENT"),
        (503, "", Transient, "TRANSIENT"),
    ],
)
def test_an_answer_that_is_no_success(status: int, reason: str, expected: type[ProviderError], code: str) -> None:
    body = {"error": {"message": "so it is", "errors": [{"reason": reason}] if reason else []}}
    error = http_error("GET x", status, body, 3.0)
    assert (type(error), error.code) == (expected, code)
    assert str(error) == f"GET x: HTTP {status}: so it is"
    assert not isinstance(error, Throttled) or error.retry_after == 3.0


def test_answers_without_a_body_have_a_name_too() -> None:
    for body in ({}, {"error": "invalid_grant"}, {"error": {"errors": ["?"]}}):
        assert isinstance(http_error("GET x", 502, body, None), Transient)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", OutOfCapacity),
        ("QUOTA_EXCEEDED", QuotaExceeded),
        ("RATE_LIMIT_EXCEEDED", Throttled),
        ("RESOURCE_NOT_FOUND", NotFound),
        ("RESOURCE_NOT_READY", Transient),
        ("INVALID_FIELD", ProviderError),
    ],
)
def test_an_operation_that_failed(code: str, expected: type[ProviderError]) -> None:
    operation: dict[str, Any] = json.loads(f'{{"error": {{"errors": [{{"code": "{code}", "message": "why"}}]}}}}')
    assert type(operation_error("resize of web", operation)) is expected
    assert operation_error("resize of web", {"status": "DONE"}) is None
