"""What companions add to the status page."""

from collections.abc import Iterable

import msgspec
import pytest

from autoscaler.config.eta import PodStartEstimator
from autoscaler.eta.page_section import starts_block
from autoscaler.eta.status import EtaStatus
from autoscaler.headroom.page import headroom_block
from autoscaler.headroom.policy import EarlyPolicy
from autoscaler.headroom.status import HeadroomStatus, PoolStatus
from autoscaler.observe.page.document import PageOptions
from autoscaler.observe.page.page import status_page
from autoscaler.observe.page.section import CompanionSection
from autoscaler.observe.reason_table import TABLE
from autoscaler.observe.status import PublishedStatus
from autoscaler.observe.status_board import StatusView
from autoscaler.reasons import Headcount, HeadroomTrouble, UnknownStart, Unplaceable
from autoscaler.reservations.page import reservations_block
from autoscaler.reservations.status import EarlyFloor, OverrideStatus, TargetStatus
from tests.shown_cluster import NOW, a_process, sample_blocks, sample_starts, sample_status
from tests.unit.observe.test_observe_page import EVIL, Page


def page_with(*blocks: CompanionSection, status: PublishedStatus | None = None, all_rows: bool = False) -> Page:
    options = PageOptions(all_rows=all_rows)
    return Page(status_page(StatusView(status or sample_status(10)), NOW, options, companions=blocks))


def of_pools(*pools: PoolStatus) -> CompanionSection:
    return headroom_block(lambda: HeadroomStatus(looked_at=NOW - 5, pools=pools))


def of_targets(*targets: TargetStatus) -> CompanionSection:
    return reservations_block(lambda: targets)


def a_pool(**fields: object) -> PoolStatus:
    usual: dict[str, object] = {
        "name": "ci",
        "namespace": "build",
        "policy": "office",
        "active": 6,
        "desired": 3,
        "target": 3,
        "reason": Headcount.SCALE_FACTOR,
        "lower_at": NOW + 1800,
        "replicas": 3,
        "bound": 3,
        "reconciled_at": NOW - 5,
    }
    return PoolStatus(**{**usual, **fields})  # type: ignore[arg-type]


def rows(page: Page, title: str) -> list[dict[str, str | None]]:
    return [cell for cell in page.named("th") if cell.get("data-label") == title and cell["scope"] == "row"]


def test_companions_that_are_off_are_not_mentioned() -> None:
    text = page_with().text
    assert not [word for word in ("Headroom", "Reservations", "Starts") if word in text]


@pytest.mark.parametrize("number", [0, 2, 30])
def test_sections_have_a_place_in_the_contents_and_the_document_stays_well_formed(number: int) -> None:
    page = page_with(*sample_blocks(number))
    contents = [str(link["href"]) for link in page.named("a") if str(link["href"]).startswith("#")]
    of_sections = ["#headroom", "#reservations", "#starts"]
    assert [link for link in contents[contents.index("#node-groups") :] if link != "#other-events"] == [
        *("#node-groups", *of_sections, "#nodes"),
    ]
    data = [str(link["href"]) for link in page.named("a") if str(link["href"]).startswith("/api/")]
    assert data[-3:] == ["/api/v1/headroom", "/api/v1/reservations", "/api/v1/eta"]
    assert {f"#{one['id']}" for _, one in page.tags if "id" in one} >= set(contents)
    assert len(page.named("table")) == len(page.named("caption"))
    assert not page.named("script")
    assert all(image["aria-label"] for image in page.named("svg"))


def test_a_pool_tells_what_is_wanted_what_is_there_and_why() -> None:
    text = page_with(of_pools(a_pool(desired=2, bound=1, pending=2, reason=Headcount.COOL_DOWN))).text
    assert "Short 1" in text
    assert "office CoolDown" in text
    assert "3 for another 30 min" in text
    assert "bound 1 · pending 2 · current 3" in text
    assert "5.0 s ago" in text
    assert "Fewer pods are wanted now; the existing pods stay until the idleTime is over." in text
    assert "not in order" not in text, "pods on their way are no trouble"


def test_what_is_asked_for_before_its_window_says_for_what_and_when() -> None:
    pool = a_pool(policy="base", desired=8, reason=Headcount.IDLE_COUNT, early=EarlyPolicy("office", NOW + 240))
    assert "base IdleCount, for office in 4 min" in page_with(of_pools(pool)).text
    target = TargetStatus(name="gpu", early=EarlyFloor(floor=3, starts_at=NOW + 240))
    assert "planned for 3 in 4 min" in page_with(of_targets(target)).text


def test_no_cool_down_is_shown_where_none_is_in_force() -> None:
    text = page_with(of_pools(a_pool())).text
    assert "In order 1" in text
    assert "for another" not in text.partition("Headroom In order")[2].partition("Nodes")[0]


