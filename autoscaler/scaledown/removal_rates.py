"""Limits how many removals may start within any minute.

A removal counts from its beginning, whether it succeeds or fails. Removals before the start of the process are unknown:
the limit counts as used up then, so that neither a restart nor a change of leader lets more nodes go.
"""

from collections.abc import Iterable

from autoscaler.clock import Instant
from autoscaler.config.syntax import GroupLimit
from autoscaler.scaledown.memory import RATE_SPAN_S, ScaleDownMemory


class Rates:
    """What the limits of cluster and groups leave. Only `take` changes it."""

    def __init__(self, limits: Iterable[GroupLimit], memory: ScaleDownMemory, now: Instant) -> None:
        self._now = now.mono
        self._limits = tuple((limit, _counted(limit, memory, now)) for limit in limits)

    def wait_s(self, group: str, count: int) -> float:
        """Return in how many seconds `count` removals of a group may begin at once; 0: now.

        More than a limit may begin only where nothing else did within the minute: otherwise a large atomic group would
        never go.
        """
        free_at = (_free_at(limit.most, moments, count) for limit, moments in self._of(group))
        return max(0.0, max(free_at, default=self._now) - self._now)

    def take(self, group: str, count: int) -> None:
        """Count removals that begin now."""
        for _, moments in self._of(group):
            moments += [self._now] * count

    def _of(self, group: str) -> Iterable[tuple[GroupLimit, list[float]]]:
        return ((limit, moments) for limit, moments in self._limits if limit.group in (None, group))


def _counted(limit: GroupLimit, memory: ScaleDownMemory, now: Instant) -> list[float]:
    """Return when (monotonic seconds) removals began that count still, oldest first."""
    unknown = [memory.since.mono] * limit.most if memory.since is not None else []
    known = [removal.at.mono for removal in memory.begun if limit.group in (None, removal.group)]
    return [moment for moment in (*unknown, *known) if moment + RATE_SPAN_S > now.mono]


def _free_at(most: int, moments: list[float], count: int) -> float:
    """Return when `count` more fit: `moments` are those that count, oldest first."""
    may_remain = max(0, most - count)
    return moments[-may_remain - 1] + RATE_SPAN_S if len(moments) > may_remain else float("-inf")
