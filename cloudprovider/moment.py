"""Times as text: RFC 3339 times of Kubernetes and the clouds, and retry times of HTTP answers."""

import re
from datetime import datetime

from cloudprovider.number import parse_count

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_LONGEST_DATE = 64
_LONGEST_WAIT_S = 3600.0


def parse_time(text: str) -> datetime:
    """Return an RFC 3339 time, as Go's layout of that name reads it, of the years 1 to 9999; digits beyond microseconds
    are passed over.

    Raises `ValueError` with what is wrong and how to write it; the message follows the text.
    """
    try:
        if _RFC3339.fullmatch(text) is not None:
            return datetime.fromisoformat(text)
    except ValueError:
        pass  # a month of 13, a day that the month does not have
    raise ValueError("is not a time with a zone; write for example 2026-01-05T12:00:00Z")


def retry_after_s(text: str | None, date: str | None = None) -> float | None:
    """Return how long the header `Retry-After` asks us to wait: seconds, or an HTTP date; an hour at most.

    `date` is the header `Date` of the same answer. A date counts from it, so that the local clock does not matter. None
    if the header is not usable.
    """
    text = (text or "").strip()
    if text.isascii() and text.isdecimal():
        seconds = parse_count(text)
        return _LONGEST_WAIT_S if seconds is None else min(float(seconds), _LONGEST_WAIT_S)
    until, now = http_date(text), http_date(date or "")
    if until is None or now is None:
        return None
    return max(0.0, min((until - now).total_seconds(), _LONGEST_WAIT_S))


def http_date(text: str) -> datetime | None:
    """Return the time of an HTTP header such as `Date`; None if it is invalid or has no time zone."""
    if not text.isascii() or len(text) > _LONGEST_DATE:
        return None
    from email.utils import parsedate_to_datetime  # a dozen modules, for one header

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return moment if moment.tzinfo is not None else None
