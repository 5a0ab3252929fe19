"""Periods: five cron fields that say during which minutes of the local wall clock something holds.

Not moments of firing: a period holds exactly while the local minute matches, so minutes that a change of the clocks
leaves out never match and those that it repeats match twice. Day of month and day of week, where neither begins with
`*`, suffice either of them, as in cron.
"""

import re
from collections.abc import Mapping
from datetime import datetime

import msgspec

from cloudprovider.number import parse_count

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_PART = re.compile(r"(?:(?P<star>\*)|(?P<low>[0-9a-z]+)(?:-(?P<high>[0-9a-z]+))?)(?:/(?P<step>[0-9]{1,3}))?")
_LONGEST_TEXT = 1000
_LONGEST_MONTH = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


class _Field(msgspec.Struct, frozen=True):
    name: str
    low: int
    high: int
    words: Mapping[str, int] = {}

    @property
    def allowed(self) -> str:
        words = tuple(self.words)
        return f"{self.low}-{self.high}" + (f" or {words[0]}-{words[-1]}" if words else "")


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)


class Period(msgspec.Struct, frozen=True):
    """Minutes of the local wall clock; weekdays count from Sunday, 0."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether day of month or day of week is enough."""

    def holds(self, local: datetime) -> bool:
        """Whether a local time lies in a minute of the period."""
        if local.minute not in self.minutes or local.hour not in self.hours or local.month not in self.months:
            return False
        by_month, by_week = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either_day else by_month and by_week

    @property
    def always(self) -> bool:
        """Whether it holds at every minute."""
        every_month, every_week = len(self.days) == 31, len(self.weekdays) == 7
        every_day = every_month or every_week if self.either_day else every_month and every_week
        return len(self.minutes) == 60 and len(self.hours) == 24 and len(self.months) == 12 and every_day

    @property
    def never(self) -> bool:
        """Whether it holds at no minute: no month of it has a day of it."""
        some_day = any(day <= _LONGEST_MONTH.get(month, 31) for month in self.months for day in self.days)
        return not (some_day or self.either_day)


def parse_period(text: str) -> Period:
    """Read five cron fields; `ValueError` names the field that is wrong and what may stand there."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"has {len(text)} characters; write at most {_LONGEST_TEXT}")
    parts = text.split()
    if len(parts) != len(_FIELDS):
        names = ", ".join(field.name for field in _FIELDS)
        raise ValueError(f"is not five fields but {len(parts)}; write {names}")
    sets = [_values(field, part) for field, part in zip(_FIELDS, parts, strict=True)]
    minutes, hours, days, months, weekdays = sets
    either = not parts[2].startswith("*") and not parts[4].startswith("*")
    return Period(text, minutes, hours, days, months, frozenset(day % 7 for day in weekdays), either)


def _values(field: _Field, text: str) -> frozenset[int]:
    return frozenset(value for part in text.split(",") for value in _part(field, part))


def _part(field: _Field, text: str) -> range:
    match = _PART.fullmatch(text.lower())
    if match is None or (match["step"] and not (match["star"] or match["high"])):
        raise ValueError(f"{field.name}: {text} is not a value, a-b, * or one of the last two with /step{_of(field)}")
    if match["step"] and int(match["step"]) == 0:
        raise ValueError(f"{field.name}: a step of 0 leads nowhere in {text}; write 1 or more{_of(field)}")
    step = int(match["step"] or 1)
    if match["star"]:
        high = 6 if field.words is _DAYS else field.high
        return range(field.low, high + 1, step)
    low = _value(field, match["low"])
    high = low if match["high"] is None else _value(field, match["high"])
    if low > high:
        raise ValueError(f"{field.name}: {text} runs backwards; write the smaller one first, or a list{_of(field)}")
    return range(low, high + 1, step)


def _value(field: _Field, text: str) -> int:
    value = field.words.get(text)
    if value is None:
        value = parse_count(text, field.high)
    if value is None or not field.low <= value <= field.high:
        raise ValueError(f"{field.name}: {text} is not within {field.allowed}")
    return value


def _of(field: _Field) -> str:
    return f" (allowed: {field.allowed})"
