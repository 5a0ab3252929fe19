"""Translates the SDK's exceptions into errors of the contract. No other exception leaves a call to AWS."""

from collections.abc import Callable, Mapping
from typing import Any

from botocore import exceptions as sdk
from botocore.parsers import ResponseParserError

from cloudprovider.causes import causes
from cloudprovider.interface import NotFound, OutOfCapacity, ProviderError, QuotaExceeded, Throttled, Transient
from cloudprovider.moment import retry_after_s


class AccessDenied(ProviderError):
    """AWS rejects our credentials, or they do not allow the call."""

    code = "ACCESS_DENIED"


_CODES: Mapping[str, type[ProviderError]] = {
    "Throttling": Throttled,
    "ThrottlingException": Throttled,
    "ThrottledException": Throttled,
    "RequestThrottled": Throttled,
    "RequestThrottledException": Throttled,
    "RequestLimitExceeded": Throttled,
    "TooManyRequestsException": Throttled,
    "EC2ThrottledException": Throttled,
    "SlowDown": Throttled,
    "BandwidthLimitExceeded": Throttled,
    "PriorRequestNotComplete": Throttled,
    "InsufficientInstanceCapacity": OutOfCapacity,
    "InsufficientCapacity": OutOfCapacity,
    "InsufficientHostCapacity": OutOfCapacity,
    "InsufficientReservedInstanceCapacity": OutOfCapacity,
    "UnfulfillableCapacity": OutOfCapacity,
    "SpotMaxPriceTooLow": OutOfCapacity,
    "LimitExceeded": QuotaExceeded,
    "LimitExceededFault": QuotaExceeded,
    "InstanceLimitExceeded": QuotaExceeded,
    "VcpuLimitExceeded": QuotaExceeded,
    "MaxSpotInstanceCountExceeded": QuotaExceeded,
    "ResourceLimitExceeded": QuotaExceeded,
    "ServiceQuotaExceededException": QuotaExceeded,
    "ScalingActivityInProgress": Transient,
    "ScalingActivityInProgressFault": Transient,
    "ResourceContention": Transient,
    "ResourceContentionFault": Transient,
    "RequestTimeout": Transient,
    "RequestTimeoutException": Transient,
    "InternalFailure": Transient,
    "InternalError": Transient,
    "ServiceUnavailable": Transient,
    "ServiceUnavailableException": Transient,
    "Unavailable": Transient,
    "ServerException": Transient,
    "ExpiredToken": Transient,
    "ExpiredTokenException": Transient,
    "AccessDenied": AccessDenied,
    "AccessDeniedException": AccessDenied,
    "UnauthorizedOperation": AccessDenied,
    "AuthFailure": AccessDenied,
    "InvalidClientTokenId": AccessDenied,
    "InvalidAccessKeyId": AccessDenied,
    "UnrecognizedClientException": AccessDenied,
    "SignatureDoesNotMatch": AccessDenied,
    "IncompleteSignature": AccessDenied,
    "MissingAuthenticationToken": AccessDenied,
    "OptInRequired": AccessDenied,
    "InvalidIdentityToken": AccessDenied,
    "IDPCommunicationError": Transient,
    "RequestExpired": AccessDenied,
    "NotAuthorized": AccessDenied,
}
"""Errors by AWS's error code. An expired token is renewed before the next call."""
_NO_CREDENTIALS = (
    sdk.NoCredentialsError,
    sdk.PartialCredentialsError,
    sdk.CredentialRetrievalError,
    sdk.NoAuthTokenError,
    sdk.NoRegionError,
    sdk.ProfileNotFound,
    sdk.ConfigNotFound,
    sdk.ConfigParseError,
    sdk.InvalidConfigError,
    sdk.TokenRetrievalError,
    sdk.SSOError,
)
_FAILURES = (sdk.BotoCoreError, sdk.ClientError, ResponseParserError, OSError)
_LONGEST = 300


def asked(operation: Callable[..., Mapping[str, Any]], **parameters: Any) -> Mapping[str, Any]:
    """Call an operation of the SDK; raises `ProviderError` and its kinds only."""
    try:
        return operation(**parameters)
    except _FAILURES as error:
        raise failure(error) from error


def failure(error: Exception) -> ProviderError:
    """Return the contract's error for an error of the SDK. Its text holds no credentials."""
    match error:
        case sdk.ClientError():
            return _answered(error)
        case sdk.ParamValidationError():
            return ProviderError(_short(error))
        case sdk.HTTPClientError() | sdk.ConnectionError() | sdk.IncompleteReadError() | ResponseParserError():
            return Transient(_short(error))
        case sdk.BotoCoreError() if isinstance(error, _NO_CREDENTIALS):
            away = any(isinstance(cause, sdk.HTTPClientError | sdk.ConnectionError) for cause in causes(error))
            return Transient(_short(error)) if away else AccessDenied(_short(error))
        case sdk.BotoCoreError():
            return ProviderError(_short(error))
        case _:
            # The token file of a workload identity, for one.
            return AccessDenied(_short(error))


def _answered(error: sdk.ClientError) -> ProviderError:
    detail, meta = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
    code, said = str(detail.get("Code", "")), str(detail.get("Message", ""))
    text = _short(f"{error.operation_name}: {code}: {said}")
    kind = _CODES.get(code)
    if kind is Throttled or meta.get("HTTPStatusCode") == 429:
        return Throttled(text, _retry_after(meta.get("HTTPHeaders") or {}))
    if kind is OutOfCapacity or kind is QuotaExceeded:
        return kind(text, code)
    if kind is not None:
        return kind(text)
    if int(meta.get("HTTPStatusCode") or 0) >= 500:
        return Transient(text)
    if "NotFound" in code or (code == "ValidationError" and "not found" in said):
        return NotFound(text)
    return ProviderError(text, code or None)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    return retry_after_s(headers.get("retry-after"), headers.get("date"))


def _short(error: object) -> str:
    # Beyond the first line AWS repeats the signed request, security token included.
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return first.partition("Encoded authorization failure message")[0].strip()[:_LONGEST]
