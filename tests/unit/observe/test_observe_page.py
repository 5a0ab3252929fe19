import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from autoscaler.observe.figures import count, cpus, duration, gib, percent
from autoscaler.observe.headline import headline
from autoscaler.observe.http.health import HealthResult
from autoscaler.observe.page.document import PageOptions
from autoscaler.observe.page.markup import Html, html, joined
from autoscaler.observe.page.page import status_page
from autoscaler.observe.page.plots import share_bar, size_bar, timeline
from autoscaler.observe.page.style import CONTENT_SECURITY_POLICY, STYLE
from autoscaler.observe.page.table import Column, table
from autoscaler.observe.reason_table import TABLE
from autoscaler.observe.status import (
    BackoffStatus,
    Decision,
    DecisionKind,
    GangStatus,
    GroupReason,
    NodeStatus,
    PodState,
    PodStatus,
    PublishedStatus,
    RecentEvent,
    ResizeStatus,
    Stay,
    UndecodedKind,
)
from autoscaler.observe.status_board import StatusBoard, StatusView
from autoscaler.reasons import PodVerdict, UnremovableReason

VOID = {"meta"}
EVIL = '<script>alert("x")</script>\'&"'
StatusOf = Callable[..., PublishedStatus]


class Page(HTMLParser):
    """A strict reader: tags must nest, ids must be unique; collects text, tags and links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        ids = [attributes["id"] for _, attributes in self.tags if "id" in attributes]
        assert len(ids) == len(set(ids))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(status: PublishedStatus, now_wall: float, **options: Any) -> Page:
    return Page(status_page(StatusView(status, status.decisions), now_wall, PageOptions(**options)))


@pytest.mark.parametrize("nodes", [0, 1, 10, 1000])
def test_the_document_is_well_formed_at_any_size(status_of: StatusOf, now_wall: float, nodes: int) -> None:
    page = page_of(status_of(nodes), now_wall)
    landmarks = [tag for tag, _ in page.tags if tag in ("header", "main", "footer", "nav")]
    assert landmarks == ["header", "nav", "main", "footer", "nav"]
    names = [nav["aria-label"] for nav in page.named("nav")]
    assert len(set(names)) == len(names)
    assert page.named("html")[0]["lang"] == "en"
    assert len(page.named("h1")) == 1
    assert not page.named("script")
    assert len(page.named("table")) == len(page.named("caption"))
    heads = page.named("th")
    assert {(head["scope"], head["role"]) for head in heads} <= {("col", "columnheader"), ("row", "rowheader")}
    assert len([head for head in heads if head["scope"] == "row"]) == len(page.named("tr")) - len(page.named("table"))
    assert all(image["aria-label"] for image in page.named("svg"))


def test_it_refreshes_itself_unless_told_not_to(status_of: StatusOf, now_wall: float) -> None:
    def refresh(page: Page) -> list[str | None]:
        return [meta["content"] for meta in page.named("meta") if meta.get("http-equiv") == "refresh"]

    status = status_of(10)
    assert refresh(page_of(status, now_wall)) == ["15"]
    still = page_of(status, now_wall, refresh_s=0, all_rows=True)
    assert refresh(still) == []
    assert "?all=1" in [link["href"] for link in still.named("a")], "resuming keeps the other option"


def test_it_loads_nothing(status_of: StatusOf, now_wall: float) -> None:
    page = page_of(status_of(10), now_wall)
    assert not [tag for tag, attributes in page.tags if "src" in attributes or "style" in attributes]
    assert not page.named("link")
    assert all((link["href"] or "").startswith(("/", "?", "#")) for link in page.named("a"))


def test_links_within_the_page_lead_somewhere(status_of: StatusOf, now_wall: float) -> None:
    page = page_of(status_of(10), now_wall)
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    inner = [str(link["href"])[1:] for link in page.named("a") if str(link["href"]).startswith("#")]
    assert inner == [
        *("needs-a-person", "on-its-way", "decisions", "capacity", "node-groups", "nodes", "other-events"),
    ]
    assert ids >= set(inner)


def test_headings_skip_no_level(status_of: StatusOf, now_wall: float) -> None:
    levels = [int(tag[1]) for tag, _ in page_of(status_of(10), now_wall).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert set(levels[1:]) == {2}


def test_the_policy_matches_the_style(status_of: StatusOf, now_wall: float) -> None:
    text = status_page(StatusView(status_of(0)), now_wall, PageOptions())
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in CONTENT_SECURITY_POLICY


def test_everything_from_the_cluster_is_escaped(status_of: StatusOf, now_wall: float) -> None:
    status = status_of(10)
    replace = msgspec.structs.replace
    group = replace(status.groups[0], id=EVIL, backoff=BackoffStatus(now_wall, EVIL, EVIL))
    node = NodeStatus(name=EVIL, group=EVIL, stays=Stay(EVIL, EVIL))
    pod = PodStatus(
        namespace=EVIL,
        name=EVIL,
        pending_since_at=now_wall,
        verdict=EVIL,
        detail=EVIL,
        owner=EVIL,
        reasons=(GroupReason(EVIL, EVIL, EVIL),),
        planned_group=EVIL,
    )
    event = replace(status.events[0], kind=EVIL, reason=EVIL, about=EVIL, message=EVIL)
    decision = replace(status.decisions[0], group=EVIL, result=EVIL, detail=EVIL)
    assert status.last_pass is not None
    evil = replace(
        status,
        process=replace(
            status.process, identity=EVIL, leading=False, leader=EVIL, version=EVIL, kubernetes_version=EVIL
        ),
        message=EVIL,
        last_pass=replace(status.last_pass, error=EVIL),
        groups=(group,),
        nodes=(node,),
        pods=(pod,),
        events=(event,),
        decisions=(decision,),
    )
    text = status_page(StatusView(evil, evil.decisions), now_wall, PageOptions())
    assert "<script" not in text
    page = Page(text)
    assert page.text.count("alert") > 20
    known = {"class", "href", "content", "charset", "name", "lang", "id", "scope", "role", "title", "datetime", "width"}
    known |= {"height", "x", "y", "x1", "x2", "y1", "y2", "viewbox", "preserveaspectratio", "http-equiv"}
    made = {name for _, attributes in page.tags for name in attributes if not name.startswith(("aria-", "data-"))}
    assert made <= known


def test_groups_show_sizes_and_trouble(status_of: StatusOf, now_wall: float) -> None:
    text = page_of(status_of(10), now_wall).text
    assert "min 1 · target 8 · max 10" in text
    assert "m5.xlarge · eu-west-1a · 3.9 CPU, 15 GiB" in text
    assert "OUT_OF_RESOURCES for another" in text
    assert "Scaling up" in text


def test_pending_pods_of_one_fate_share_a_row(status_of: StatusOf, now_wall: float) -> None:
    page = page_of(status_of(1000), now_wall)
    assert "Job, 67 pods, such as train-198" in page.text
    assert "Deployment, 133 pods, such as web-7d9f8b6c5-00001" in page.text
    assert "3 node groups: NodeResourcesFit (2), InBackoff" in page.text
    assert "Insufficient nvidia.com/gpu" in page.text
    each = page_of(status_of(1000), now_wall, all_rows=True)
    assert "such as" not in each.text
    assert len(each.named("details")) > len(page.named("details"))


def test_many_different_pods_are_cut(status_of: StatusOf, now_wall: float) -> None:
    pods = tuple(
        PodStatus(namespace="a", name=f"p{number}", pending_since_at=now_wall, verdict="TooYoung")
        for number in range(150)
    )
    text = page_of(msgspec.structs.replace(status_of(1), pods=pods), now_wall).text
    assert "The 50 most relevant of 150 workloads." in text


def test_nodes_are_cut_to_the_most_relevant(status_of: StatusOf, now_wall: float) -> None:
    page = page_of(status_of(1000), now_wall)
    assert "The 200 most relevant of 1,000 nodes" in page.text
    rows = [cell for cell in page.named("th") if cell.get("data-label") == "Node"]
    assert len(rows) == 200
    assert page.text.count("unneeded for") == 25, "all unneeded nodes are among them"
    assert "NotUnderutilized 865" in page.text, "the counts are of all nodes"
    assert "?all=1" in [link["href"] for link in page.named("a")]
    everything = page_of(status_of(1000), now_wall, all_rows=True)
    assert len([cell for cell in everything.named("th") if cell.get("data-label") == "Node"]) == 1000


def test_many_groups_are_cut_to_those_that_need_attention(status_of: StatusOf, now_wall: float) -> None:
    status = status_of(10)
    web, gpu, _ = status.groups
    calm = tuple(msgspec.structs.replace(web, id=f"web-{number}") for number in range(40))
    page = page_of(msgspec.structs.replace(status, groups=(*calm, gpu)), now_wall)
    rows = [cell for cell in page.named("th") if cell.get("data-label") == "Node group" and cell["scope"] == "row"]
    assert len(rows) == 15
    assert "The 15 most relevant of 41 node groups. Show all" in page.text
    assert page.text.index("gpu-a100") < page.text.index("web-0")
    assert "Backed off 1" in page.text, "the counts are of all groups"


def test_a_column_without_content_is_left_out() -> None:
    columns = (Column("Name"), Column("Price", "n"), Column("Note"))
    page = Page(table(html("two"), columns, [[html("a"), Html(""), html("x")], [html("b"), Html(""), Html("")]]))
    assert [head["class"] for head in page.named("th") if head["scope"] == "col"] == ["", ""]
    assert "Price" not in page.text
    assert [cell["class"] for cell in page.named("td")] == ["", "empty"]


def test_gpu_column_only_where_there_are_gpus(status_of: StatusOf, now_wall: float) -> None:
    def heads(status: PublishedStatus) -> set[str | None]:
        return {cell.get("data-label") for cell in page_of(status, now_wall).named("td")}

    status = status_of(1)
    assert "GPU" not in heads(status)
    assert "GPU" in heads(msgspec.structs.replace(status, nodes=(NodeStatus(name="n", gpu_utilization=0.5),)))


def test_estimates_have_a_column_where_one_is_known(status_of: StatusOf, now_wall: float) -> None:
    def one(name: str, eta_s: float | None) -> PodStatus:
        return PodStatus(
            namespace="a",
            name=name,
            pending_since_at=now_wall,
            verdict="Helped",
            state=PodState.ON_ITS_WAY,
            workload="Job x",
            eta_s=eta_s,
        )

    def text(*pods: PodStatus) -> str:
        return page_of(msgspec.structs.replace(status_of(1), pods=pods), now_wall).text

    assert "Ready in about" not in text(one("p", None))
    assert "Ready in about" in text(one("p", None), one("q", 40))
    assert "40 s to 3 min" in text(one("p", 40), one("q", 180)), "pods of one row need not be alike in this"


def test_gangs_that_wait_have_a_section_the_stuck_ones_first(status_of: StatusOf, now_wall: float) -> None:
    coming = GangStatus(
        gang="ns/b",
        wanted=8,
        possible=8,
        pending=8,
        state=PodState.ON_ITS_WAY,
        detail="8 wanted, 8 possible",
        nodes={"gpu": 8},
        node_price=256.0,
        eta_s=180.0,
    )
    stuck = GangStatus(
        gang=f"ns/{EVIL}", wanted=8, possible=5, pending=8, state=PodState.STUCK, detail="8 wanted, 5 possible"
    )
    status = msgspec.structs.replace(status_of(nodes=1), gangs=(coming, stuck))
    texts = page_of(status, now_wall).texts
    assert "Gangs that wait" in texts
    assert texts.index(f"ns/{EVIL}") < texts.index("ns/b")
    assert {"8 wanted, 5 possible", "8 of gpu", "3 min"} <= set(texts)
    assert "Gangs that wait" not in page_of(status_of(nodes=1), now_wall).texts


def test_events_that_say_the_same_share_a_row(status_of: StatusOf, now_wall: float) -> None:
    def an_event(about: str, age_s: float, message: str = "not evicted", reason: str = "Failed") -> RecentEvent:
        return RecentEvent(at=now_wall - age_s, kind="Normal", reason=reason, about=about, message=message)

    events = (
        an_event("Pod a/x", 90),
        an_event("Pod a/other", 80, "evicted late"),
        an_event("Pod a/y", 20),
        an_event("Pod a/shown-above", 10, "pod triggered scale-up", "TriggeredScaleUp"),
    )
    page = page_of(msgspec.structs.replace(status_of(1), events=events), now_wall)
    assert "20 s ago Failed not evicted Pod a/y and 1 like it" in page.text
    assert "shown-above" not in page.text, "decisions and pending pods tell it already"
    assert "The newest 3 events" in page.text
    assert "Pod a/x" not in page.text


def test_reasons_are_explained_where_they_are_given(status_of: StatusOf, now_wall: float) -> None:
    text = page_of(status_of(50), now_wall).text
    assert text.count("What the words mean, and what helps") == 2
    assert TABLE[PodVerdict][PodVerdict.NO_GROUP_FITS].text in text
    assert TABLE[UnremovableReason][UnremovableReason.BLOCKED_BY_POD].text in text
    assert "What the words mean" not in page_of(status_of(0), now_wall).text


def test_a_loop_that_is_stuck_is_announced(status_of: StatusOf, now_wall: float) -> None:
    status = status_of(1)
    stuck = HealthResult(False, "Error: last activity more than 700.0s ago <b>")
    text = status_page(StatusView(status), now_wall, PageOptions(), stuck)
    assert '<p class="headline bad">The health check fails. Error: last activity more than 700.0s ago &lt;b&gt;' in text
    assert "health check" not in status_page(StatusView(status), now_wall, PageOptions())


def test_a_standby_replica_says_so_first(status_of: StatusOf, now_wall: float) -> None:
    status = status_of(0)
    process = msgspec.structs.replace(status.process, leading=False, leader="other-1")
    page = page_of(msgspec.structs.replace(status, process=process), now_wall)
    first = page.text.split("</title>")[0].strip()
    assert first.startswith("Standby · Cluster autoscaler Cluster autoscaler Standby Standby: other-1 leads.")


def test_a_failed_pass_is_announced(status_of: StatusOf, now_wall: float) -> None:
    status = status_of(1)
    assert status.last_pass is not None
    failed = msgspec.structs.replace(status.last_pass, error="the cloud is away")
    status = msgspec.structs.replace(status, last_pass=failed)
    page = page_of(msgspec.structs.replace(status, headline=headline(status)), now_wall)
    assert "Leading The last pass failed: the cloud is away." in page.text


def test_the_timeline_adds_up(now_wall: float) -> None:
    def one(at: float, delta: int) -> Decision:
        return Decision(at=at, kind=DecisionKind.SCALE_UP, group="g", delta=delta, result="ok")

    plot = Page(timeline([one(now_wall - 7200, 3), one(now_wall - 7200, 4), one(now_wall, -2)], now_wall))
    bars = [bar for bar in plot.named("rect") if bar["class"] in ("added", "removed")]
    assert [(bar["class"], bar["height"]) for bar in bars] == [("added", "77.8"), ("removed", "22.2")]
    assert "7 nodes added" in plot.text
    assert "2 nodes removed" in plot.text
    assert "08:00 UTC: 7 nodes added" in plot.text


def test_failed_decisions_are_no_nodes(now_wall: float) -> None:
    def one(delta: int, result: str) -> Decision:
        return Decision(at=now_wall - 60, kind=DecisionKind.SCALE_UP, group="g", delta=delta, result=result)

    plot = Page(timeline([one(3, "Successful"), one(9, "Error"), one(-2, "Error")], now_wall))
    (figure,) = plot.named("svg")
    assert figure["aria-label"] == "Nodes over time: 3 nodes added, 0 nodes removed, 2 decisions failed"
    assert [bar["class"] for bar in plot.named("rect")] == ["added", "failed"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back", "least"),
    [
        *((text, back, 4.5) for text in ("ink", "muted", "link") for back in ("page", "card")),
        *((tone, f"{tone}-bg", 4.5) for tone in ("good", "warn", "bad")),
        ("ink", "calm-bg", 4.5),
        *((shape, "card", 3.0) for shape in ("fill", "added", "removed", "bad", "mark", "muted")),
        ("fill", "track", 3.0),
        ("removed", "track", 3.0),
    ],
)
def test_colours_differ_enough_to_be_read(theme: str, front: str, back: str, least: float) -> None:
    light, dark = re.findall(r":root\{(.*?)\}", STYLE, re.DOTALL)
    found = dict(re.findall(r"--([\w-]+):(#[0-9a-f]+)", light if theme == "light" else dark))
    lighter, darker = sorted((luminance(found[front]), luminance(found[back])), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= least


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_nothing_moves() -> None:
    assert not re.search(r"animation|transition|scroll-behavior|@keyframes", STYLE), "so reduced motion needs no rule"


def test_bars_stay_within_their_track() -> None:
    def widths(svg: Html) -> list[float]:
        return [float(bar["width"] or 0) for bar in Page(svg).named("rect")]

    assert widths(share_bar(1.7, "CPU")) == [100, 100]
    assert widths(share_bar(0.25, "CPU")) == [100, 25]
    assert widths(size_bar(0, 0, 0, 0)) == [100, 0, 0]
    assert widths(size_bar(1, 7, 5, 10)) == [100, 50, 50, 0.8], "ready never exceeds the target"
    assert max(widths(size_bar(0, 20, 20, 10))) == 100, "a target above the maximum fits"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0421, "42 ms"),
        (3.21, "3.2 s"),
        (59.6, "60 s"),
        (200, "3 min"),
        (3600, "1 h"),
        (3599, "1 h"),
        (11_100, "3 h 5 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_amounts() -> None:
    assert (cpus(3920), cpus(4000), gib(15 * 1024**3), percent(0.126)) == ("3.9", "4", "15", "13%")
    assert (count(1, "node"), count(1200, "node")) == ("1 node", "1,200 nodes")


def test_markup_is_not_escaped_twice() -> None:
    inner = html("<b>{}</b>", "<")
    assert html("<p>{}{}</p>", inner, None) == "<p><b>&lt;</b></p>"
    assert joined([inner, inner], ", ") == "<b>&lt;</b>, <b>&lt;</b>"


def test_what_cannot_be_decoded_is_announced_by_kind(status_of: StatusOf, now_wall: float) -> None:
    odd = UndecodedKind("/api/v1/pods", 3, {"shop/<x>": "a time cannot be read"})
    board = StatusBoard(status_of(2).process)
    board.undecoded_changed((odd,))
    board.publish(status_of(2))
    text = str(status_page(board.view, now_wall, PageOptions()))
    assert "3 of /api/v1/pods cannot be decoded" in text
    assert "<code>shop/&lt;x&gt;</code>: a time cannot be read" in text


def test_resizes_that_wait_are_listed_up_to_a_limit(status_of: StatusOf, now_wall: float) -> None:
    assert "The node lacks" not in page_of(status_of(1), now_wall).text
    resizes = tuple(ResizeStatus(f"shop/{EVIL}-{number}.", "n1", "1.5 cpu" if number else "") for number in range(60))
    text = page_of(msgspec.structs.replace(status_of(1), deferred_resizes=resizes), now_wall).text
    assert [f"shop/{EVIL}-{number}." in text for number in (0, 49, 50)] == [True, True, False]
    assert ("60 pods" in text, "1.5 cpu" in text, "nothing any more" in text) == (True, True, True)
