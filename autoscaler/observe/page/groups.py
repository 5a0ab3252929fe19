"""The node groups on the status page."""

from collections import Counter
from collections.abc import Iterator, Sequence

from autoscaler.observe.cost import money
from autoscaler.observe.figures import cpus, gib
from autoscaler.observe.page.format import until
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.plots import size_bar
from autoscaler.observe.page.table import Column, chips, pill, row_count_text, table
from autoscaler.observe.status import GroupStatus, Health, ScaleUpActivity, TemplateSummary

_MAX_GROUPS = 15


def groups_table(groups: Sequence[GroupStatus], currency: str, now_wall: float, all_link: str | None) -> Html:
    """Return the node groups, those that need attention first; a long table is cut.

    `all_link` leads to the page with all rows; None if this is that page.
    """
    ordered = sorted(groups, key=_by_urgency)
    shown = ordered if all_link is None else ordered[:_MAX_GROUPS]
    columns = (
        Column("Node group"),
        Column("State"),
        Column("Size", "size"),
        Column("Ready", "n"),
        Column("Upcoming", "n"),
        Column("Unregistered", "n"),
        Column(f"Cost per hour, {currency}" if currency else "Cost per hour", "n"),
    )
    rows = (_group_row(group, now_wall) for group in shown)
    states = Counter(word for group in groups for word, _ in _group_states(group))
    return joined(
        (chips(states), table(row_count_text("node group", len(shown), len(groups), all_link), columns, rows))
    )


def _by_urgency(group: GroupStatus) -> tuple[bool, bool, bool]:
    scope = group.scope
    return scope.health.status == Health.HEALTHY, group.backoff is None, not _is_scaling_up(group)


def _is_scaling_up(group: GroupStatus) -> bool:
    return group.scope.scale_up.status == ScaleUpActivity.IN_PROGRESS


def _group_row(group: GroupStatus, now_wall: float) -> list[Html]:
    counts = group.scope.counts
    unregistered = counts.unregistered + counts.long_unregistered
    return [
        html("<code>{}</code>{}", group.id, _template(group.template)),
        _group_state(group, now_wall),
        html(
            '{}<span class="small muted">min {} · target {} · max {}</span>',
            size_bar(group.min_size, counts.ready, group.target_size, group.max_size),
            f"{group.min_size:,}",
            f"{group.target_size:,}",
            f"{group.max_size:,}",
        ),
        html("{}", f"{counts.ready:,}"),
        html("{}", f"{group.upcoming:,}"),
        html("{}", f"{unregistered:,}") if unregistered else NOTHING,
        NOTHING if group.node_price is None else _cost(group.node_price, group.target_size),
    ]


def _cost(price: float, machines: int) -> Html:
    return html('{}<span class="sub">{} each</span>', money(price * machines), money(price))


def _template(template: TemplateSummary | None) -> Html:
    if template is None:
        return NOTHING
    gpus = f"{template.gpus} GPU" if template.gpus else None
    size = f"{cpus(template.cpu_milli)} CPU, {gib(template.memory_bytes)} GiB"
    parts = [part for part in (template.instance_type, template.zone, size, gpus) if part]
    return html('<span class="sub">{}</span>', " · ".join(parts))


def _group_states(group: GroupStatus) -> Iterator[tuple[str, str]]:
    """Yield words with their tones."""
    health = group.scope.health.status
    yield health.value, "good" if health == Health.HEALTHY else "bad"
    if _is_scaling_up(group):
        yield "Scaling up", "warn"
    if group.backoff is not None:
        yield "Backed off", "bad"


def _group_state(group: GroupStatus, now_wall: float) -> Html:
    parts = [pill(word, tone) for word, tone in _group_states(group)]
    if group.backoff is not None:
        parts.append(
            html(
                '<span class="sub">{} for another {}{}</span>',
                group.backoff.code or "unknown error",
                until(group.backoff.until_at, now_wall),
                f": {group.backoff.message}" if group.backoff.message else "",
            )
        )
    return joined(parts, " ")
