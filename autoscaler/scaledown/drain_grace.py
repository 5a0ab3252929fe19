"""When disruption budgets have held up a replacement for long enough, and what happens then."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.config.drain_grace import DrainGrace, grace_of
from autoscaler.scaledown.replacement_cause import Cause, CauseContext
from cloudprovider.duration import show_duration


def with_graces(causes: Iterable[Cause], context: CauseContext) -> tuple[Cause, ...]:
    """Return the causes, each with what happens to budgets now if its grace is over."""
    if not context.config.replacement.drain_grace:
        return tuple(causes)
    return tuple(_with_grace(cause, context) for cause in causes)


def _with_grace(cause: Cause, context: CauseContext) -> Cause:
    grace = _grace_of(cause, context)
    if grace is None:
        return cause
    since = cause.since or context.memory.first_seen.get(_key(cause), context.now)
    if context.now.mono < since.mono + grace.grace_s:
        return cause
    text = f"the grace of {show_duration(grace.grace_s)} is over ({cause.trigger})"
    return replace(cause, overrules=text) if grace.overrule else replace(cause, grace_over=text)


def grace_sightings(causes: Iterable[Cause], context: CauseContext) -> Mapping[str, Instant]:
    """Return since when nodes have had causes that do not tell their time, as far as a grace asks for it."""
    if not context.config.replacement.drain_grace:
        return {}
    return {
        _key(cause): context.memory.first_seen.get(_key(cause), context.now)
        for cause in causes
        if cause.since is None and _grace_of(cause, context) is not None
    }


def _grace_of(cause: Cause, context: CauseContext) -> DrainGrace | None:
    group = context.view.groups.of_node.get(cause.node.name, "")
    return grace_of(context.config.replacement.drain_grace, cause.trigger, group)


def _key(cause: Cause) -> str:
    return f"{cause.node.uid or cause.node.name}/{cause.trigger}"
