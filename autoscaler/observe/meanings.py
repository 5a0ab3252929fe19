"""Looks up the meaning of reasons for the API and the page."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

from autoscaler.observe import reason_table

GivenReason = tuple[str, Sequence[type[StrEnum]]]
"""A reason, and the kinds of which it can be."""


class ReasonMeaning(msgspec.Struct, frozen=True):
    """What a reason means, and what helps; `remedy` is empty where nothing needs to be done."""

    reason: str
    text: str
    remedy: str


def meanings(given: Iterable[GivenReason]) -> Iterator[ReasonMeaning]:
    """Explain each word once, in order; one that is no reason of ours is left out."""
    for reason, kinds in dict.fromkeys((reason, tuple(kinds)) for reason, kinds in given):
        meaning = reason_table.meaning(reason, kinds)
        if meaning is not None:
            yield ReasonMeaning(str(reason), meaning.text, meaning.remedy)
