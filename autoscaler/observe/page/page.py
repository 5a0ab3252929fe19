"""The status page: one HTML document that works without scripts, refreshes itself, and loads nothing else."""

from collections.abc import Iterable, Sequence
from typing import Annotated
from urllib.parse import urlencode

import msgspec

from autoscaler.observe.http.health import OK, HealthResult
from autoscaler.observe.page.format import lasting, moment
from autoscaler.observe.page.groups import groups_table
from autoscaler.observe.page.history import decisions_table, events_table
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.nodes import nodes_table
from autoscaler.observe.page.plots import timeline
from autoscaler.observe.page.pods import pods_table
from autoscaler.observe.page.section import CompanionSection, SectionContent
from autoscaler.observe.page.style import STYLE
from autoscaler.observe.page.table import pill
from autoscaler.observe.page.tiles import capacity_bars, tiles
from autoscaler.observe.status import (
    Health,
    ProcessStatus,
    PublishedStatus,
    StatusView,
    UndecodedKind,
)

DEFAULT_REFRESH_S = 15
_MAX_REFRESH_S = 3600
_DATA = ("status", "groups", "nodes", "pods", "plans", "openapi.json")
_SECTIONS = ("Node groups", "Pending pods", "Decisions", "Events")
_LAST_SECTION = "Nodes"

Sections = Sequence[tuple[str, SectionContent]]
"""The sections of companions by their titles."""


class PageOptions(msgspec.Struct, frozen=True, rename={"all_rows": "all", "refresh_s": "refresh"}):
    """Options from the URL of the page."""

    all_rows: Annotated[bool, msgspec.Meta(description="Whether to show every row.")] = False
    refresh_s: Annotated[
        int,
        msgspec.Meta(ge=0, le=_MAX_REFRESH_S, description="Seconds after which the page reloads; 0 means never."),
    ] = DEFAULT_REFRESH_S

    def link(self, *, all_rows: bool, refresh_s: int) -> str:
        """Return the relative address of the page with other options."""
        changed = [("all", 1 if all_rows else 0, 0), ("refresh", refresh_s, DEFAULT_REFRESH_S)]
        return "?" + urlencode([(name, value) for name, value, default in changed if value != default])


def status_page(
    view: StatusView,
    now_wall: float,
    options: PageOptions,
    alive: HealthResult = OK,
    companions: Sequence[CompanionSection] = (),
    complaints: Sequence[str] = (),
) -> Html:
    """Return the whole document.

    `alive` is the result of the health check, `companions` holds their sections, `complaints` are problems with the API
    server.
    """
    status = view.status
    all_rows_link = None if options.all_rows else options.link(all_rows=True, refresh_s=options.refresh_s)
    sections = [(companion.title, companion.show(now_wall, all_rows_link)) for companion in companions]
    body = joined(
        (
            _header(status, now_wall, options, joined((_notices(status, alive, complaints), _alarms(sections)))),
            NOTHING if status.last_pass is None else _contents(title for title, _ in sections),
            _body(view, now_wall, all_rows_link, sections),
            _footer(status.process, now_wall, [companion.data for companion in companions]),
        )
    )
    refresh = html('<meta http-equiv="refresh" content="{}">', options.refresh_s) if options.refresh_s else NOTHING
    return html(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{} · cluster autoscaler</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">{}<style>{}</style></head>'
        "<body>{}</body></html>\n",
        _headline(status),
        refresh,
        Html(STYLE),
        body,
    )


def _headline(status: PublishedStatus) -> str:
    if not status.process.leading:
        return "Standby"
    if status.cluster is None:
        return "Starting"
    return str(status.cluster.scope.health.status)


def _header(status: PublishedStatus, now_wall: float, options: PageOptions, notices: Html) -> Html:
    process = status.process
    pills = [pill("Leading", "good") if process.leading else pill("Standby", "warn")]
    if status.cluster is not None:
        health = status.cluster.scope.health.status
        pills.append(pill(f"Cluster {health.lower()}", "good" if health == Health.HEALTHY else "bad"))
    if process.dry_run:
        pills.append(pill("Dry run: nothing is written", "warn"))
    if options.refresh_s:
        pause = options.link(all_rows=options.all_rows, refresh_s=0)
        refresh = html('refreshes every {} s (<a href="{}">pause</a>)', options.refresh_s, pause)
    else:
        resume = options.link(all_rows=options.all_rows, refresh_s=DEFAULT_REFRESH_S)
        refresh = html('does not refresh (<a href="{}">resume</a>)', resume)
    return html(
        '<header>{}<div class="line"><h1>Cluster autoscaler</h1>{}</div>'
        '<p class="small muted">{} · up {} · {}</p>{}</header>',
        _standby_notice(process),
        joined(pills, " "),
        process.identity,
        lasting(process.started_at, now_wall),
        refresh,
        notices,
    )


