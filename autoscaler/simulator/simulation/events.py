"""What happens to a simulated cluster at chosen moments."""

from typing import Any

from cloudprovider.static.file import FileVersion
from cloudprovider.structure import Strict, key_of

_STATUSES = ("True", "False", "Unknown")


class Interruption(Strict, frozen=True, kw_only=True):
    """The cloud takes machines back."""

    group: str
    nodes: int = 1
    notice: str = ""
    """How long before that the cloud announces it; empty: it does not."""


class Unhealthy(Strict, frozen=True, kw_only=True):
    """Nodes that get a condition, the oldest first. With `Ready=Unknown` their kubelet is dead from then on."""

    group: str
    nodes: int = 1
    condition: str = "Ready=Unknown"


class Release(Strict, frozen=True, kw_only=True):
    """A group makes other machines from now on."""

    group: str
    versions: list[FileVersion]


class ScheduledEvent(Strict, frozen=True, kw_only=True):
    """An event that happens once or again and again."""

    at: str
    every: str = ""
    api_down: str = ""
    """How long the autoscaler cannot reach the API server."""
    leader_lost: str = ""
    """The replica loses its lease; another replica leads after this time."""
    restart: str = ""
    """The process is killed; it starts again after this time."""
    clock_jump: str = ""
    """How far the wall clock of the autoscaler's machine jumps; `-` means back."""
    interruption: Interruption | None = None
    unhealthy: Unhealthy | None = None
    release: Release | None = None
    apply: list[dict[str, Any]] = []
    """Objects to create or change."""

    @property
    def happens(self) -> bool:
        """Whether it is more than a moment."""
        return any(getattr(self, field) for field in _HAPPENING_FIELDS)


_HAPPENING_FIELDS = (
    "api_down",
    "leader_lost",
    "restart",
    "clock_jump",
    "interruption",
    "unhealthy",
    "release",
    "apply",
)
HAPPENINGS = tuple(map(key_of, _HAPPENING_FIELDS))
"""Keys of an event, one of which it needs."""


def condition_and_status(text: str) -> tuple[str, str]:
    """Read `Ready=Unknown`; raises `ValueError`."""
    condition, _, status = text.partition("=")
    if not condition or status not in _STATUSES:
        raise ValueError(f"{text!r} is not a condition with True, False or Unknown, such as Ready=Unknown")
    return condition, status