def test_pools_in_trouble_come_first_and_are_announced_at_the_top() -> None:
    odd = a_pool(name="odd", troubles=(HeadroomTrouble.NAME_CONFLICT,), reconciled_at=None)
    page = page_with(of_pools(*(a_pool(name=f"calm-{number}") for number in range(20)), odd))
    assert "Headroom : 1 pool is not in order." in page.text.partition("Nodes ready")[0]
    assert page.text.index("odd") < page.text.index("calm-0")
    assert len(rows(page, "Pool")) == 15
    assert "The 15 most relevant of 21 pools. Show all" in page.text
    assert "In order 20" in page.text, "the counts are of all pools"


def test_every_pool_and_target_on_the_page_of_everything() -> None:
    page = page_with(*sample_blocks(30), all_rows=True)
    assert (len(rows(page, "Pool")), len(rows(page, "Target"))) == (30, 30)


def test_pools_that_nobody_looked_at_yet_show_no_figures() -> None:
    page = page_with(headroom_block(HeadroomStatus))
    assert "The pools have not been checked yet" in page.text
    assert not rows(page, "Pool")


def test_a_target_tells_slots_pods_room_and_time() -> None:
    target = TargetStatus(
        name="gpu",
        slots=4,
        active=4,
        queued=2,
        planned=6,
        real=1,
        virtual=5,
        unplaceable={Unplaceable.MAX_SIZE: 3},
        next_expiry_at=NOW + 600,
        backlog=7,
        floor=2,
        override=OverrideStatus(began_at=NOW - 60, ends_at=NOW + 3600),
    )
    text = page_with(of_targets(target)).text
    assert "Without room 1" in text
    assert "Queueing 1" in text
    assert "4 of 4 slots" in text
    assert "5 planned 6, real 1" in text
    assert "max_size: 3" in text
    assert "in 10 min" in text
    assert "at least 2 for another 1 h" in text
    assert TABLE[Unplaceable][Unplaceable.MAX_SIZE].text in text
    assert "To be stored" in text


def test_columns_of_targets_that_say_nothing_are_left_out() -> None:
    text = page_with(of_targets(TargetStatus(name="calm"))).text
    assert "0 of any number" in text
    assert not [word for word in ("To be stored", "Override", "Without room", "Next expiry") if word in text]


def test_a_target_whose_state_is_left_alone_is_announced_at_the_top() -> None:
    broken = TargetStatus(name="broken", degraded="schemaVersion 9 is newer than 1")
    text = page_with(of_targets(TargetStatus(name="calm"), broken)).text
    assert "Reservations : 1 target takes no announcements" in text.partition("Nodes ready")[0]
    assert "Read-only schemaVersion 9 is newer than 1" in text
    assert text.index("broken") < text.index("calm")


def test_a_target_that_was_not_read_yet_is_not_in_order() -> None:
    text = page_with(of_targets(TargetStatus(name="new", loaded=False))).text
    assert "Not read yet 1" in text
    assert "In order" not in text


def test_starts_tell_how_well_they_are_known_and_which_groups_are_slow() -> None:
    page = page_with(starts_block(lambda: sample_starts(30)))
    assert "Of 1,200 pods, 92% were ready by the worst case; off by 12 s on average." in page.text
    assert "2 pending pods with an estimate, 1 of them overdue." in page.text
    assert f"1 without: {TABLE[UnknownStart][UnknownStart.MAX_SIZE].text}" in page.text
    assert "The 5 most relevant of 30 node groups" in page.text
    assert page.text.index("group-29") < page.text.index("group-28")
    assert "/status/starts" in [link["href"] for link in page.named("a")]


def test_starts_before_anything_is_known() -> None:
    assert "No pod with an estimate has become ready yet." in page_with(starts_block(lambda: sample_starts(0))).text
    nothing = EtaStatus(estimator=PodStartEstimator.PLACEMENT)
    assert "There are no estimates yet" in page_with(starts_block(lambda: nothing)).text


def test_a_standby_replica_shows_the_reservations_that_it_takes() -> None:
    standby = PublishedStatus(process=a_process(leading=False))
    page = page_with(of_targets(TargetStatus(name="gpu", active=2, backlog=1)), status=standby)
    assert "No pass has finished yet." in page.text
    assert [cell["class"] for cell in rows(page, "Target")] == [""]


def hostile() -> Iterable[CompanionSection]:
    yield of_pools(a_pool(name=EVIL, namespace=EVIL, policy=EVIL, reason=EVIL, troubles=(EVIL,)))
    yield of_targets(TargetStatus(name=EVIL, degraded=EVIL, unplaceable={EVIL: 1}))
    starts = msgspec.structs.replace(sample_starts(1))
    yield starts_block(
        lambda: msgspec.structs.replace(
            starts, boots={EVIL: starts.boots["group-0"]}, estimates={EVIL: starts.estimates["ml/train-0"]}
        )
    )


def test_names_of_pools_targets_and_groups_are_escaped() -> None:
    text = status_page(StatusView(sample_status(0)), NOW, PageOptions(), companions=tuple(hostile()))
    assert "<script" not in text
    assert Page(text).text.count("alert") >= 9
