"""Cron expressions of five fields, and the periods that they describe where they stand for minutes, not for moments.

A period holds exactly while the local minute matches, so minutes that a change of the clocks leaves out never match and
those that it repeats match twice. Day of month and day of week, where neither begins with `*`, suffice either of them,
as in cron. `cronsim` knows the syntax, which is Debian's with `L`, `LW` and `#`.
"""

from datetime import datetime
from functools import lru_cache

import msgspec
from cronsim import CronSim, CronSimError

_LONGEST_TEXT = 1000
_SOME_DAY = datetime(2000, 1, 1)
_FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day of month": "the days 1-31 of those months",
    "month": "1-12 or jan-dec",
    "day of week": "0-7 or sun-sat",
}
"""The fields in order, and what each holds."""


class Period(msgspec.Struct, frozen=True):
    """Minutes of the local wall clock."""

    text: str

    def holds(self, local: datetime) -> bool:
        """Whether a local time lies in a minute of the period."""
        cron = _parsed(self.text)
        in_minute = local.minute in cron.minutes and local.hour in cron.hours and local.month in cron.months
        return in_minute and bool(cron.match_day(local.date()))

    @property
    def always(self) -> bool:
        """Whether it holds at every minute."""
        cron = _parsed(self.text)
        weekdays = {day % 7 for day in cron.weekdays if isinstance(day, int)}
        every_month, every_week = cron.days >= {*range(1, 32)}, len(weekdays) == 7
        every_day = every_month and every_week if cron.day_and else every_month or every_week
        return len(cron.minutes) == 60 and len(cron.hours) == 24 and len(cron.months) == 12 and every_day


def parse_period(text: str) -> Period:
    """Read a period; `ValueError` as `check_cron`."""
    check_cron(text)
    return Period(text)


def check_cron(text: str) -> None:
    """Raise `ValueError` where a text is not five cron fields: it names the field that is wrong and what it holds."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"has {len(text)} characters; write at most {_LONGEST_TEXT}")
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"is not five fields but {len(parts)}; write {', '.join(_FIELDS)}")
    try:
        _parsed(text)
    except CronSimError as error:
        name = str(error).removeprefix("Bad ").replace("-", " ")
        wrong = parts[list(_FIELDS).index(name)]
        raise ValueError(
            f"{name}: {wrong} is not within {_FIELDS[name]}; "
            "write a value, a-b or *, the last two with /step if need be, or a list of those"
        ) from None


@lru_cache(maxsize=256)
def _parsed(text: str) -> CronSim:
    return CronSim(text, _SOME_DAY)
