"""Replacing nodes that are needed: those too old, those somebody asks for, and those that cheaper ones can stand for.

Two steps of a pass. `reserve`, before pods are sorted, moves the pods of replacements in progress on the simulated
cluster, so that pending pods do not count on the room bought for them. `run`, after scale-up, takes every replacement
one stage on, buys, and begins new ones; what is ready to go is removed by the next step, with everything else.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from autoscaler.actuation.node_removal import NodeRemoval
from autoscaler.config.tree import Config
from autoscaler.loop import consolidating
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.growing import Growing
from autoscaler.loop.passing import PassState
from autoscaler.loop.procuring import Procuring
from autoscaler.loop.repairing import Repairing
from autoscaler.loop.shrinking import situation_of
from autoscaler.objects.node import Node
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
from autoscaler.snapshot.template import UPCOMING

_SPARE_TRIES = 10
"""How many nodes more than there is room for are looked at in one pass, should the first ones be kept by something."""


class Replacing:
    """Takes replacements from stage to stage."""

    def __init__(
        self, config: Config, removal: NodeRemoval, growing: Growing, repairing: Repairing, herald: PassEventWriter
    ) -> None:
        self._config = config
        self._options = config.replacement
        self._removal = removal
        self._repairing = repairing
        self._procuring = Procuring(config, growing, removal)
        self._herald = herald

    def reserve(self, p: PassState) -> PassState:
        """Return the pass with the pods of replacements in progress on the nodes that they will move to."""
        if not self._wanted(p):
            return replace(p, remembered=replace(p.remembered, replacements=None))
        memory = p.remembered.replacements or replacement_record.restored(p.view.nodes, p.report.now)
        p = replace(p, remembered=replace(p.remembered, replacements=memory))
        if not memory.in_progress:
            return p
        moves = self._moves(p, self._situation(p))
        return replace(p, outlooks={one.id: moves.look(one) for one in memory.in_progress})

    def run(self, p: PassState) -> PassState:
        """Return the pass with replacements taken on, new ones begun, and the nodes that may go now."""
        if p.remembered.replacements is None:
            return p
        with p.time.phase("replace"):
            return self._replaced(p)

    def _replaced(self, p: PassState) -> PassState:
        p = self._repairing.judged_again(p)
        outlooks = dict(p.outlooks)
        p = self._continued(p, outlooks)
        helped = () if p.report.scale_up is None else p.report.scale_up.triggered
        classes = frozenset(pod.cls for pod in helped)
        p = self._with(p, consolidation_backoff.settled(self._memory(p), classes, p.report.now, self._options))
        grew = p.report.scale_up_result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR)
        if not grew:
            p = self._begun(p, outlooks)
            p = self._consolidated(p, outlooks)
        memory = self._memory(p)
        going = [one for one in memory.in_progress if one.stage in (ReplacementStage.READY, ReplacementStage.DRAINING)]
        p = replace(
            p,
            due=tuple(removal for one in going for removal in _due(outlooks.get(one.id))),
            spoken_for=_spoken_for(memory, outlooks),
        )
        ended = tuple(one for one in p.report.replacements if one.over)
        waits = self._waits(p, ReplacementHold.PODS_FIRST if grew else ReplacementHold.TOO_MANY)
        report = replace(p.report, replacements=(*memory.in_progress, *ended), replacements_held=waits)
        return self._repairing.judged_again(p.with_report(report))

    def _wanted(self, p: PassState) -> bool:
        options = self._options
        aged = options.max_node_age_s > 0 or any(group.settings.max_node_age_s for group in p.view.groups.all)
        on = aged or options.replace_annotated_nodes or options.consolidation
        return on and self._config.scale_down.scale_down_enabled

    def _memory(self, p: PassState) -> ReplacementMemory:
        assert p.remembered.replacements is not None
        return p.remembered.replacements

    def _with(self, p: PassState, memory: ReplacementMemory) -> PassState:
        return replace(p, remembered=replace(p.remembered, replacements=memory))

    def _situation(self, p: PassState) -> ScaleDownContext:
        return situation_of(p, self._config, self._removal)

    def _moves(self, p: PassState, situation: ScaleDownContext) -> Relocations:
        assert p.placer is not None
        avoided = [name for one in self._memory(p).in_progress for name in one.nodes]
        avoided += [removal.node.name for removal in p.remembered.unneeded]
        return Relocations(p.placer, situation, p.report.templates, p.registry.upcoming, avoided)

    # What is in progress.

    def _continued(self, p: PassState, outlooks: Mapping[str, ReplacementForecast]) -> PassState:
        now, kept = p.report.now, []
        for one in self._memory(p).in_progress:
            seen = outlooks[one.id]
            after = states.advance(one, seen, now, self._options)
            if after.hold is ReplacementHold.NO_CAPACITY and seen.lacks:
                p, after = self._procuring.lacking(p, after, seen)
            if after.stage is ReplacementStage.PROPOSED and after.hold in (
                ReplacementHold.NODE_KEPT,
                ReplacementHold.NO_CAPACITY,
                ReplacementHold.MAX_SIZE,
            ):
                # Nothing was bought for it: others get their turn.
                p = self._rest_shortly(p, after)
            elif after.over:
                p = self._ended(p, after)
            else:
                if after.stage is not one.stage:
                    self._herald.replacement(after, self._there(p, after))
                kept.append(after)
        return self._with(p, replace(self._memory(p), in_progress=tuple(kept)))

    def _ended(self, p: PassState, one: Replacement) -> PassState:
        """Let go of a replacement: nodes that stay rest, and say so themselves should this process end."""
        memory, now = self._memory(p), p.report.now
        self._herald.replacement(one, self._there(p, one))
        p = p.with_report(replace(p.report, replacements=(*p.report.replacements, one)))
        if one.stage is ReplacementStage.DONE:
            return p
        rests = dict(memory.rests)
        for name in one.nodes:
            if p.view.node(name) is None:
                continue
            if one.hold is ReplacementHold.WITHDRAWN:
                self._removal.annotate(name, {replacement_record.STATE: None})
                continue
            rests[name] = states.rested(memory.rests.get(name), one, now, self._options)
            if one.bought:
                self._removal.annotate(name, {replacement_record.STATE: replacement_record.record_of(one, rests[name])})
        memory = replace(memory, rests=rests)
        if one.trigger is ReplacementTrigger.CHEAPER:
            memory = consolidation_backoff.doubted(memory, now, self._options)
        return self._with(p, memory)

    def _rest_shortly(self, p: PassState, one: Replacement) -> PassState:
        """Look at nodes again after a while: something keeps them, or nothing could be bought for them."""
        memory = self._memory(p)
        until = p.report.now.later(self._config.scale_down.unremovable_node_recheck_timeout_s)
        rests = dict(memory.rests)
        for name in one.nodes:
            failures = rests[name].failures if name in rests else 0
            rests[name] = ReplacementBackoff(
                until=until, hold=one.hold or ReplacementHold.NODE_KEPT, detail=one.detail, failures=failures
            )
        return self._with(p, replace(memory, rests=rests))

    def _there(self, p: PassState, one: Replacement) -> list[Node]:
        return [node for name in one.nodes if (node := p.view.node(name)) is not None]

    # What is begun.

    def _begun(self, p: PassState, outlooks: dict[str, ReplacementForecast]) -> PassState:
        """Begin to replace nodes that are asked for or too old, as many as may be in progress."""
        tries = self._slots(p) + _SPARE_TRIES
        for trigger, node in self._wishes(p):
            if self._slots(p) <= 0 or tries <= 0 or not p.goes_on:
                break
            tries -= 1
            one = Replacement(
                trigger=trigger,
                nodes=(node.name,),
                began=p.report.now,
                price_before=_price_of(p, [node.name]),
            )
            p = self._tried(p, one, outlooks)
        return p

    def _tried(self, p: PassState, one: Replacement, outlooks: dict[str, ReplacementForecast]) -> PassState:
        """Begin a replacement if its pods have places, or can be given some; else the nodes rest."""
        assert p.placer is not None
        with p.placer.trial.fork() as fork:
            seen = self._moves(p, self._situation(p)).look(one)
            after = states.advance(one, seen, p.report.now, self._options)
            if after.stage is ReplacementStage.PROPOSED and seen.lacks and seen.kept is None:
                p, after = self._procuring.lacking(p, after, seen)
                p = self._repairing.judged_again(p)
            waits = after.stage is ReplacementStage.PROPOSED and after.hold is ReplacementHold.NOT_READY
            if after.stage in (ReplacementStage.READY, ReplacementStage.BOUGHT) or waits:
                fork.keep()
        return self._filed(p, after, seen, outlooks)

    def _filed(
        self, p: PassState, one: Replacement, seen: ReplacementForecast, outlooks: dict[str, ReplacementForecast]
    ) -> PassState:
        if one.over:
            return self._ended(p, one)
        if one.stage is ReplacementStage.PROPOSED and one.hold is not ReplacementHold.NOT_READY:
            return self._rest_shortly(p, one)
        outlooks[one.id] = seen
        self._herald.replacement(one, self._there(p, one))
        memory = self._memory(p)
        return self._with(p, replace(memory, in_progress=(*memory.in_progress, one)))

    def _slots(self, p: PassState) -> int:
        return self._options.max_replacements - len(self._memory(p).in_progress)

    def _wishes(self, p: PassState) -> Iterator[tuple[ReplacementTrigger, Node]]:
        """Yield nodes that are asked for, then those too old; the oldest first, and no node that is spoken for."""
        busy = self._busy(p)
        nodes = sorted(p.view.nodes, key=lambda node: (node.created, node.name))
        if self._options.replace_annotated_nodes:
            yield from (
                (ReplacementTrigger.REQUESTED, node)
                for node in nodes
                if states.requested(node) and node.name not in busy
            )
        wall = p.report.now.wall
        ages = {group.id: states.due_age_s(group, self._options) for group in p.view.groups.all}
        for node in nodes:
            age_s = ages.get(p.view.groups.of_node.get(node.name, ""))
            asked = self._options.replace_annotated_nodes and states.requested(node)
            if age_s is not None and wall - node.created > age_s and node.name not in busy and not asked:
                yield ReplacementTrigger.EXPIRED, node

    def _busy(self, p: PassState) -> set[str]:
        """Return the nodes not to begin with: in progress, resting, unneeded, or on their way out."""
        memory, now = self._memory(p), p.report.now
        busy = {name for one in memory.in_progress for name in one.nodes}
        busy.update(name for name, rest in memory.rests.items() if rest.until.mono > now.mono)
        busy.update(removal.node.name for removal in p.remembered.unneeded)
        return busy | self._removal.under_way().nodes

    def _waits(self, p: PassState, hold: ReplacementHold) -> dict[str, ReplacementBackoff]:
        """Return why nodes that should be replaced wait: they rest, or their turn has not come (`hold`)."""
        now = p.report.now
        waits = {node.name: ReplacementBackoff(until=now, hold=hold) for _, node in self._wishes(p)}
        waits.update((name, rest) for name, rest in self._memory(p).rests.items() if rest.until.mono > now.mono)
        return waits

    # Cheaper nodes.

    def _consolidated(self, p: PassState, outlooks: dict[str, ReplacementForecast]) -> PassState:
        """Look for cheaper nodes, now and then, and begin the best replacement that is proven to work."""
        memory, now, options = self._memory(p), p.report.now, self._options
        if not options.consolidation or self._slots(p) <= 0:
            return p
        workload = consolidating.workload(p.view)
        if not consolidation_backoff.may_consolidate(memory, workload, now, options):
            return p
        p = self._with(p, replace(memory, consolidated=now))
        p, proposals = self._proposals(p)
        for proposal in proposals:
            before = self._memory(p)
            p = self._proven(p, proposal, outlooks)
            begun = self._memory(p).in_progress[len(before.in_progress) :]
            if begun:
                unproven = UnprovenConsolidation(
                    id=begun[0].id, classes=consolidating.moving(p, begun[0]), workload=workload
                )
                return self._with(p, replace(self._memory(p), settling=unproven, fruitless=None))
            if any(one.over for one in p.report.replacements):
                break
        return p

    def _proposals(self, p: PassState) -> tuple[PassState, tuple[Proposal, ...]]:
        """Return proposals, unless the last search that led to nothing had the same before it."""
        assert p.placer is not None
        situation, memory = self._situation(p), self._memory(p)
        moves = self._moves(p, situation)
        candidates = consolidating.candidates(p, moves, self._busy(p), self._options)
        _, rooms = self._procuring.usable(p)
        offers = consolidating.offers(p, rooms)
        picture = consolidating.picture(p, candidates, offers, moves.destinations)
        if not candidates or memory.fruitless == picture:
            return p, ()
        found = propose(p.placer, candidates, offers, moves.destinations, situation.groups, self._options)
        return self._with(p, replace(memory, fruitless=picture)), found

    def _proven(self, p: PassState, proposal: Proposal, outlooks: dict[str, ReplacementForecast]) -> PassState:
        """Begin a proposed replacement if the simulated cluster, with its new nodes, has a place for every pod."""
        assert p.placer is not None
        trial, one = p.placer.trial, consolidating.planned(p, proposal)
        situation = self._situation(p)
        targets = {group: situation.groups.by_id[group].target_size + count for group, count in proposal.buys.items()}
        situation = replace(situation, groups=situation.groups.sized(targets))
        planned = replace(one, bought=tuple(states.Purchase(*item) for item in proposal.buys.items()))
        with trial.fork() as fork:
            for group, count in proposal.buys.items():
                numbered = p.registry.upcoming.get(group, 0)
                trial.add(p.report.templates[group], count, UPCOMING, numbered=numbered)
            seen = self._moves(p, situation).look(planned)
            if seen.kept is not None or seen.lacks:
                return p
            after = states.staged(one, ReplacementStage.READY)
            if proposal.buys:
                p, after = self._procuring.exactly(p, one, proposal.buys)
                p = self._repairing.judged_again(p)
            if after.stage in (ReplacementStage.READY, ReplacementStage.BOUGHT):
                fork.keep()
        return self._filed(p, after, seen, outlooks)


def _due(seen: ReplacementForecast | None) -> tuple[Removal, ...]:
    """Return the nodes whose pods have places on nodes that are ready."""
    if seen is None or seen.lacks or seen.awaited or not seen.arrived or seen.kept is not None:
        return ()
    return seen.removals


def _spoken_for(memory: ReplacementMemory, outlooks: Mapping[str, ReplacementForecast]) -> dict[str, UnremovableNode]:
    """Return the nodes that scale-down leaves alone: old ones, and the new ones meant for their pods."""
    found: dict[str, UnremovableNode] = {}
    for one in memory.in_progress:
        why = "" if one.hold is None else f", {one.hold}: {one.detail}"
        for name in one.nodes:
            found[name] = UnremovableNode(name, UnremovableReason.BEING_REPLACED, f"{one.trigger}, {one.stage}{why}")
        for name in outlooks[one.id].new if one.id in outlooks else ():
            found.setdefault(
                name,
                UnremovableNode(
                    name, UnremovableReason.REPLACES_OTHERS, f"holds room for pods of {', '.join(one.nodes)}"
                ),
            )
    return found


def _price_of(p: PassState, names: list[str]) -> float | None:
    groups = p.view.groups
    prices = [group.node_price for name in names if (group := groups.get(groups.of_node.get(name, ""))) is not None]
    known = [price for price in prices if price is not None]
    return float(np.sum(known)) if len(known) == len(names) else None
