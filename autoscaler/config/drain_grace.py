"""How long disruption budgets may hold up the replacement of a node, as `reason=grace[;group=name][;overrule]`."""

from typing import Annotated

import msgspec

from autoscaler.config.syntax import parse_span_s
from autoscaler.reasons import ReplacementTrigger
from cloudprovider.duration import show_duration
from cloudprovider.nearest import nearest
from cloudprovider.structure import Syntax

_FORM = "reason=grace[;group=name][;overrule]"
_EXAMPLE = "expiry=24h;overrule"
_OVERRULE = "overrule"
_REASONS = {
    "drift": ReplacementTrigger.DRIFTED,
    "expiry": ReplacementTrigger.EXPIRED,
    "notice": ReplacementTrigger.ADVISED,
    "repair": ReplacementTrigger.UNHEALTHY,
    "request": ReplacementTrigger.REQUESTED,
}


class DrainGrace(msgspec.Struct, frozen=True):
    """From `grace_s` seconds after a node should have been replaced, budgets that keep it are told or overruled."""

    trigger: ReplacementTrigger
    grace_s: float
    group: str | None = None
    """None: of every group that has no grace of its own for this trigger."""
    overrule: bool = False
    """Whether pods are deleted although their budget forbids it; otherwise people are told."""


def parse_grace(text: str) -> tuple[DrainGrace, ...]:
    """Read one grace; `ValueError` names the part that is wrong."""
    first, *more = (part.strip() for part in text.split(";"))
    reason, equals, grace = first.partition("=")
    if not equals:
        raise ValueError(f"is not {_FORM}; write for example {_EXAMPLE}")
    trigger = _REASONS.get(reason)
    if trigger is None:
        raise ValueError(f'has a reason "{reason}" that is not one of {", ".join(_REASONS)}{nearest(reason, _REASONS)}')
    group, overrule = None, False
    for part in more:
        key, _, name = part.partition("=")
        if part == _OVERRULE and not overrule:
            overrule = True
        elif key == "group" and name and group is None:
            group = name
        else:
            raise ValueError(f'has a part "{part}" that is neither group=name nor {_OVERRULE}')
    return (DrainGrace(trigger, parse_span_s(grace, "grace", "24h", zero=True), group, overrule),)


def show_graces(graces: tuple[DrainGrace, ...]) -> str:
    """Write a grace as its text; a flag shows one at a time."""
    return " ".join(map(_show_grace, graces))


def _show_grace(grace: DrainGrace) -> str:
    reason = next(word for word, trigger in _REASONS.items() if trigger is grace.trigger)
    group = "" if grace.group is None else f";group={grace.group}"
    return f"{reason}={show_duration(grace.grace_s)}{group}{f';{_OVERRULE}' if grace.overrule else ''}"


def grace_of(graces: tuple[DrainGrace, ...], trigger: ReplacementTrigger, group: str) -> DrainGrace | None:
    """Return the grace for replacements of a group's nodes: its own or, without one, that of all groups."""
    of_trigger = [grace for grace in graces if grace.trigger is trigger]
    own = (grace for grace in of_trigger if grace.group == group)
    return next(own, next((grace for grace in of_trigger if grace.group is None), None))


DrainGraces = Annotated[tuple[DrainGrace, ...], Syntax(f"{_FORM}, repeatable", parse_grace, show_graces, repeated=True)]
