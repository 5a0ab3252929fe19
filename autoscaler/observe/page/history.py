"""Recent decisions and events on the status page."""

from collections.abc import Sequence

from autoscaler.observe.figures import count
from autoscaler.observe.page.format import ago
from autoscaler.observe.page.markup import NOTHING, Html, html
from autoscaler.observe.page.table import Column, and_others, pill, table
from autoscaler.observe.status import Decision, RecentEvent

_MAX_DECISIONS = 10
_MAX_EVENTS = 15
_SHOWN_ELSEWHERE = frozenset(("ScaledUpGroup", "TriggeredScaleUp", "NotTriggerScaleUp", "ScaleDown", "ScaleDownEmpty"))


def decisions_table(history: Sequence[Decision], now_wall: float) -> Html:
    """Return the newest decisions, newest first."""
    shown = history[::-1][:_MAX_DECISIONS]
    columns = (
        Column("When", "brief"),
        Column("Nodes", "n"),
        Column("Node group"),
        Column("Pods", "n"),
        Column("Result"),
        Column("Why", "wide"),
    )
    rows = (
        (
            ago(decision.at, now_wall),
            html("{}", f"{decision.delta:+d}".replace("-", "\N{MINUS SIGN}")),
            html("<code>{}</code>", decision.group),
            html("{}", decision.pods),
            pill(decision.result, "bad") if decision.failed else html("{}", decision.result),
            html("{}", decision.detail),
        )
        for decision in shown
    )
    caption = html("The newest {} of {}", len(shown), f"{len(history):,}") if len(shown) < len(history) else NOTHING
    return table(caption or html("{}", count(len(history), "decision")), columns, rows)


def other_events(events: Sequence[RecentEvent]) -> list[RecentEvent]:
    """Return the events that say what the page does not show as a decision or a pending pod."""
    return [event for event in events if event.kind == "Warning" or event.reason not in _SHOWN_ELSEWHERE]


def events_table(events: Sequence[RecentEvent], now_wall: float) -> Html:
    """Return the newest events, newest first; equal events about several objects share a row."""
    grouped: dict[tuple[str, str, str], list[RecentEvent]] = {}
    for event in reversed(events):
        grouped.setdefault((event.kind, event.reason, event.message), []).append(event)
    shown = list(grouped.values())[:_MAX_EVENTS]
    columns = (Column("When", "brief"), Column("Reason", "brief"), Column("Message"))
    rows = (
        (
            ago(row[0].at, now_wall),
            pill(row[0].reason, "warn" if row[0].kind == "Warning" else ""),
            html('{}<span class="sub">{}{}</span>', row[0].message, row[0].about, and_others(row)),
        )
        for row in shown
    )
    return table(html("The newest {}", count(sum(len(row) for row in shown), "event")), columns, rows)
