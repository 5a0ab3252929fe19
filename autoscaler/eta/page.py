"""The page `/status/starts`: one HTML document without scripts."""

from autoscaler.eta.status import EtaStatus, active_rows
from autoscaler.objects import quantity
from autoscaler.observe.figures import duration
from autoscaler.observe.http.routing import Response
from autoscaler.observe.page.capacity import cpu_line, memory_line
from autoscaler.observe.page.document import PageOptions, document, page_response, refresh_text
from autoscaler.observe.page.format import lasting
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.table import Column, table
from autoscaler.observe.summary import capacity_of
from autoscaler.snapshot.cluster import ClusterView


def starts_page(status: EtaStatus, wall: float, options: PageOptions) -> Response:
    """Return the document."""
    if status.view is None or status.capacity is None:
        body = html("<p>No pass has finished yet, or this replica is on standby.</p>")
    else:
        body = joined((_capacity(status.view), _groups(status), _active(status, wall, options)))
    text = html(
        '<header><h1>Capacity and starts</h1><p class="small muted">{}</p></header><main>{}</main>'
        '<footer><p><a href="/status">Status</a></p></footer>',
        refresh_text(options),
        body,
    )
    return page_response(document("Starts", options, text))


def _capacity(view: ClusterView) -> Html:
    cpu, memory = capacity_of(view, quantity.CPU), capacity_of(view, quantity.MEMORY)
    return html("<section><h2>Capacity</h2><p>{}</p><p>{}</p></section>", cpu_line(cpu), memory_line(memory))


def _groups(status: EtaStatus) -> Html:
    if status.outcome is None:
        return NOTHING
    names = ("Node group", "Ready", "Upcoming", "Expected in", "Target", "Min", "Max", "Boot p50", "Boot p90")
    columns = [Column(name, "" if index == 0 else "n") for index, name in enumerate(names)]
    rows = []
    for group in status.outcome.view.groups.all:
        state = status.outcome.registry.groups.get(group.id)
        upcoming = sorted(
            estimate.expected_s
            for estimate in status.estimates.values()
            if estimate.group == group.id and estimate.expected_s is not None
        )
        boot = status.knowledge.boot(group.id)
        target = group.target_size if state is None else state.acceptable.target
        rows.append(
            (
                html("<code>{}</code>", group.id),
                html("{}", 0 if state is None else len(state.buckets.ready)),
                html("{}", 0 if state is None else state.upcoming),
                html("{}", duration(upcoming[0])) if upcoming else NOTHING,
                html("{}", target),
                html("{}", group.min_size),
                html("{}", group.max_size),
                NOTHING if boot.assumed else html("{}", duration(boot.spread.expected)),
                NOTHING if boot.assumed else html("{}", duration(boot.spread.worst)),
            )
        )
    return html("<section><h2>Node groups</h2>{}</section>", table(html("{}", len(rows)), columns, rows))


def _active(status: EtaStatus, wall: float, options: PageOptions) -> Html:
    assert status.view is not None
    rows = active_rows(status.view, everything=options.all_rows)
    if not rows:
        return NOTHING
    lines = joined(
        html("<li>{}</li>", name) if since is None else html("<li>{}, {}</li>", name, lasting(since, wall))
        for name, since in rows
    )
    everything = options.all_rows_link
    link = NOTHING if everything is None else html('<p><a href="{}">All</a></p>', everything)
    return html("<section><h2>Active pods</h2><ul>{}</ul>{}</section>", lines, link)
