"""The status page: what needs a person, what is in progress, recent decisions, and the state of the cluster."""

from collections.abc import Iterable, Sequence

from autoscaler.observe.cost import cost_of
from autoscaler.observe.http.health import OK, HealthResult
from autoscaler.observe.page.capacity import capacity_bars
from autoscaler.observe.page.deferred_resizes import deferred_resizes_table
from autoscaler.observe.page.disruption_budgets import disruption_budgets_table
from autoscaler.observe.page.document import PageOptions, document, refresh_text
from autoscaler.observe.page.format import lasting, moment
from autoscaler.observe.page.gangs import gangs_table
from autoscaler.observe.page.groups import groups_table
from autoscaler.observe.page.history import decisions_table, events_table, other_events
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.page.nodes import nodes_table
from autoscaler.observe.page.plots import timeline
from autoscaler.observe.page.replacements import replacements_table
from autoscaler.observe.page.section import CompanionSection, SectionContent
from autoscaler.observe.page.table import pill
from autoscaler.observe.page.tiles import tiles
from autoscaler.observe.page.workloads import attention, coming
from autoscaler.observe.status import Headline, PassStatus, ProcessStatus, Tone, UndecodedKind
from autoscaler.observe.status_board import StatusView

_DATA = ("status", "groups", "nodes", "pods", "plans", "openapi.json")
_LONGEST_TITLE = 60
_FIRST = "Needs a person"
_BESIDE = ("On its way", "Decisions", "Capacity")
"""Sections of which wide screens show two beside each other."""

Sections = Sequence[tuple[str, Html]]
"""Sections by their titles; those without content are left out."""


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
    shown = [(companion.title, companion.show(now_wall, options.all_rows_link)) for companion in companions]
    lead = _lead(view, alive, shown, complaints)
    sections = [(title, body) for title, body in _sections(view, now_wall, options.all_rows_link, shown) if body]
    body = joined(
        (
            _header(view, lead, now_wall, options),
            _notices(view, alive, shown, complaints),
            NOTHING if status.last_pass is None else _contents(title for title, _ in sections),
            html("<main>{}</main>", _main(view, status.last_pass, now_wall, sections)),
            _footer(status.process, now_wall, [companion.data for companion in companions]),
        )
    )
    return document(_title(lead.text), options, body)


def _lead(
    view: StatusView, alive: HealthResult, companions: Iterable[tuple[str, SectionContent]], complaints: Sequence[str]
) -> Headline:
    """Return the headline as of this moment: good only where nothing else on the page is in trouble either."""
    status = view.status
    if not status.process.leading:
        leader = f"{status.process.leader} leads" if status.process.leader else "nobody leads yet"
        return Headline(text=f"Standby: {leader}. What follows is this replica's own view.", tone=Tone.BUSY)
    headline = status.headline or Headline(text="Starting. No pass has finished yet.", tone=Tone.BUSY)
    if complaints or not alive.ok:
        text = complaints[0] if complaints else f"The health check fails. {alive.text}"
        return Headline(text=f"{text} Last known: {headline.text}", tone=Tone.BAD)
    alarmed = [title for title, section in companions if section.alarm]
    if alarmed or status.undecoded:
        first = f"{' and '.join(alarmed)} {'needs' if len(alarmed) == 1 else 'need'} a look. " if alarmed else ""
        return Headline(text=f"{first}{headline.text}", tone=Tone.BAD)
    return headline


def _title(text: str) -> str:
    """Return the beginning of the headline, cut at the end of a clause."""
    first = text.split(". ")[0].split(": ")[0].removesuffix(".")
    return first if len(first) <= _LONGEST_TITLE else f"{first[: _LONGEST_TITLE - 1]}…"


def _header(view: StatusView, lead: Headline, now_wall: float, options: PageOptions) -> Html:
    process = view.status.process
    pills = [pill("Leading", "good") if process.leading else pill("Standby", "warn")]
    if process.dry_run:
        pills.append(pill("Dry run: nothing is written", "warn"))
    return html(
        '<header><div class="line"><h1>Cluster autoscaler</h1>{}</div><p class="headline {}">{}</p>'
        '<p class="small muted">{} · up {} · {}</p></header>',
        joined(pills, " "),
        lead.tone.value,
        lead.text,
        process.identity,
        lasting(process.started_at, now_wall),
        refresh_text(options),
    )


def _contents(titles: Iterable[str]) -> Html:
    links = joined(html('<li><a href="#{}">{}</a></li>', _anchor(title), title) for title in titles)
    return html('<nav aria-label="Sections"><ul>{}</ul></nav>', links)


def _notices(
    view: StatusView, alive: HealthResult, companions: Iterable[tuple[str, SectionContent]], complaints: Sequence[str]
) -> Html:
    status = view.status
    notices = [html('<p class="notice bad">{}</p>', complaint) for complaint in complaints[1:]]
    if complaints and not alive.ok:
        notices.append(html('<p class="notice bad">The health check fails. {}</p>', alive.text))
    if status.message is not None:
        notices.append(html('<p class="notice">{}</p>', status.message))
    notices.extend(
        html(
            '<p class="notice{}">Paused (<code>{}</code>): {}</p>', " bad" * bool(pause.problem), pause.name, pause.text
        )
        for pause in status.pauses
    )
    notices.extend(_undecoded_notice(kind) for kind in status.undecoded)
    notices.extend(
        html('<p class="notice bad"><a href="#{}">{}</a>: {}</p>', _anchor(title), title, section.alarm)
        for title, section in companions
        if section.alarm
    )
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


def _main(view: StatusView, last: PassStatus | None, now_wall: float, sections: Sections) -> Html:
    shown = [(title, _section(title, body)) for title, body in sections]
    if last is None:
        waiting = html("<section><h2>Waiting</h2><p>{}</p></section>", "No pass has finished yet.")
        return joined((waiting, *(body for _, body in shown)))
    status = view.status
    return joined(
        (
            tiles(status, last, cost_of(status.groups, status.process.currency), now_wall),
            joined(body for title, body in shown if title == _FIRST),
            html('<div class="pair">{}</div>', joined(body for title, body in shown if title in _BESIDE)),
            joined(body for title, body in shown if title != _FIRST and title not in _BESIDE),
        )
    )


def _sections(
    view: StatusView,
    now_wall: float,
    all_link: str | None,
    companions: Iterable[tuple[str, SectionContent]],
) -> Sections:
    """Return the sections in the order of the page; `all_link` leads to every row, None if this is that page."""
    status = view.status
    of_companions = [(title, section.body) for title, section in companions]
    if status.last_pass is None:
        return of_companions
    events = other_events(status.events)
    groups = groups_table(status.groups, status.process.currency, now_wall, all_link)
    nodes = nodes_table(status.nodes, now_wall, all_link)
    return [
        (_FIRST, attention(status, now_wall, all_link)),
        ("On its way", coming(status, now_wall, all_link)),
        ("Gangs that wait", gangs_table(status.gangs, status.process.currency, all_link)),
        ("Decisions", _decisions(view, now_wall)),
        ("Capacity", capacity_bars(status.cluster, status.groups)),
        ("Node groups", groups if status.groups else _empty("The provider has no node groups.")),
        *of_companions,
        ("Resizes that wait", deferred_resizes_table(status.deferred_resizes)),
        ("Replacements of nodes", replacements_table(status.replacements)),
        ("Disruption budgets", disruption_budgets_table(status.disruption_budgets)),
        ("Nodes", nodes if status.nodes else _empty("There are no nodes.")),
        ("Other events", events_table(events, now_wall) if events else NOTHING),
    ]


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
