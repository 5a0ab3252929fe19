"""The state of all replacements during one step of a pass, and what the pass reports about them."""

from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from autoscaler.config.disruption_budgets import EMPTY, UNNEEDED
from autoscaler.loop.stages import Grown, Simulated
from autoscaler.objects.node import Node
from autoscaler.observe.report import ReplacementReport
from autoscaler.reasons import (
    ReplacementHold,
    ReplacementStage,
    ReplacementTrigger,
    UnremovableNode,
    UnremovableReason,
)
from autoscaler.scaledown.disruption_limits import DisruptionLimits
from autoscaler.scaledown.plan import OngoingRemovals, Removal, ScaleDownContext
from autoscaler.scaledown.relocation import Relocations
from autoscaler.scaledown.replacement import (
    HeldBack,
    Replacement,
    ReplacementBackoff,
    ReplacementForecast,
    ReplacementMemory,
)
from autoscaler.scaledown.replacement_cause import Cause
from autoscaler.scaledown.replacement_causes import URGENT


class ReplacementProgress(msgspec.Struct, frozen=True):
    """The state of all replacements during one step."""

    stage: Grown
    memory: ReplacementMemory
    forecasts: Mapping[str, ReplacementForecast]
    """Forecasts by replacement id, including replacements that this step began."""
    ended: tuple[Replacement, ...] = ()

    def remember(self, memory: ReplacementMemory) -> "ReplacementProgress":
        """Return the same progress with another memory."""
        return replace(self, memory=memory)

    @property
    def slots(self) -> int:
        """How many more replacements may begin that are not urgent."""
        begun = sum(replacement.trigger not in URGENT for replacement in self.memory.in_progress)
        return self.stage.config.replacement.max_replacements - begun

    def slots_for(self, cause: Cause) -> int:
        """Return how many more replacements may begin for a cause."""
        if cause.limit is None:
            return self.slots
        return cause.limit - sum(replacement.trigger is cause.trigger for replacement in self.memory.in_progress)

    @property
    def resting(self) -> dict[str, ReplacementBackoff]:
        """The nodes whose replacement is not tried now, by name."""
        now = self.stage.now
        return {name: rest for name, rest in self.memory.rests.items() if rest.until.mono > now.mono}

    def busy(self, under_way: Collection[str]) -> Collection[str]:
        """Return the nodes that must not be replaced now: in progress, resting, unneeded, or being removed."""
        return self.taken(under_way).union(removal.node.name for removal in self.stage.memory.unneeded)

    def taken(self, under_way: Collection[str]) -> frozenset[str]:
        """Return the nodes that not even an urgent cause replaces now: in progress, resting, or being removed."""
        return frozenset((*_in_progress(self.memory), *self.resting, *under_way))

    def waiting(self, under_way: Collection[str]) -> tuple[Cause, ...]:
        """Return the causes of nodes that may be replaced now; scale-down removes unneeded ones that are not urgent."""
        busy, taken = self.busy(under_way), self.taken(under_way)
        resting = {name for name, rest in self.resting.items() if rest.hold is not ReplacementHold.OUTLIVED}
        leaving = taken.difference(resting).union(_in_progress(self.memory), under_way)

        def held(cause: Cause) -> Collection[str]:
            if cause.deadline is not None:
                return leaving
            return taken if cause.urgent else busy

        return tuple(cause for cause in self.stage.causes if cause.node.name not in held(cause))

    def nodes(self, replacement: Replacement) -> list[Node]:
        """Return the nodes of a replacement that still exist."""
        return [node for name in replacement.nodes if (node := self.stage.view.node(name)) is not None]


def moves(stage: Simulated, memory: ReplacementMemory, context: ScaleDownContext) -> Relocations:
    """Return a simulation of moves in which no pod moves to a node that is itself about to go."""
    leaving = [cause.node.name for cause in stage.causes if cause.deadline is not None]
    avoided = [*_in_progress(memory), *(removal.node.name for removal in stage.memory.unneeded), *leaving]
    return Relocations(stage.placer, context, stage.templates, stage.registry.upcoming, avoided, stage.causes)


def _in_progress(memory: ReplacementMemory) -> list[str]:
    return [name for replacement in memory.in_progress for name in replacement.nodes]


