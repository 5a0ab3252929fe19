"""How one call to the API server is made."""

from collections.abc import Callable

import msgspec

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

SendGuard = Callable[[], float]
"""Called right before each sending: returns how many seconds the call may take, or raises to forbid it."""


class Call(msgspec.Struct, frozen=True):
    """How one call is made; the defaults suit a small read."""

    timeout_s: float = 30.0
    accept: str = JSON
    urgent: bool = False
    """Do not queue behind the rate limit: lists, watches and the lease."""
    repeatable: bool = True
    """May be sent again when the server asks for patience (429): it changes nothing twice."""
    guard: SendGuard | None = None
    eviction: bool = False
    """Read 429 as a disruption budget's refusal."""


READ = Call()
