"""Replaces nodes that are needed: those that have a cause, and those that cheaper nodes can replace.

A pass has two such steps. `reserve` runs before pods are sorted: it moves the pods of replacements in progress on the
simulated cluster, so that pending pods do not count on the room bought for them. `run` runs after the scale-up: it
advances each replacement by one stage, buys machines, and begins new replacements. The next step removes nodes that are
ready to go, together with all other removable nodes.
"""

from msgspec.structs import replace

from autoscaler.loop.buying import Buying
from autoscaler.loop.consolidating import Consolidating
from autoscaler.loop.drifting import Drifting, recalled
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.procuring import Procuring
from autoscaler.loop.repairing import with_current_registry
from autoscaler.loop.replacement_filing import ReplacementFiling
from autoscaler.loop.replacement_progress import (
    ReplacementProgress,
    disrupted,
    due,
    limits_of,
    moves,
    report_of,
    reserved,
)
from autoscaler.loop.shrinking import scale_down_context
from autoscaler.loop.stages import Grown, Replaced, Simulated, next_stage, remember
from autoscaler.observe.report import ReplacementReport
from autoscaler.reasons import ReplacementHold, ReplacementStage, ReplacementTrigger, ScaleUpResult
from autoscaler.scaledown import consolidation_backoff, replacement_record
from autoscaler.scaledown import replacement as states
from autoscaler.scaledown.disruption_limits import DisruptionLimits
from autoscaler.scaledown.drain_grace import grace_sightings, with_graces
from autoscaler.scaledown.notices import cooling
from autoscaler.scaledown.relocation import Relocations
from autoscaler.scaledown.repair import sightings
from autoscaler.scaledown.replacement import Replacement, ReplacementMemory
from autoscaler.scaledown.replacement_cause import Cause, CauseContext
from autoscaler.scaledown.replacement_causes import causes_of, seen_with, wanted
from autoscaler.snapshot.groups import Groups

_SPARE_TRIES = 10
"""Number of nodes examined per pass beyond the number of free slots, in case something keeps the first ones."""
_YIELDING = (
    ReplacementHold.NODE_KEPT,
    ReplacementHold.GRACE_OVER,
    ReplacementHold.NO_CAPACITY,
    ReplacementHold.MAX_SIZE,
)
"""Holds of replacements for which nothing was bought, and that let others have their slot."""


