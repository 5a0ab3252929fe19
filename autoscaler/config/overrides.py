"""Scheduled overrides: periods, single or recurring, with another minimum for a target.

Source: the scheduled overrides of actions-runner-controller's `HorizontalRunnerAutoscaler`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

from autoscaler.config.syntax import OptionalNumber, choice
from cloudprovider.moment import parse_time
from cloudprovider.structure import Strict, Syntax

_DAY_S = 86_400.0


class Frequency(StrEnum):
    """How often an override comes again."""

    DAILY = "Daily"
    WEEKLY = "Weekly"
    MONTHLY = "Monthly"
    YEARLY = "Yearly"


_SHORTEST_S = {
    Frequency.DAILY: _DAY_S,
    Frequency.WEEKLY: 7 * _DAY_S,
    Frequency.MONTHLY: 28 * _DAY_S,
    Frequency.YEARLY: 365 * _DAY_S,
}
"""The shortest time between two beginnings."""


Time = Annotated[datetime, Syntax("time", parse_time, lambda moment: moment.isoformat())]


class Recurrence(Strict, frozen=True, kw_only=True):
    """How an override comes again; a day that a month does not have is left out."""

    frequency: Annotated[Frequency, choice(Frequency)]
    until_time: Time | None = None
    """No occurrence begins after it."""


class Override(Strict, frozen=True, kw_only=True):
    """Another floor from `start_time` on, which is in, until `end_time`, which is not."""

    start_time: Time
    end_time: Time
    min_replicas: OptionalNumber = None
    """None: the floor stays."""
    recurrence_rule: Recurrence | None = None

    def active(self, wall: float) -> bool:
        """Whether it holds at a time (Unix seconds)."""
        return self.window(wall) is not None

    def window(self, wall: float) -> tuple[float, float] | None:
        """Return beginning and end of the occurrence that holds at a time (Unix seconds); None: it does not hold."""
        now, length = datetime.fromtimestamp(wall, UTC), self.end_time - self.start_time
        began = next((start for start in self._starts(now) if start <= now < start + length), None)
        return None if began is None else (began.timestamp(), (began + length).timestamp())

    def changes(self, after: float, until: float) -> Iterator[float]:
        """Yield its beginnings and ends after one time, up to another at most a period later (Unix seconds)."""
        length_s = (self.end_time - self.start_time).total_seconds()
        around = (datetime.fromtimestamp(wall, UTC) for wall in (after, until))
        for start in {start.timestamp() for moment in around for start in self._starts(moment)}:
            yield from (change for change in (start, start + length_s) if after < change <= until)

    def _starts(self, now: datetime) -> Iterator[datetime]:
        """Yield the beginnings that may concern `now`: it holds no longer than its period."""
        rule, first = self.recurrence_rule, self.start_time
        if rule is None or now < first:
            yield first
            return
        for number in _numbers(rule.frequency, first, now):
            start = _shifted(first, rule.frequency, number)
            if number >= 0 and start is not None and (rule.until_time is None or start <= rule.until_time):
                yield start


def problems(overrides: tuple[Override, ...], path: str) -> Iterator[str]:
    """Yield a line for everything that makes overrides unusable."""
    for index, override in enumerate(overrides):
        length_s = (override.end_time - override.start_time).total_seconds()
        if length_s <= 0:
            yield f"{path}[{index}].endTime: is not after startTime"
        if override.min_replicas is not None and override.min_replicas < 0:
            yield f"{path}[{index}].minReplicas: {override.min_replicas} is less than 0"
        if override.recurrence_rule is not None and length_s > _SHORTEST_S[override.recurrence_rule.frequency]:
            period = override.recurrence_rule.frequency
            yield f"{path}[{index}].endTime: the override is longer than its {period} period"


def _numbers(frequency: Frequency, first: datetime, now: datetime) -> range:
    if frequency in (Frequency.DAILY, Frequency.WEEKLY):
        last = int((now - first).total_seconds() // _SHORTEST_S[frequency])
        return range(last - 1, last + 1)
    local = now.astimezone(first.tzinfo)
    years = local.year - first.year
    last = years if frequency is Frequency.YEARLY else 12 * years + local.month - first.month
    return range(last - 1, last + 1)


def _shifted(first: datetime, frequency: Frequency, number: int) -> datetime | None:
    """Return the beginning after `number` periods; None if that day does not exist."""
    if frequency in (Frequency.DAILY, Frequency.WEEKLY):
        return first + number * timedelta(seconds=_SHORTEST_S[frequency])
    months = first.month - 1 + number * (12 if frequency is Frequency.YEARLY else 1)
    try:
        return first.replace(year=first.year + months // 12, month=months % 12 + 1)
    except ValueError:
        return None
