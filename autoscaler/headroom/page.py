"""The pools of headroom on the status page."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from autoscaler.headroom.status import HeadroomStatus, PoolStatus
from autoscaler.observe.figures import count
from autoscaler.observe.meanings import GivenReason
from autoscaler.observe.page.format import ago, until
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.plots import amount_bar
from autoscaler.observe.page.section import CompanionSection, SectionContent
from autoscaler.observe.page.table import Column, chips, glossary, pill, row_count_text, table
from autoscaler.observe.reason_table import OF_POOLS
from autoscaler.reasons import HeadroomTrouble

_MOST_POOLS = 15
_HARMLESS = frozenset({HeadroomTrouble.PAUSED, HeadroomTrouble.DELETION_COST})
"""Problems that the operator accepts, or that do little harm."""
_COLUMNS = (
    Column("Pool"),
    Column("State"),
    Column("Policy"),
    Column("Active pods", "n"),
    Column("Wanted", "n"),
    Column("Target", "n"),
    Column("Pause pods", "size"),
    Column("Reconciled"),
)


def headroom_block(status: Callable[[], HeadroomStatus]) -> CompanionSection:
    """Return the section; `status` returns the result of the last check."""
    return CompanionSection(
        "Headroom", "/api/v1/headroom", lambda now_wall, all_link: _shown(status(), now_wall, all_link)
    )


def _shown(status: HeadroomStatus, now_wall: float, all_link: str | None) -> SectionContent:
    if status.looked_at is None:
        text = "The pools have not been checked yet: only a leader checks them, after a pass has seen the cluster."
        return SectionContent(html('<p class="muted">{}</p>', text))
    if not status.pools:
        return SectionContent(html('<p class="muted">{}</p>', "No pool is configured."))
    ordered = sorted(status.pools, key=_calm)
    shown = ordered if all_link is None else ordered[:_MOST_POOLS]
    states = Counter(word for pool in status.pools for word, _ in _states(pool))
    given: list[GivenReason] = [(reason, OF_POOLS) for pool in shown for reason in (*pool.troubles, pool.reason)]
    parts = (
        chips(states),
        table(
            row_count_text("pool", len(shown), len(ordered), all_link),
            _COLUMNS,
            (_pool_row(pool, now_wall) for pool in shown),
        ),
        glossary(given),
    )
    return SectionContent(joined(parts), _alarm(status.pools))


def _alarm(pools: Sequence[PoolStatus]) -> str:
    wrong = sum(bool(pool.troubles) for pool in pools)
    return f"{count(wrong, 'pool is', 'pools are')} not in order." if wrong else ""


def _calm(pool: PoolStatus) -> tuple[bool, bool, bool]:
    return not pool.troubles, pool.reconciled_at is not None, pool.bound >= pool.target


def _states(pool: PoolStatus) -> Iterator[tuple[str, str]]:
    """Yield words with their tones."""
    if not (pool.troubles or pool.reconciled_at is None or pool.bound < pool.target):
        yield "In order", "good"
    for trouble in pool.troubles:
        yield trouble, "warn" if trouble in _HARMLESS else "bad"
    if pool.reconciled_at is None:
        yield "Never reconciled", "warn"
    if pool.bound < pool.target:
        yield "Short", "warn"


def _pool_row(pool: PoolStatus, now_wall: float) -> list[Html]:
    counts = f"bound {pool.bound:,} · pending {pool.pending:,} · current {pool.replicas:,}"
    bound = f"{pool.bound:,} bound of {pool.target:,}"
    return [
        html('<code>{}</code><span class="sub">{}</span>', pool.name, pool.namespace),
        joined((pill(word, tone) for word, tone in _states(pool)), " "),
        _policy(pool, now_wall),
        html("{}", f"{pool.active:,}"),
        html("{}", f"{pool.desired:,}"),
        html("{}{}", f"{pool.target:,}", _cool_down(pool, now_wall)),
        html(
            '{}<span class="small muted">{}</span>',
            amount_bar(bound, pool.bound, pool.target, max(pool.target, pool.replicas, pool.bound)),
            counts,
        ),
        NOTHING if pool.reconciled_at is None else ago(pool.reconciled_at, now_wall),
    ]


def _policy(pool: PoolStatus, now_wall: float) -> Html:
    """Return the active policy, and the next one if its pods are requested already."""
    if not pool.policy:
        return NOTHING
    early = pool.early
    soon = NOTHING if early is None else html(", for {} in {}", early.policy, until(early.starts_at, now_wall))
    return html('{}<span class="sub">{}{}</span>', pool.policy, pool.reason, soon)


def _cool_down(pool: PoolStatus, now_wall: float) -> Html:
    """Return how long more pods stay than are wanted; empty if there are no more."""
    if pool.lower_at is None or pool.target <= pool.desired:
        return NOTHING
    return html('<span class="sub">for another {}</span>', until(pool.lower_at, now_wall))
