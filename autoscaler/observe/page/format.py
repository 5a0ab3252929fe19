"""Formats times as HTML, with the exact time as a tooltip."""

from datetime import UTC, datetime

from autoscaler.observe.figures import duration
from autoscaler.observe.http.public_json import rfc3339
from autoscaler.observe.page.markup import Html, html


def moment(wall: float) -> Html:
    """Return date and time in UTC."""
    return _stamped(wall, f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d %H:%M:%S} UTC")


def ago(wall: float, now_wall: float) -> Html:
    """Return the time since a moment, with the exact time as a tooltip."""
    return _stamped(wall, f"{duration(max(0.0, now_wall - wall))} ago")


def lasting(since_wall: float, now_wall: float) -> Html:
    """Return the time since a beginning, with the exact time as a tooltip."""
    return _stamped(since_wall, duration(max(0.0, now_wall - since_wall)))


def until(wall: float, now_wall: float) -> Html:
    """Return the time until a moment, with the exact time as a tooltip."""
    return _stamped(wall, duration(max(0.0, wall - now_wall)))


def _stamped(wall: float, text: str) -> Html:
    exact = rfc3339(wall)
    return html('<time datetime="{}" title="{}">{}</time>', exact, exact, text)
