"""The section about pod starts of the status page; `/status/starts` has more."""

from collections import Counter
from collections.abc import Callable

from autoscaler.eta.status import Accuracy, EtaStatus
from autoscaler.observe.figures import count, duration, percent
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.section import CompanionSection, SectionContent
from autoscaler.observe.page.table import Column, row_count_text, table
from autoscaler.observe.reason_table import TABLE
from autoscaler.reasons import UnknownStart

_MOST_GROUPS = 5
_COLUMNS = (
    Column("Node group"),
    Column("Boots seen", "n"),
    Column("Half within", "n"),
    Column("90% within", "n"),
)


def starts_block(status: Callable[[], EtaStatus]) -> CompanionSection:
    """Return the section; `status` returns the state after the last pass."""
    return CompanionSection("Starts", "/api/v1/eta", lambda _, all_link: _shown(status(), all_link))


def _shown(status: EtaStatus, all_link: str | None) -> SectionContent:
    if status.computed_at is None:
        return SectionContent(
            html('<p class="muted">{}</p>', "There are no estimates yet: only the leader makes them.")
        )
    reasons = Counter(estimate.reason for estimate in status.estimates.values() if estimate.reason is not None)
    parts = (
        html("<p>{}</p>", _accuracy(status.accuracy)),
        html("<p>{}</p>", _pending(status, reasons)) if status.estimates else NOTHING,
        _boots(status, all_link) if status.boots else NOTHING,
        html('<p class="small"><a href="/status/starts">{}</a></p>', "Capacity, groups and active pods"),
    )
    return SectionContent(joined(parts))


def _accuracy(accuracy: Accuracy) -> str:
    if not accuracy.pods:
        return "No pod with an estimate has become ready yet."
    within, off = percent(accuracy.within_worst / accuracy.pods), duration(accuracy.abs_error_s / accuracy.pods)
    return f"Of {count(accuracy.pods, 'pod')}, {within} were ready by the worst case; off by {off} on average."


def _pending(status: EtaStatus, reasons: Counter[UnknownStart]) -> str:
    known = [estimate for estimate in status.estimates.values() if estimate.expected_s is not None]
    overdue = sum(estimate.overdue for estimate in known)
    parts = [f"{count(len(known), 'pending pod')} with an estimate"]
    parts += [f"{overdue:,} of them overdue"] if overdue else []
    sentences = [", ".join(parts) + "."]
    meanings = TABLE[UnknownStart]
    sentences += [f"{number:,} without: {meanings[reason].text}" for reason, number in reasons.most_common()]
    return " ".join(sentences)


def _boots(status: EtaStatus, all_link: str | None) -> Html:
    """Return how long nodes of each group take, slowest first."""
    groups = sorted(status.boots, key=lambda group: (-status.boots[group].worst, group))
    shown = groups if all_link is None else groups[:_MOST_GROUPS]
    rows = [
        [
            html("<code>{}</code>", group),
            html("{}", f"{len(status.knowledge.boots.get(group, ())):,}"),
            html("{}", duration(status.boots[group].expected)),
            html("{}", duration(status.boots[group].worst)),
        ]
        for group in shown
    ]
    return table(row_count_text("node group", len(shown), len(groups), all_link), _COLUMNS, rows)
