"""What can go wrong, named for what the caller does next.

AutoscalerError
├── ConfigError         refuse to start: the user's mistake, exit status 2
├── RetryLater          transient: skip this pass, keep all state
│   ├── Conflict        the object changed under us: re-read, then decide again
│   └── CloudUnavailable the cloud provider cannot be asked now
├── Gone                the thing is not there (any more)
├── Refused             the API server will not have it, now or ever
│   └── Blocked         an eviction that a disruption budget forbids for now
├── LeadershipLost      stop writing, exit
├── Stopped             somebody asked to stop: clean up, exit status 130
└── NeverStarted        a generated pod is given up: report it, go on with the others

All of them can be imported from `autoscaler`.
"""

from collections.abc import Iterable
from enum import StrEnum


class AutoscalerError(Exception):
    """Anything we raise on purpose."""


class ConfigError(AutoscalerError):
    """The user's input is unusable; every problem found is in `problems`, one line each."""

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class RetryLater(AutoscalerError):
    """Transient: the same call may succeed later. `retry_after_s` is the server's wish, if it had one."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Conflict(RetryLater):
    """The object changed since it was read (HTTP 409)."""


class CloudUnavailable(RetryLater):
    """The cloud provider cannot be asked now."""


class Gone(AutoscalerError):
    """The object, or the resource version asked for, does not exist (HTTP 404 and 410)."""


class Refused(AutoscalerError):
    """The API server understood and declined (other HTTP 4xx); trying again unchanged is pointless."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Blocked(Refused):
    """An eviction refused by a disruption budget (HTTP 429 on the eviction subresource)."""


class LeadershipLost(AutoscalerError):
    """Another replica may be leading: nothing may be written from here on."""


class Stopped(AutoscalerError):
    """Somebody asked to stop: what is under way is taken back, nothing more is begun."""


class NeverStarted(AutoscalerError):
    """A generated pod did not start, and the message says why."""


class ErrorType(StrEnum):
    """Why a pass failed: values of the label `type` of errors_total."""

    CLOUD_PROVIDER = "cloudProviderError"
    API_CALL = "apiCallError"
    INTERNAL = "internalError"
    TRANSIENT = "transientError"
    CONFIGURATION = "configurationError"
    NODE_GROUP_MISSING = "nodeGroupDoesNotExistError"
    SCALE_DOWN_STATE = "unexpectedScaleDownStateError"


def one_line(error: BaseException) -> str:
    """Return the error's text on one line, or its type where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
