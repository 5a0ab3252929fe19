"""The replacements of nodes on the status page: what is under way, what waits, and nothing where there is nothing."""

from autoscaler.config.load import from_options
from autoscaler.observe.page.markup import NOTHING
from autoscaler.observe.page.replacements import replacements_table
from autoscaler.observe.status import PublishedStatus
from tests.builders import a_node
from tests.unit.loop.loop_world import NOW, a_spec
from tests.unit.loop.replacing_world import on
from tests.unit.observe.published_world import PublishedWorld


def status(*flags: str) -> PublishedStatus:
    """Return the status after a pass over two full nodes, of which the older one is a day old."""
    nodes = [(a_node("old", created=NOW - 86400.0), "web"), (a_node("new", created=NOW - 600.0), "web")]
    options = dict(flag.split("=", 1) for flag in flags)
    config = from_options({"skip-nodes-with-custom-controller-pods": "false", **options})
    world = PublishedWorld(a_spec("web", boot_s=60), nodes=nodes, config=config)
    world.submit(on("old", "a<b>"), on("new", "b"))
    world.run()
    return world.board.view.status


def test_what_is_under_way_shows_its_reason_and_what_it_waits_for() -> None:
    shown = str(replacements_table(status("max-node-age=12h").replacements))
    assert "<code>old</code>" in shown
    assert "NodeExpired" in shown
    assert "<b>NewNodesNotReady</b> new nodes are on their way" in shown
    assert "1 replacement" in shown


def test_what_has_not_begun_shows_why() -> None:
    shown = str(replacements_table(status("max-node-age=12h", "max-nodes-total=2").replacements))
    assert "<b>NoGroupCanReplace</b>" in shown
    assert "Proposed" in shown
    assert "<b>" not in shown.replace("<b>NoGroupCanReplace</b>", "")


def test_there_is_no_table_without_replacements() -> None:
    assert replacements_table(status().replacements) == NOTHING
