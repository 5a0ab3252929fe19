"""Replaces nodes that are needed: old ones, those that a user asks to replace, and those that cheaper nodes can
replace.

A pass has two such steps. `reserve` runs before pods are sorted: it moves the pods of replacements in progress on the
simulated cluster, so that pending pods do not count on the room bought for them. `run` runs after the scale-up: it
advances each replacement by one stage, buys machines, and begins new replacements. The next step removes nodes that are
ready to go, together with all other removable nodes.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from autoscaler.config.tree import Config
from autoscaler.loop import consolidating
from autoscaler.loop.buying import Buying
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.procuring import Procuring
from autoscaler.loop.repairing import with_current_registry
from autoscaler.loop.shrinking import scale_down_context
from autoscaler.loop.stages import Grown, Replaced, Simulated, next_stage, remember
from autoscaler.objects.node import Node
from autoscaler.observe.report import ReplacementReport
from autoscaler.reasons import (
    ReplacementHold,
    ReplacementStage,
    ReplacementTrigger,
    ScaleUpResult,
    UnremovableNode,
    UnremovableReason,
)
from autoscaler.scaledown import consolidation_backoff, replacement_record
from autoscaler.scaledown import replacement as states
from autoscaler.scaledown.consolidation import Proposal, propose
from autoscaler.scaledown.plan import Removal, ScaleDownContext
from autoscaler.scaledown.relocation import Relocations
from autoscaler.scaledown.replacement import (
    Replacement,
    ReplacementBackoff,
    ReplacementForecast,
    ReplacementMemory,
    UnprovenConsolidation,
)
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups
from autoscaler.snapshot.template import UPCOMING

_SPARE_TRIES = 10
"""Number of nodes examined per pass beyond the number of free slots, in case something keeps the first ones."""


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


class Replacing:
    """Moves replacements from stage to stage."""

    def __init__(self, ports: PassPorts, buying: Buying) -> None:
        self._cloud = ports.cloud
        self._removal = ports.removal
        self._events = ports.events
        self._procuring = Procuring(buying, ports.removal)

    def reserve(self, stage: Simulated) -> Simulated:
        """Return the stage with the pods of replacements in progress on the nodes that they will move to."""
        if not _wanted(stage.config, stage.view.groups):
            return remember(stage, replacements=None)
        memory = stage.memory.replacements or replacement_record.restored(stage.view.nodes, stage.now)
        stage = remember(stage, replacements=memory)
        if not memory.in_progress:
            return stage
        moves = _moves(stage, memory, scale_down_context(stage, self._removal))
        return replace(
            stage, forecasts={replacement.id: moves.forecast(replacement) for replacement in memory.in_progress}
        )

    def run(self, stage: Grown) -> Replaced:
        """Return the stage with replacements advanced, new ones begun, and the nodes that are now ready to go."""
        memory = stage.memory.replacements
        if memory is None:
            return next_stage(stage, Replaced, replacements=ReplacementReport(), due=(), reserved_nodes={})
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
        if not grew:
            progress = self._consolidated(self._begun(progress))
        memory, forecasts = progress.memory, progress.forecasts
        held = self._held(progress, ReplacementHold.PODS_FIRST if grew else ReplacementHold.TOO_MANY)
        replaced = next_stage(
            remember(progress.stage, replacements=memory),
            Replaced,
            replacements=ReplacementReport(all=(*memory.in_progress, *progress.ended), held=held),
            due=_due(memory, forecasts),
            reserved_nodes=_reserved(memory, forecasts),
        )
        return with_current_registry(replaced, self._cloud)

    def _context(self, stage: Grown) -> ScaleDownContext:
        return scale_down_context(stage, self._removal, stage.displaced_placed)

    def _moves_now(self, progress: ReplacementProgress) -> Relocations:
        return _moves(progress.stage, progress.memory, self._context(progress.stage))

    # Replacements in progress.

    def _continued(self, progress: ReplacementProgress) -> ReplacementProgress:
        """Advance every replacement in progress."""
        continuing = []
        for before in progress.memory.in_progress:
            forecast = progress.forecasts[before.id]
            after = states.advance(before, forecast, progress.stage.now, progress.stage.config.replacement)
            if after.hold is ReplacementHold.NO_CAPACITY and forecast.lacks:
                stage, after = self._procuring.buy_lacking(progress.stage, after, forecast)
                progress = replace(progress, stage=stage)
            if after.stage is ReplacementStage.PROPOSED and after.hold in (
                ReplacementHold.NODE_KEPT,
                ReplacementHold.NO_CAPACITY,
                ReplacementHold.MAX_SIZE,
            ):
                # Nothing was bought for this replacement: let others have its slot.
                progress = _rest_shortly(progress, after)
            elif after.over:
                progress = self._ended(progress, after)
            else:
                if after.stage is not before.stage:
                    self._events.replacement(after, _nodes(progress.stage.view, after))
                continuing.append(after)
        return progress.remember(replace(progress.memory, in_progress=tuple(continuing)))

    def _ended(self, progress: ReplacementProgress, replacement: Replacement) -> ReplacementProgress:
        """End a replacement. Nodes that stay rest for a while, and an annotation keeps that through a restart."""
        stage, memory, options = progress.stage, progress.memory, progress.stage.config.replacement
        self._events.replacement(replacement, _nodes(stage.view, replacement))
        progress = replace(progress, ended=(*progress.ended, replacement))
        if replacement.stage is ReplacementStage.DONE:
            return progress
        rests = dict(memory.rests)
        for name in replacement.nodes:
            if stage.view.node(name) is None:
                continue
            if replacement.hold is ReplacementHold.WITHDRAWN:
                self._removal.annotate(name, {replacement_record.STATE: None})
                continue
            rests[name] = states.next_backoff(memory.rests.get(name), replacement, stage.now, options)
            if replacement.bought:
                text = replacement_record.record_of(replacement, rests[name])
                self._removal.annotate(name, {replacement_record.STATE: text})
        memory = replace(memory, rests=rests)
        if replacement.trigger is ReplacementTrigger.CHEAPER:
            memory = consolidation_backoff.backed_off(memory, stage.now, options)
        return progress.remember(memory)

    # New replacements.

    def _begun(self, progress: ReplacementProgress) -> ReplacementProgress:
        """Begin to replace requested and old nodes, up to the maximum number in progress."""
        tries = _slots(progress) + _SPARE_TRIES
        for trigger, node in self._replaceable(progress):
            if _slots(progress) <= 0 or tries <= 0:
                break
            tries -= 1
            replacement = Replacement(
                trigger=trigger,
                nodes=(node.name,),
                began=progress.stage.now,
                price_before=_price_of(progress.stage.view.groups, [node.name]),
            )
            progress = self._tried(progress, replacement)
        return progress

    def _tried(self, progress: ReplacementProgress, replacement: Replacement) -> ReplacementProgress:
        """Begin a replacement if its pods fit or capacity for them can be bought; otherwise let the nodes rest."""
        stage = progress.stage
        with stage.placer.trial.fork() as fork:
            forecast = self._moves_now(progress).forecast(replacement)
            after = states.advance(replacement, forecast, stage.now, stage.config.replacement)
            if after.stage is ReplacementStage.PROPOSED and forecast.lacks and forecast.kept is None:
                stage, after = self._procuring.buy_lacking(stage, after, forecast)
                stage = with_current_registry(stage, self._cloud)
            waits = after.stage is ReplacementStage.PROPOSED and after.hold is ReplacementHold.NOT_READY
            if after.stage in (ReplacementStage.READY, ReplacementStage.BOUGHT) or waits:
                fork.keep()
        return self._filed(replace(progress, stage=stage), after, forecast)

    def _filed(
        self, progress: ReplacementProgress, replacement: Replacement, forecast: ReplacementForecast
    ) -> ReplacementProgress:
        if replacement.over:
            return self._ended(progress, replacement)
        if replacement.stage is ReplacementStage.PROPOSED and replacement.hold is not ReplacementHold.NOT_READY:
            return _rest_shortly(progress, replacement)
        self._events.replacement(replacement, _nodes(progress.stage.view, replacement))
        memory = progress.memory
        return replace(
            progress,
            memory=replace(memory, in_progress=(*memory.in_progress, replacement)),
            forecasts={**progress.forecasts, replacement.id: forecast},
        )

    def _replaceable(self, progress: ReplacementProgress) -> Iterator[tuple[ReplacementTrigger, Node]]:
        """Yield requested nodes, then old ones, oldest first; skip busy nodes."""
        stage, busy = progress.stage, self._busy(progress)
        options, wall = stage.config.replacement, stage.now.wall
        nodes = [node for node in stage.view.nodes if node.name not in busy]
        nodes.sort(key=lambda node: (node.created, node.name))
        asked_for = {node.name for node in nodes if options.replace_annotated_nodes and states.requested(node)}
        yield from ((ReplacementTrigger.REQUESTED, node) for node in nodes if node.name in asked_for)
        due_ages = {group.id: states.due_age_s(group, options) for group in stage.view.groups.all}
        for node in nodes:
            age_s = due_ages.get(stage.view.groups.of_node.get(node.name, ""))
            if age_s is not None and wall - node.created > age_s and node.name not in asked_for:
                yield ReplacementTrigger.EXPIRED, node

    def _busy(self, progress: ReplacementProgress) -> Collection[str]:
        """Return the nodes that must not be replaced now: in progress, resting, unneeded, or being removed."""
        busy = set(_in_progress(progress.memory))
        busy.update(_resting(progress))
        busy.update(removal.node.name for removal in progress.stage.memory.unneeded)
        return busy | self._removal.under_way().nodes

    def _held(self, progress: ReplacementProgress, hold: ReplacementHold) -> dict[str, ReplacementBackoff]:
        """Return why nodes that should be replaced wait: they rest, or no slot is free (`hold`)."""
        turns = {
            node.name: ReplacementBackoff(until=progress.stage.now, hold=hold)
            for _, node in self._replaceable(progress)
        }
        return {**turns, **_resting(progress)}

    # Cheaper nodes.

    def _consolidated(self, progress: ReplacementProgress) -> ReplacementProgress:
        """Search for cheaper nodes from time to time, and begin the best replacement that is proven to work."""
        memory, now, options = progress.memory, progress.stage.now, progress.stage.config.replacement
        if not options.consolidation or _slots(progress) <= 0:
            return progress
        view = progress.stage.view
        workload = consolidating.workload(view)
        if not consolidation_backoff.may_consolidate(memory, workload, now, options):
            return progress
        progress, proposals = self._proposals(progress.remember(replace(memory, consolidated=now)))
        for proposal in proposals:
            before = progress.memory
            progress = self._proven(progress, proposal)
            begun = progress.memory.in_progress[len(before.in_progress) :]
            if begun:
                unproven = UnprovenConsolidation(
                    id=begun[0].id, classes=consolidating.moving(view, begun[0]), workload=workload
                )
                return progress.remember(replace(progress.memory, settling=unproven, fruitless=None))
            if progress.ended:
                break
        return progress

    def _proposals(self, progress: ReplacementProgress) -> tuple[ReplacementProgress, tuple[Proposal, ...]]:
        """Return proposals, unless the inputs are the same as those of the last search that found nothing."""
        stage, memory = progress.stage, progress.memory
        context = self._context(stage)
        moves = _moves(stage, memory, context)
        candidates = consolidating.candidates(stage, moves, self._busy(progress))
        offers = consolidating.offers(stage, self._procuring.room_by_group(stage))
        searched = consolidating.search_hash(stage.placer.trial, candidates, offers, moves.destinations)
        if not candidates or memory.fruitless == searched:
            return progress, ()
        proposals = propose(
            stage.placer, candidates, offers, moves.destinations, context.groups, stage.config.replacement
        )
        return progress.remember(replace(memory, fruitless=searched)), proposals

    def _proven(self, progress: ReplacementProgress, proposal: Proposal) -> ReplacementProgress:
        """Begin a proposed replacement if every pod fits on the simulated cluster with the new nodes."""
        stage = progress.stage
        trial, replacement = stage.placer.trial, consolidating.planned(stage, proposal)
        context = self._context(stage)
        targets = {group: context.groups.by_id[group].target_size + count for group, count in proposal.buys.items()}
        context = replace(context, groups=context.groups.sized(targets))
        planned = replace(replacement, bought=tuple(states.Purchase(*item) for item in proposal.buys.items()))
        with trial.fork() as fork:
            for group, count in proposal.buys.items():
                numbered = stage.registry.upcoming.get(group, 0)
                trial.add(stage.templates[group], count, UPCOMING, numbered=numbered)
            forecast = _moves(stage, progress.memory, context).forecast(planned)
            if forecast.kept is not None or forecast.lacks:
                return progress
            after = states.staged(replacement, ReplacementStage.READY)
            if proposal.buys:
                stage, after = self._procuring.buy_exactly(stage, replacement, proposal.buys)
                stage = with_current_registry(stage, self._cloud)
            if after.stage in (ReplacementStage.READY, ReplacementStage.BOUGHT):
                fork.keep()
        return self._filed(replace(progress, stage=stage), after, forecast)


def _wanted(config: Config, groups: Groups) -> bool:
    """Whether scale-down is enabled, and the configuration or any group asks for replacements."""
    options = config.replacement
    aged = options.max_node_age_s > 0 or any(group.settings.max_node_age_s for group in groups.all)
    on = aged or options.replace_annotated_nodes or options.consolidation
    return on and config.scale_down.scale_down_enabled


def _moves(stage: Simulated, memory: ReplacementMemory, context: ScaleDownContext) -> Relocations:
    avoided = [*_in_progress(memory), *(removal.node.name for removal in stage.memory.unneeded)]
    return Relocations(stage.placer, context, stage.templates, stage.registry.upcoming, avoided)


def _in_progress(memory: ReplacementMemory) -> list[str]:
    return [name for replacement in memory.in_progress for name in replacement.nodes]


def _resting(progress: ReplacementProgress) -> dict[str, ReplacementBackoff]:
    rests = progress.memory.rests
    return {name: rest for name, rest in rests.items() if rest.until.mono > progress.stage.now.mono}


def _slots(progress: ReplacementProgress) -> int:
    return progress.stage.config.replacement.max_replacements - len(progress.memory.in_progress)


def _nodes(view: ClusterView, replacement: Replacement) -> list[Node]:
    """Return the nodes of a replacement that still exist."""
    return [node for name in replacement.nodes if (node := view.node(name)) is not None]


def _rest_shortly(progress: ReplacementProgress, replacement: Replacement) -> ReplacementProgress:
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


def _due(memory: ReplacementMemory, forecasts: Mapping[str, ReplacementForecast]) -> tuple[Removal, ...]:
    """Return the removals of nodes whose pods fit on ready nodes."""
    return tuple(
        removal
        for replacement in memory.in_progress
        if replacement.stage in (ReplacementStage.READY, ReplacementStage.DRAINING)
        for removal in _removals(forecasts[replacement.id])
    )


def _removals(forecast: ReplacementForecast) -> tuple[Removal, ...]:
    waits = forecast.lacks or forecast.awaited or not forecast.arrived
    return () if waits or forecast.kept is not None else forecast.removals


def _reserved(memory: ReplacementMemory, forecasts: Mapping[str, ReplacementForecast]) -> dict[str, UnremovableNode]:
    """Return the nodes that scale-down leaves alone: old ones, and the new ones bought for their pods."""
    reserved: dict[str, UnremovableNode] = {}
    for replacement in memory.in_progress:
        hold = "" if replacement.hold is None else f", {replacement.hold}: {replacement.detail}"
        detail = f"{replacement.trigger}, {replacement.stage}{hold}"
        for name in replacement.nodes:
            reserved[name] = UnremovableNode(name, UnremovableReason.BEING_REPLACED, detail)
        detail = f"holds room for pods of {', '.join(replacement.nodes)}"
        for name in forecasts[replacement.id].new:
            reserved.setdefault(name, UnremovableNode(name, UnremovableReason.REPLACES_OTHERS, detail))
    return reserved


def _price_of(groups: Groups, names: list[str]) -> float | None:
    owners = (groups.get(groups.of_node.get(name, "")) for name in names)
    prices = [group.node_price for group in owners if group is not None]
    known = [price for price in prices if price is not None]
    return float(np.sum(known)) if len(known) == len(names) else None
