"""Every reason is explained, and docs/reasons.md contains the text of the table."""

import inspect
from enum import StrEnum
from pathlib import Path

import pytest

from autoscaler import reasons
from autoscaler.observe import reason_table
from autoscaler.observe.reason_table import TABLE

ROOT = Path(__file__).parents[3]
KINDS = [
    member
    for _, member in inspect.getmembers(reasons, inspect.isclass)
    if issubclass(member, StrEnum) and member is not StrEnum
]


def test_every_kind_of_reason_is_in_the_table() -> None:
    assert {kind.__name__ for kind in TABLE} == {kind.__name__ for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_reason_is_explained_in_order(kind: type[StrEnum]) -> None:
    assert list(TABLE[kind]) == list(kind)


def test_the_document_is_fresh() -> None:
    text = (ROOT / "docs" / "reasons.md").read_text()
    assert text == reason_table.markdown(), "run: make docs"
