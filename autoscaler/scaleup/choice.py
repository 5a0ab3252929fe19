"""What expanders say: the options that stay, why, and what people should know about it."""

from enum import StrEnum

import msgspec

from autoscaler.ports import ExpanderAnswer, Subject
from autoscaler.scaleup.option import Option


class Occurrence(msgspec.Struct, frozen=True):
    """Something that deserves a warning event."""

    about: Subject
    reason: StrEnum
    message: str


class Weighed(msgspec.Struct, frozen=True):
    """The options that stay, and what is to be said about it."""

    options: tuple[Option, ...]
    occurrences: tuple[Occurrence, ...] = ()
    answer: ExpanderAnswer | None = None
    """What a remote expander answered; None: none was asked."""


class Step(msgspec.Struct, frozen=True):
    """What one expander left, as group ids."""

    expander: str
    kept: tuple[str, ...]


class Choice(msgspec.Struct, frozen=True):
    """The option chosen, how it came to be, warnings on the way, and answers that came from elsewhere."""

    option: Option | None
    """None: the expanders want none of the options."""
    steps: tuple[Step, ...] = ()
    occurrences: tuple[Occurrence, ...] = ()
    answers: tuple[ExpanderAnswer, ...] = ()
