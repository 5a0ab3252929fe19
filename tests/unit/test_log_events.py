"""docs/log-events.md has every event that the code logs, and no other."""

from tests.log_events import MEANINGS, ROOT, logged, markdown


def test_every_event_has_a_meaning_and_every_meaning_an_event() -> None:
    assert set(logged()) == set(MEANINGS), "add what is missing to tests/log_events.py"


def test_events_are_found_with_their_levels_and_fields() -> None:
    found = logged()
    assert found["scale_up.decided"] == ({"info"}, dict.fromkeys(("group", "add", "size", "pods")))
    assert found["cluster.unhealthy"] == ({"warning"}, {"unready": None})  # named by a table of the module
    assert found["azure.operation_failed"] == ({"warning"}, dict.fromkeys(("group", "code", "error")))
    assert found["aws.no_template"] == ({"warning"}, dict.fromkeys(("group", "why")))


def test_the_document_is_fresh() -> None:
    assert (ROOT / "docs" / "log-events.md").read_text() == markdown(), "run: make docs"
