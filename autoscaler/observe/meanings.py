"""Looks up the meaning of reasons for the API and the page."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

from autoscaler.observe import reason_table

GivenReason = tuple[str, Sequence[type[StrEnum]]]
"""A reason, and the enumerations that may define it."""


class ReasonMeaning(msgspec.Struct, frozen=True):
    """What a reason means, and what helps; `remedy` is empty where nothing needs to be done."""

    reason: str
    text: str
    remedy: str


def meanings(given: Iterable[GivenReason]) -> Iterator[ReasonMeaning]:
    """Yield the meaning of each word once, in order; unknown words are left out."""
    for reason, kinds in dict.fromkeys((reason, tuple(kinds)) for reason, kinds in given):
        meaning = reason_table.meaning(reason, kinds)
        if meaning is not None:
            yield ReasonMeaning(str(reason), meaning.text, meaning.remedy)
