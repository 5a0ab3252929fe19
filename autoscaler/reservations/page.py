"""The targets of reservations on the status page."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from autoscaler.observe.figures import count
from autoscaler.observe.meanings import GivenReason
from autoscaler.observe.page.format import until
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.section import CompanionSection, SectionContent
from autoscaler.observe.page.table import Column, chips, glossary, pill, row_count_text, table
from autoscaler.observe.reason_table import OF_TARGETS
from autoscaler.reservations.status import TargetStatus

_MOST_TARGETS = 15
_COLUMNS = (
    Column("Target"),
    Column("State"),
    Column("Active", "n"),
    Column("Queued", "n"),
    Column("Virtual pods", "n"),
    Column("Without room"),
    Column("Next expiry", "n"),
    Column("To be stored", "n"),
    Column("At least", "n"),
    Column("Override"),
)


def reservations_block(targets: Callable[[], Sequence[TargetStatus]]) -> CompanionSection:
    """Return the section; `targets` returns the status of all targets."""
    return CompanionSection(
        "Reservations", "/api/v1/reservations", lambda now_wall, all_link: _shown(targets(), now_wall, all_link)
    )


def _shown(targets: Sequence[TargetStatus], now_wall: float, all_link: str | None) -> SectionContent:
    if not targets:
        return SectionContent(html('<p class="muted">{}</p>', "No target is configured."))
    ordered = sorted(targets, key=_calm)
    shown = ordered if all_link is None else ordered[:_MOST_TARGETS]
    states = Counter(word for target in targets for word, _ in _states(target))
    given: list[GivenReason] = [(reason, OF_TARGETS) for target in shown for reason in target.unplaceable]
    rows = (_target_row(target, now_wall) for target in shown)
    parts = (
        chips(states),
        table(row_count_text("target", len(shown), len(ordered), all_link), _COLUMNS, rows),
        glossary(given),
    )
    return SectionContent(joined(parts), _alarm(targets))


def _alarm(targets: Sequence[TargetStatus]) -> str:
    wrong = sum(bool(target.degraded) for target in targets)
    what = "the stored state cannot be read, so it stays unchanged"
    return f"{count(wrong, 'target takes', 'targets take')} no announcements: {what}." if wrong else ""


def _calm(target: TargetStatus) -> tuple[bool, bool, bool, bool]:
    return not target.degraded, target.loaded, not target.unplaceable, not target.queued


def _states(target: TargetStatus) -> Iterator[tuple[str, str]]:
    """Yield words with their tones."""
    if target.degraded:
        yield "Read-only", "bad"
    elif not target.loaded:
        yield "Not read yet", "warn"
    elif not (target.unplaceable or target.queued):
        yield "In order", "good"
    if target.unplaceable:
        yield "Without room", "warn"
    if target.queued:
        yield "Queueing", "warn"


def _target_row(target: TargetStatus, now_wall: float) -> list[Html]:
    pills = [pill(word, tone) for word, tone in _states(target)]
    slots = "any number" if target.slots is None else count(target.slots, "slot")
    used = f"planned {target.planned:,}, real {target.real:,}"
    return [
        html("<code>{}</code>", target.name),
        joined((*pills, html('<span class="sub">{}</span>', target.degraded) if target.degraded else NOTHING), " "),
        html('{}<span class="sub">of {}</span>', f"{target.active:,}", slots),
        html("{}", f"{target.queued:,}"),
        html('{}<span class="sub">{}</span>', f"{target.virtual:,}", used),
        _without_room(target),
        NOTHING if target.next_expiry_at is None else html("in {}", until(target.next_expiry_at, now_wall)),
        html("{}", f"{target.backlog:,}") if target.backlog else NOTHING,
        html("{}", f"{target.floor:,}"),
        _override(target, now_wall),
    ]


def _without_room(target: TargetStatus) -> Html:
    return joined((html("{}: {}", reason, f"{pods:,}") for reason, pods in target.unplaceable.items()), ", ")


def _override(target: TargetStatus, now_wall: float) -> Html:
    """Return the floor of the active override, and the floor of the next one if it counts already."""
    parts = []
    if target.override is not None:
        ends = until(target.override.ends_at, now_wall)
        parts.append(html("at least {} for another {}", f"{target.floor:,}", ends))
    if target.early is not None:
        starts = until(target.early.starts_at, now_wall)
        parts.append(html("planned for {} in {}", f"{target.early.floor:,}", starts))
    return joined(parts, ", ")