def rest_shortly(progress: ReplacementProgress, replacement: Replacement) -> ReplacementProgress:
    """Let the nodes of a replacement rest for a while, because something keeps them or nothing could be bought."""
    memory, stage = progress.memory, progress.stage
    until = stage.now.later(stage.config.scale_down.unremovable_node_recheck_timeout_s)
    rests = dict(memory.rests)
    for name in replacement.nodes:
        failures = rests[name].failures if name in rests else 0
        rests[name] = ReplacementBackoff(
            until=until,
            hold=replacement.hold or ReplacementHold.NODE_KEPT,
            detail=replacement.detail,
            failures=failures,
        )
    return progress.remember(replace(memory, rests=rests))


def disrupted(memory: ReplacementMemory | None, under_way: OngoingRemovals) -> dict[str, str]:
    """Return why nodes are disrupted now, by name: they are being replaced or removed."""
    reasons = {name: EMPTY if name in under_way.empty_nodes else UNNEEDED for name in sorted(under_way.nodes)}
    for replacement in () if memory is None else memory.in_progress:
        reasons.update(dict.fromkeys(replacement.nodes, replacement.trigger.value))
    return reasons


def limits_of(progress: ReplacementProgress, under_way: OngoingRemovals) -> DisruptionLimits:
    """Return what disruption budgets leave beside replacements in progress and removals under way."""
    stage = progress.stage
    budgets = stage.config.disruption.disruption_budget
    return DisruptionLimits(budgets, stage.view, disrupted(progress.memory, under_way), stage.now.wall)


def report_of(
    progress: ReplacementProgress, waiting: Collection[Cause], limits: DisruptionLimits, *, grew: bool
) -> ReplacementReport:
    """Return the replacements, and why nodes that should be replaced wait: they rest, or it is not their turn."""
    turns = {}
    for cause in waiting:
        turn = ReplacementHold.PODS_FIRST if grew and not cause.urgent else ReplacementHold.TOO_MANY
        blocker = limits.blocker((cause.node.name,), cause.trigger)
        held = cause.held or HeldBack(ReplacementHold.DISRUPTION_BUDGET if blocker else turn, blocker)
        turns[cause.node.name] = ReplacementBackoff(until=progress.stage.now, hold=held.hold, detail=held.detail)
    return ReplacementReport(
        all=(*progress.memory.in_progress, *progress.ended),
        held={**turns, **progress.resting},
        budgets=limits.uses(),
        drifted=sum(cause.trigger is ReplacementTrigger.DRIFTED for cause in progress.stage.causes),
    )


def due(progress: ReplacementProgress) -> tuple[Removal, ...]:
    """Return the removals of nodes whose pods fit on ready nodes, and of those that wait for that no longer."""
    return tuple(
        removal
        for replacement in progress.memory.in_progress
        if _may_go(replacement, progress.forecasts[replacement.id])
        for removal in progress.forecasts[replacement.id].removals
    )


def _may_go(replacement: Replacement, forecast: ReplacementForecast) -> bool:
    if replacement.stage is ReplacementStage.READY:
        return True
    waits = forecast.lacks or forecast.awaited or not forecast.arrived
    return replacement.stage is ReplacementStage.DRAINING and not waits


def reserved(progress: ReplacementProgress) -> dict[str, UnremovableNode]:
    """Return the nodes that scale-down leaves alone: old ones, and the new ones bought for their pods."""
    nodes: dict[str, UnremovableNode] = {}
    for replacement in progress.memory.in_progress:
        hold = "" if replacement.hold is None else f", {replacement.hold}: {replacement.detail}"
        why = f"{replacement.trigger}: {replacement.cause}" if replacement.cause else replacement.trigger.value
        detail = f"{why}, {replacement.stage}{hold}"
        for name in replacement.nodes:
            nodes[name] = UnremovableNode(name, UnremovableReason.BEING_REPLACED, detail)
        detail = f"holds room for pods of {', '.join(replacement.nodes)}"
        for name in progress.forecasts[replacement.id].new:
            nodes.setdefault(name, UnremovableNode(name, UnremovableReason.REPLACES_OTHERS, detail))
    return nodes
