"""Why nodes that are needed are replaced: an ordered list of causes, the most urgent first.

Once no cause lists a node any more, its replacement is withdrawn, unless its trigger is `LASTING`. Consolidation is no
cause: it chooses several nodes together, and what comes in their place.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.objects.node import Node
from autoscaler.reasons import ReplacementHold, ReplacementTrigger
from autoscaler.scaledown.drift_rollout import drifted
from autoscaler.scaledown.notices import advised, noticed
from autoscaler.scaledown.pause import kept_by_pause, scope_of
from autoscaler.scaledown.repair import unhealthy
from autoscaler.scaledown.replacement import HeldBack, Replacement, ReplacementForecast, due_age_s, requested
from autoscaler.scaledown.replacement_cause import Cause, CauseContext, CauseSource
from autoscaler.snapshot.groups import Groups


def asked_for(context: CauseContext) -> Iterator[Cause]:
    """Yield the nodes that operators ask to replace, oldest first."""
    if context.config.replacement.replace_annotated_nodes:
        for node in _oldest_first(context):
            if requested(node):
                yield Cause(trigger=ReplacementTrigger.REQUESTED, node=node)


def expired(context: CauseContext) -> Iterator[Cause]:
    """Yield the nodes that are older than their group allows, oldest first."""
    groups, options = context.view.groups, context.config.replacement
    due_ages = {group.id: age_s for group in groups.all if (age_s := due_age_s(group, options)) is not None}
    for node in _oldest_first(context) if due_ages else ():
        age_s = due_ages.get(groups.of_node.get(node.name, ""))
        if age_s is not None and context.now.wall - node.created > age_s:
            due = context.now.later(node.created + age_s - context.now.wall)
            yield Cause(trigger=ReplacementTrigger.EXPIRED, node=node, since=due)


SOURCES: tuple[CauseSource, ...] = (noticed, unhealthy, asked_for, advised, drifted, expired)
"""In order of urgency; a node that several list has the first one's cause."""

URGENT = frozenset((ReplacementTrigger.NOTICED, ReplacementTrigger.UNHEALTHY))
"""Triggers whose causes are urgent."""

LASTING = frozenset((ReplacementTrigger.EXPIRED, ReplacementTrigger.CHEAPER))
"""Triggers whose replacements go on although no source lists their nodes."""


def causes_of(context: CauseContext) -> tuple[Cause, ...]:
    """Return the cause of each node that has one, the most urgent first."""
    chosen: dict[str, Cause] = {}
    for source in SOURCES:
        for cause in source(context):
            chosen.setdefault(cause.node.name, cause)
    return tuple(_unless_paused(cause, context) for cause in chosen.values())


def _unless_paused(cause: Cause, context: CauseContext) -> Cause:
    """Return the cause, held back while its node, its group or the whole cluster is paused."""
    group = context.view.groups.of_node.get(cause.node.name, "")
    kept = kept_by_pause(context.pauses, scope_of(cause.trigger), cause.node, group, context.now.wall)
    return cause if kept is None else msgspec.structs.replace(cause, held=HeldBack(ReplacementHold.PAUSED, kept.detail))


def wanted(config: Config, groups: Groups) -> bool:
    """Whether scale-down is enabled, and the configuration or any group asks for replacements."""
    options = config.replacement
    aged = options.max_node_age_s > 0 or any(group.settings.max_node_age_s for group in groups.all)
    asked = config.repair.node_repair_policy or config.notices.node_notices or config.drift.drift
    on = bool(asked) or aged or options.replace_annotated_nodes or options.consolidation
    return on and config.scale_down.scale_down_enabled


def seen_with(
    forecast: ReplacementForecast, replacement: Replacement, causes_by_node: Mapping[str, Cause]
) -> ReplacementForecast:
    """Return the forecast with what the causes of its nodes say."""
    listed = [cause for name in replacement.nodes if (cause := causes_by_node.get(name)) is not None]
    return msgspec.structs.replace(
        forecast,
        withdrawn=not listed and replacement.trigger not in LASTING,
        grace_over=next((cause.grace_over for cause in listed), ""),
        held=next((cause.held for cause in listed if cause.held is not None), None),
        leave_at=_first(cause.leave_at for cause in listed),
        deadline=_first(cause.deadline for cause in listed),
    )


def _first(moments: Iterable[Instant | None]) -> Instant | None:
    known = (moment for moment in moments if moment is not None)
    return min(known, key=lambda moment: moment.mono, default=None)


def _oldest_first(context: CauseContext) -> list[Node]:
    return sorted(context.view.nodes, key=lambda node: (node.created, node.name))
