"""Every filter of the scheduler is in the table of what is modelled, and docs/scheduler-filters.md has its text."""

from pathlib import Path

from autoscaler.observe.filter_table import COVERAGE, markdown
from autoscaler.reasons import FILTERS

ROOT = Path(__file__).parents[3]


def test_the_filters_that_are_asked_are_listed_in_their_order() -> None:
    modelled = [row.plugin for row in COVERAGE if row.plugin in {reason.value for reason in FILTERS}]
    assert modelled == [reason.value for reason in FILTERS]


def test_a_plugin_is_modelled_somewhere_or_the_table_says_why_not() -> None:
    for row in COVERAGE:
        assert row.where or row.missing
        assert [path for path in row.where if not (ROOT / "autoscaler" / path).is_file()] == []


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "scheduler-filters.md").read_text() == markdown()
