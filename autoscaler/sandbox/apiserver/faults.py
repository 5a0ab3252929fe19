"""Injected faults: rules that delay, refuse or cut off requests, for tests of clients."""

import threading
from collections.abc import Callable

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import ApiError, not_permitted
from autoscaler.sandbox.apiserver.request_log import RequestAttributes

USER = "sandbox"
"""The user name of every client of the sandbox."""

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Fault(msgspec.Struct, frozen=True):
    """One rule. Its first fields select requests; the others say what happens to them.

    `watch_lines` applies to watches: after that many lines the stream ends in the middle of a line or, with `code`,
    with an ERROR event of that code.
    """

    verb: str = "*"
    resource: str = "*"
    path_prefix: str = ""
    user_agent: str = ""
    times: int | None = None
    """Maximum number of requests that it affects; `None` means until it is removed."""

    delay_s: float = 0.0
    drop: bool = False
    code: int | None = None
    retry_after_s: int | None = None
    watch_lines: int | None = None

    def matches(self, attributes: RequestAttributes) -> bool:
        """Whether this rule is about the request."""
        same_verb = self.verb in ("*", attributes.verb)
        same_resource = self.resource in ("*", attributes.resource)
        return (
            same_verb
            and same_resource
            and attributes.path.startswith(self.path_prefix)
            and self.user_agent in attributes.user_agent
        )

    def error(self, attributes: RequestAttributes) -> ApiError:
        """The error of this rule."""
        code = self.code or 500
        if code == 403 and attributes.resource:
            return not_permitted(USER, attributes)
        details: JsonObject = {}
        if self.retry_after_s is not None:
            details["retryAfterSeconds"] = self.retry_after_s
        return ApiError(code, _REASONS.get(code, "Unknown"), f"injected fault: {code}", details)


class Faults:
    """The active rules; the first that matches a request decides. Threads may change them while the server runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[tuple[Fault, int | None]] = []
        self._down = False
        self._when_down: Callable[[], None] = lambda: None

    def add(self, fault: Fault) -> None:
        """Activate a rule."""
        with self._lock:
            self._rules.append((fault, fault.times))

    def clear(self) -> None:
        """Remove all rules, and accept connections again."""
        with self._lock:
            self._rules.clear()
            self._down = False

    def down(self) -> None:
        """Cut all connections, and every new one until `up`: the server seems to be gone."""
        self._down = True
        self._when_down()

    def up(self) -> None:
        """Answer again."""
        self._down = False

    @property
    def is_down(self) -> bool:
        """Whether the server is down."""
        return self._down

    def when_down(self, action: Callable[[], None]) -> None:
        """Let the server know how to cut the connections that are open."""
        self._when_down = action

    def match(self, attributes: RequestAttributes) -> Fault | None:
        """Return the rule for this request, and count the hit."""
        with self._lock:
            for index, (fault, times_left) in enumerate(self._rules):
                if fault.matches(attributes) and times_left != 0:
                    self._rules[index] = (fault, None if times_left is None else times_left - 1)
                    return fault
        return None
