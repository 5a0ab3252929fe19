"""The answers of expanders: the remaining options, the reason, and messages."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from autoscaler.ports import ExpanderAnswer, Subject
from autoscaler.scaleup.option import Option


class ExpanderWarning(msgspec.Struct, frozen=True):
    """Something that deserves a warning event."""

    about: Subject
    reason: StrEnum
    message: str


class RatedOptions(msgspec.Struct, frozen=True):
    """The options that stay, and what is to be said about it."""

    options: tuple[Option, ...]
    occurrences: tuple[ExpanderWarning, ...] = ()
    answer: ExpanderAnswer | None = None
    """What a remote expander answered; None: none was asked."""
    scores: tuple[float | None, ...] = ()
    """How each of the options asked about was rated, None where that was not possible; empty: not by numbers."""


def rated(options: Sequence[Option], scores: Sequence[float | None], best: float | None) -> RatedOptions:
    """Return the options of the best score."""
    kept = (option for option, score in zip(options, scores, strict=True) if score is not None and score == best)
    return RatedOptions(tuple(kept), scores=tuple(scores))


class ExpanderStep(msgspec.Struct, frozen=True):
    """What one expander left, as group ids."""

    expander: str
    kept: tuple[str, ...]
    scores: Mapping[str, float | None] = {}
    """Its score of every group that it compared; empty where it uses no scores."""


class Choice(msgspec.Struct, frozen=True):
    """The option chosen, the steps that led to it, warnings on the way, and answers of remote expanders."""

    option: Option | None
    """None: the expanders want none of the options."""
    steps: tuple[ExpanderStep, ...] = ()
    occurrences: tuple[ExpanderWarning, ...] = ()
    answers: tuple[ExpanderAnswer, ...] = ()
