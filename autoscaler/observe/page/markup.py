"""HTML templates that escape every value unless it is markup already."""

from collections.abc import Iterable
from html import escape

from autoscaler.printable import spelled_out


class Html(str):
    """Text that is safe to send as HTML."""

    __slots__ = ()


NOTHING = Html("")


def html(template: str, *values: object) -> Html:
    """Fill the `{}` of a template; `template` must be a literal. None shows as nothing."""
    return Html(template.format(*(_safe(value) for value in values)))


def joined(parts: Iterable[Html], between: str = "") -> Html:
    """Concatenate markup; `between` must be a literal."""
    return Html(between.join(parts))


def _safe(value: object) -> str:
    if isinstance(value, Html):
        return value
    return "" if value is None else escape(spelled_out(str(value)))