class Replacing:
    """Moves replacements from stage to stage."""

    def __init__(self, ports: PassPorts, buying: Buying) -> None:
        self._cloud = ports.cloud
        self._removal = ports.removal
        self._events = ports.events
        self._procuring = Procuring(buying, ports.removal)
        self._filing = ReplacementFiling(ports.removal, ports.events)
        self._drifting = Drifting(ports)
        self._consolidating = Consolidating(ports, self._procuring, self._filing)

    def reserve(self, stage: Simulated) -> Simulated:
        """Return the stage with the causes of replacements, and the pods of replacements in progress on the nodes that
        they will move to.
        """
        if not wanted(stage.config, stage.view.groups):
            return remember(stage, replacements=None)
        memory = stage.memory.replacements or replacement_record.restored(stage.view.nodes, stage.now)
        memory = replace(memory, drift=recalled(stage, memory.drift))
        context = _cause_context(stage, memory)
        causes = causes_of(context)
        memory = replace(
            memory,
            first_seen={**sightings(context), **grace_sightings(causes, context)},
            cooling=cooling(causes, context),
        )
        causes = with_graces(causes, context)
        stage = replace(remember(stage, replacements=memory), causes=causes)
        if not memory.in_progress:
            return stage
        relocations = moves(stage, memory, scale_down_context(stage, self._removal))
        by_node = {cause.node.name: cause for cause in causes}
        forecasts = {
            replacement.id: seen_with(relocations.forecast(replacement), replacement, by_node)
            for replacement in memory.in_progress
        }
        return replace(stage, forecasts=forecasts)

    def run(self, stage: Grown) -> Replaced:
        """Return the stage with replacements advanced, new ones begun, and the nodes that are now ready to go."""
        memory = stage.memory.replacements
        if memory is None:
            leaving = disrupted(None, self._removal.under_way())
            budgets = stage.config.disruption.disruption_budget
            report = ReplacementReport(budgets=DisruptionLimits(budgets, stage.view, leaving, stage.now.wall).uses())
            return next_stage(stage, Replaced, replacements=report, due=(), reserved_nodes={}, disrupted=leaving)
        with stage.time.phase("replace"):
            stage = with_current_registry(stage, self._cloud)
            return self._replaced(ReplacementProgress(stage, memory, stage.forecasts))

    def _replaced(self, progress: ReplacementProgress) -> Replaced:
        progress, options = self._continued(progress), progress.stage.config.replacement
        plan = progress.stage.scale_up.plan
        classes = frozenset(pod.cls for pod in plan.triggered) if plan is not None else frozenset()
        memory = consolidation_backoff.prove_or_back_off(progress.memory, classes, progress.stage.now, options)
        progress = progress.remember(memory)
        grew = progress.stage.scale_up.result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR)
        progress = self._begun(progress, grew=grew)
        if not grew:
            progress = self._consolidating.run(progress)
        progress = self._drifting.followed(progress)
        under_way = self._removal.under_way()
        limits = limits_of(progress, under_way)
        replaced = next_stage(
            remember(progress.stage, replacements=progress.memory),
            Replaced,
            replacements=report_of(progress, self._waiting(progress), limits, grew=grew),
            due=due(progress),
            reserved_nodes=reserved(progress),
            disrupted=disrupted(progress.memory, under_way),
        )
        return with_current_registry(replaced, self._cloud)

    def _moves_now(self, progress: ReplacementProgress) -> Relocations:
        stage = progress.stage
        return moves(stage, progress.memory, scale_down_context(stage, self._removal, stage.displaced_placed))

    def _waiting(self, progress: ReplacementProgress) -> tuple[Cause, ...]:
        return progress.waiting(self._removal.under_way().nodes)

    def _continued(self, progress: ReplacementProgress) -> ReplacementProgress:
        """Advance every replacement in progress."""
        continuing = []
        for before in progress.memory.in_progress:
            forecast = progress.forecasts[before.id]
            after = states.advance(before, forecast, progress.stage.now, progress.stage.config.replacement)
            if after.hold is ReplacementHold.NO_CAPACITY and forecast.lacks:
                stage, after = self._procuring.buy_lacking(progress.stage, after, forecast)
                progress = replace(progress, stage=stage)
            after = states.hurried(after, forecast, progress.stage.now)
            if after.stage is ReplacementStage.PROPOSED and (forecast.held is not None or after.hold in _YIELDING):
                # Nothing was bought for this replacement: let others have its slot.
                progress = self._filing.rested(progress, after)
            elif after.over:
                progress = self._filing.ended(progress, after)
            else:
                if after.stage is not before.stage:
                    self._events.replacement(after, progress.nodes(after))
                continuing.append(after)
        return progress.remember(replace(progress.memory, in_progress=tuple(continuing)))

    def _begun(self, progress: ReplacementProgress, *, grew: bool) -> ReplacementProgress:
        """Begin replacements that have a cause, while slots are free; if the pass grew groups, only urgent ones."""
        tries: dict[ReplacementTrigger | None, int] = {}
        limits = limits_of(progress, self._removal.under_way())
        for cause in self._waiting(progress):
            names = (cause.node.name,)
            if cause.held is not None or (grew and not cause.urgent) or limits.blocker(names, cause.trigger):
                continue
            slots, lane = progress.slots_for(cause), cause.trigger if cause.urgent else None
            left = tries.setdefault(lane, slots + _SPARE_TRIES)
            if slots <= 0 or left <= 0:
                continue
            tries[lane] = left - 1
            progress = self._tried(progress, cause)
            if cause.node.name in (replacement.id for replacement in progress.memory.in_progress):
                limits.take(names, cause.trigger)
        return progress

    def _tried(self, progress: ReplacementProgress, cause: Cause) -> ReplacementProgress:
        """Begin a replacement if its pods fit or capacity for them can be bought; otherwise let the nodes rest."""
        stage = progress.stage
        replacement = Replacement(
            trigger=cause.trigger,
            nodes=(cause.node.name,),
            began=stage.now,
            cause=cause.detail,
            price_before=_price_of(stage.view.groups, cause.node.name),
        )
        with stage.placer.trial.fork() as fork:
            forecast = self._moves_now(progress).forecast(replacement)
            forecast = seen_with(forecast, replacement, {cause.node.name: cause})
            after = states.advance(replacement, forecast, stage.now, stage.config.replacement)
            if after.stage is ReplacementStage.PROPOSED and forecast.lacks and forecast.kept is None:
                stage, after = self._procuring.buy_lacking(stage, after, forecast)
                stage = with_current_registry(stage, self._cloud)
            after = states.hurried(after, forecast, stage.now)
            waits = after.stage is ReplacementStage.PROPOSED and after.hold is ReplacementHold.NOT_READY
            if after.stage in (ReplacementStage.READY, ReplacementStage.BOUGHT) or waits:
                fork.keep()
        return self._filing.begun(replace(progress, stage=stage), after, forecast)


def _cause_context(stage: Simulated, memory: ReplacementMemory) -> CauseContext:
    return CauseContext(
        now=stage.now,
        config=stage.config,
        view=stage.view,
        readings=stage.registry.readings,
        templates=stage.templates,
        silent_s=stage.silent_s,
        memory=memory,
        pauses=stage.pauses,
    )


def _price_of(groups: Groups, name: str) -> float | None:
    group = groups.get(groups.of_node.get(name, ""))
    return None if group is None else group.node_price
