"""Options of one call to the API server."""

from collections.abc import Callable

import msgspec

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

SendGuard = Callable[[], float]
"""Called right before each attempt: returns the seconds that the call may take, or raises to forbid it."""


class Call(msgspec.Struct, frozen=True):
    """Options of one call; the defaults suit a small read."""

    timeout_s: float = 30.0
    accept: str = JSON
    urgent: bool = False
    """Do not wait for the rate limit: for lists, watches and the lease."""
    repeatable: bool = True
    """The call may be sent again after a 429, because repeating it changes nothing."""
    guard: SendGuard | None = None
    largest_body_bytes: int = 2 * 1024**3
    eviction: bool = False
    """Interpret 429 as the refusal of a disruption budget."""


READ = Call()
