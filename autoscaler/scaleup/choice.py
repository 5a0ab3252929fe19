"""The answers of expanders: the remaining options, the reason, and messages."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from autoscaler.ports import ExpanderAnswer, Subject
from autoscaler.scaleup.option import Option
from autoscaler.scheduling.preferences import Preference


class ExpanderWarning(msgspec.Struct, frozen=True):
    """Something that deserves a warning event."""

    about: Subject
    reason: StrEnum
    message: str


class PreferredBy(msgspec.Struct, frozen=True, kw_only=True):
    """Why an option was preferred to others."""

    group: str
    pods: int
    """Pods that prefer it to every other option."""
    of: int
    """Pods that it helps."""
    plugin: Preference
    """What tells most of these pods."""
    detail: str
    """What it likes: labels of the node, or taints that it lacks; may be empty."""

    @property
    def text(self) -> str:
        """A sentence without its end."""
        pods, verb = "pod" if self.of == 1 else "pods", "prefers" if self.pods == 1 else "prefer"
        return f"{self.pods} of {self.of} {pods} {verb} {self.detail or f'group {self.group}'} ({self.plugin})"


class RatedOptions(msgspec.Struct, frozen=True):
    """The options that stay, and what is to be said about it."""

    options: tuple[Option, ...]
    occurrences: tuple[ExpanderWarning, ...] = ()
    answer: ExpanderAnswer | None = None
    """What a remote expander answered; None: none was asked."""
    scores: tuple[float | None, ...] = ()
    """How each of the options asked about was rated, None where that was not possible; empty: not by numbers."""
    preference: PreferredBy | None = None
    abstains: bool = False
    """Whether it has no opinion, so that there is no step to tell of."""


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
    preference: PreferredBy | None = None
    """Why the first of the groups kept was preferred."""


class Choice(msgspec.Struct, frozen=True):
    """The option chosen, the steps that led to it, warnings on the way, and answers of remote expanders."""

    option: Option | None
    """None: the expanders want none of the options."""
    steps: tuple[ExpanderStep, ...] = ()
    occurrences: tuple[ExpanderWarning, ...] = ()
    answers: tuple[ExpanderAnswer, ...] = ()
