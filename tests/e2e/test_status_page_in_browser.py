"""The status page as a browser shows it, where there is one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from autoscaler.clock import VirtualClock
from autoscaler.headroom.page import headroom_block
from autoscaler.headroom.status import HeadroomStatus, PoolStatus
from autoscaler.observe.api.api import read_routes
from autoscaler.observe.http.health import HealthCheck, StuckLimits
from autoscaler.observe.http.server import WebServer
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.page.section import CompanionSection
from autoscaler.observe.status import NodeStatus, PodStatus, PublishedStatus, Stay
from autoscaler.observe.status_board import StatusBoard
from autoscaler.reservations.page import reservations_block
from autoscaler.reservations.status import TargetStatus
from tests.e2e.browser import Browser, NoBrowserError, browser
from tests.shown_cluster import NOW, sample_blocks, sample_status

EVIL = "<script>document.title='forged'</script><img src=x onerror=\"document.title='forged'\">" + "x" * 253
PHONE, WALL = 390, 1920


def hostile() -> PublishedStatus:
    pod = PodStatus(namespace=EVIL, name=EVIL, pending_since_at=NOW, verdict=EVIL, detail=EVIL, planned_group=EVIL)
    node = NodeStatus(name=EVIL, group=EVIL, stays=Stay(EVIL, EVIL))
    return msgspec.structs.replace(sample_status(10), pods=(pod,), nodes=(node,), message=EVIL)


def hostile_blocks() -> tuple[CompanionSection, ...]:
    pool = PoolStatus(name=EVIL, namespace=EVIL, policy=EVIL, reason=EVIL, troubles=(EVIL,), target=3)
    target = TargetStatus(name=EVIL, degraded=EVIL, unplaceable={EVIL: 3})
    return (
        headroom_block(lambda: HeadroomStatus(looked_at=NOW, pools=(pool,))),
        reservations_block(lambda: (target,)),
    )


CLUSTERS: dict[str, Callable[[], tuple[PublishedStatus, tuple[CompanionSection, ...]]]] = {
    "0 nodes": lambda: (sample_status(0), ()),
    "10 nodes": lambda: (sample_status(10), sample_blocks(2)),
    "5,000 nodes": lambda: (sample_status(5_000), sample_blocks(30)),
    "hostile names": lambda: (hostile(), hostile_blocks()),
}


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    try:
        with browser() as opened:
            yield opened
    except NoBrowserError as error:
        pytest.skip(str(error))


@contextmanager
def served(status: PublishedStatus, blocks: tuple[CompanionSection, ...] = ()) -> Iterator[str]:
    clock = VirtualClock(wall=NOW)
    board = StatusBoard(status.process)
    board.publish(status)
    routes = read_routes(board, Metrics(), HealthCheck(StuckLimits(600, 900), clock.now()), clock, blocks)
    server = WebServer("127.0.0.1:0", routes, clock)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_it_fits_and_breaks_no_rule_of_its_own(page: Browser, cluster: str) -> None:
    with served(*CLUSTERS[cluster]()) as site:
        for width in (PHONE, WALL):
            for theme, back in (("light", "rgb(245, 246, 248)"), ("dark", "rgb(18, 22, 29)")):
                page.open(f"{site}/status?refresh=0", width=width, theme=theme)
                assert page.value("document.documentElement.scrollWidth") <= width, "no scrolling sideways"
                assert page.value("getComputedStyle(document.body).backgroundColor") == back
                assert page.value("document.title").endswith("· Cluster autoscaler")
                assert page.value("document.scripts.length + document.images.length") == 0
                assert page.complaints == []


@pytest.mark.parametrize("width", [PHONE, WALL])
def test_tables_stay_tables_for_those_who_listen(page: Browser, width: int) -> None:
    with served(sample_status(10)) as site:
        page.open(f"{site}/status?refresh=0", width=width, theme="light")
        told = page.roles()
    assert told >= {"table", "row", "columnheader", "rowheader", "cell", "banner", "navigation", "main", "contentinfo"}


def test_a_wall_shows_now_beside_before(page: Browser) -> None:
    tops = "['on-its-way', 'decisions'].map(id => document.getElementById(id).getBoundingClientRect().top)"
    with served(sample_status(10)) as site:
        page.open(f"{site}/status?refresh=0", width=WALL, theme="dark")
        coming, decisions = page.value(tops)
        assert coming == decisions
        page.open(f"{site}/status?refresh=0", width=PHONE, theme="dark")
        coming, decisions = page.value(tops)
        assert coming < decisions