def _contents(companion_titles: Iterable[str]) -> Html:
    titles = (*_SECTIONS, *companion_titles, _LAST_SECTION)
    links = joined(html('<li><a href="#{}">{}</a></li>', _anchor(title), title) for title in titles)
    return html('<nav aria-label="Sections"><ul>{}</ul></nav>', links)


def _standby_notice(process: ProcessStatus) -> Html:
    if process.leading:
        return NOTHING
    leader = html("<code>{}</code> leads", process.leader) if process.leader else Html("nobody leads yet")
    return html('<p class="notice">This replica is on standby: {}. What follows is its own view.</p>', leader)


def _notices(status: PublishedStatus, alive: HealthResult, complaints: Sequence[str]) -> Html:
    notices = [html('<p class="notice bad">{}</p>', complaint) for complaint in complaints]
    if not alive.ok:
        notices.append(html('<p class="notice bad">The health check fails. {}</p>', alive.text))
    if status.message is not None:
        notices.append(html('<p class="notice">{}</p>', status.message))
    if status.last_pass is not None and status.last_pass.error is not None:
        notices.append(html('<p class="notice">The last pass failed: {}</p>', status.last_pass.error))
    notices.extend(_undecoded_notice(kind) for kind in status.undecoded)
    return joined(notices)


def _undecoded_notice(kind: UndecodedKind) -> Html:
    name, why = next(iter(kind.examples.items()))
    return html(
        '<p class="notice bad">{} of {} cannot be decoded and count as last known, such as <code>{}</code>: {}</p>',
        kind.count,
        kind.path,
        name or "one without a name",
        why,
    )


def _alarms(sections: Sections) -> Html:
    return joined(
        html('<p class="notice bad"><a href="#{}">{}</a>: {}</p>', _anchor(title), title, section.alarm)
        for title, section in sections
        if section.alarm
    )


def _body(view: StatusView, now_wall: float, all_rows_link: str | None, sections: Sections) -> Html:
    """Return the part between header and footer; `all_rows_link` leads to every row, None if this is that page."""
    status = view.status
    companion_sections = joined(_section(title, section.body) for title, section in sections)
    if status.last_pass is None:
        waiting = "No pass has finished yet."
        return html("<main><section><h2>Waiting</h2><p>{}</p></section>{}</main>", waiting, companion_sections)
    current = joined(
        (
            _section(
                "Node groups",
                groups_table(status.groups, now_wall, all_rows_link)
                if status.groups
                else _empty("The provider has no node groups."),
            ),
            _section(
                "Pending pods",
                pods_table(status.pods, now_wall, all_rows_link) if status.pods else _empty("Every pod has a node."),
            ),
        )
    )
    recent = joined(
        (
            _section("Decisions", _decisions(view, now_wall)),
            _section(
                "Events",
                events_table(status.events, now_wall) if status.events else _empty("No event was recorded yet."),
            ),
        )
    )
    capacity = capacity_bars(status.cluster)
    nodes = nodes_table(status.nodes, now_wall, all_rows_link) if status.nodes else _empty("There are no nodes.")
    return html(
        '<main>{}{}<div class="pair"><div>{}</div><div>{}</div></div>{}{}</main>',
        tiles(status, status.last_pass, now_wall),
        _section("Capacity", capacity) if capacity else NOTHING,
        current,
        recent,
        companion_sections,
        _section(_LAST_SECTION, nodes),
    )


def _section(title: str, body: Html) -> Html:
    anchor = _anchor(title)
    return html('<section aria-labelledby="{}"><h2 id="{}">{}</h2>{}</section>', anchor, anchor, title, body)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _empty(text: str) -> Html:
    return html('<p class="muted">{}</p>', text)


def _decisions(view: StatusView, now_wall: float) -> Html:
    if not view.history:
        return _empty("Nothing was added or removed yet.")
    return joined((timeline(view.history, now_wall), decisions_table(view.history, now_wall)))


def _footer(process: ProcessStatus, now_wall: float, companion_data: Sequence[str]) -> Html:
    versions: Sequence[str] = [
        f"autoscaler {process.version}",
        *([f"Kubernetes {process.kubernetes_version}"] if process.kubernetes_version else []),
        *([f"decides like Cluster Autoscaler {process.compatibility}"] if process.compatibility else []),
    ]
    addresses = (*(f"/api/v1/{name}" for name in _DATA), *companion_data, "/metrics")
    links = joined(html('<li><a href="{}">{}</a></li>', address, address) for address in addresses)
    return html(
        '<footer><p>{} · as of {}</p><nav aria-label="Data"><ul>{}</ul></nav></footer>',
        " · ".join(versions),
        moment(now_wall),
        links,
    )
