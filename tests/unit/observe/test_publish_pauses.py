"""Pauses where people look: headline, status page, status ConfigMap, metric and log."""

from autoscaler.observe.http.public_json import public
from autoscaler.observe.page.document import PageOptions
from autoscaler.observe.page.page import status_page
from autoscaler.observe.status import Tone
from autoscaler.sandbox.capacity_objects import put_objects
from tests.builders import a_node, pauses
from tests.unit.loop.loop_world import NOW, a_spec
from tests.unit.observe.published_world import PublishedWorld

FREEZE = "{scope: disruption, until: 2026-08-01T12:00:00Z, groups: [web], by: jane, reason: '<script>\u202e'}"
SAID = "disruption of web is paused until 2026-08-01T12:00:00Z by jane: <script>\\u202e"


def a_world(**entries: str) -> PublishedWorld:
    world = PublishedWorld(a_spec("web", min_size=1), nodes=[(a_node("n1"), "web")])
    put_objects(world.writes, pauses(**entries))
    world.run()
    return world


def test_a_pause_is_told_wherever_people_look_and_harms_nothing_there() -> None:
    world = a_world(freeze=FREEZE)
    status = world.board.view.status
    assert status.headline is not None
    assert status.headline.text == f"D{SAID[1:]}. Every pod has a node."
    assert status.headline.tone is Tone.GOOD
    (shown,) = public(status)["pauses"]
    assert (shown["name"], shown["scope"], shown["groups"], shown["by"]) == ("freeze", "disruption", ["web"], "jane")
    assert (shown["sinceAt"], shown["untilAt"]) == (None, "2026-08-01T12:00:00.000Z")
    assert world.status()["paused"] == SAID
    assert (world.series()['pauses{scope="disruption"}'], world.series()['pauses{scope="all"}']) == (1, 0)
    page = str(status_page(world.board.view, NOW, PageOptions()))
    assert "Paused (<code>freeze</code>): disruption of web is paused" in page
    assert "<script>" not in page


def test_a_pause_that_cannot_be_read_needs_a_person() -> None:
    status = a_world(freeze="scope: everything").board.view.status
    assert status.headline is not None
    assert status.headline.text.startswith("The pause freeze cannot be read, so disruption is paused: scope: ")
    assert status.headline.tone is Tone.BAD


def test_many_pauses_are_counted() -> None:
    status = a_world(a="scope: drift", b="scope: drift", c="scope: drift").board.view.status
    assert status.headline is not None
    assert "1 more is paused." in status.headline.text
    assert len(status.pauses) == 3


def test_when_a_pause_is_over_nothing_tells_of_it() -> None:
    world = a_world(freeze=FREEZE)
    world.writes.put_config_map("kube-system", "cluster-autoscaler-pause", {"freeze": None})
    world.run(after_s=15)
    assert world.board.view.status.pauses == ()
    assert "paused" not in world.status()
    assert world.series()['pauses{scope="disruption"}'] == 0
