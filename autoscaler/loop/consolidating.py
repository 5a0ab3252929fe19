"""Searches for cheaper nodes from time to time, and begins the best replacement that is proven to work."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.procuring import Procuring
from autoscaler.loop.repairing import with_current_registry
from autoscaler.loop.replacement_filing import ReplacementFiling
from autoscaler.loop.replacement_progress import ReplacementProgress, limits_of, moves
from autoscaler.loop.shrinking import scale_down_context
from autoscaler.loop.stages import Grown
from autoscaler.objects.pod import PodClass
from autoscaler.reasons import ReplacementStage, ReplacementTrigger
from autoscaler.scaledown import consolidation_backoff
from autoscaler.scaledown import replacement as states
from autoscaler.scaledown.consolidation import Candidate, GroupOffer, Proposal, propose
from autoscaler.scaledown.disturbance import disturbance
from autoscaler.scaledown.pause import scope_of
from autoscaler.scaledown.plan import Removal, ScaleDownContext
from autoscaler.scaledown.relocation import Relocations
from autoscaler.scaledown.replacement import Replacement, UnprovenConsolidation, WorkloadKey
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import UPCOMING


class Consolidating:
    """Begins replacements of nodes by cheaper ones."""

    def __init__(self, ports: PassPorts, procuring: Procuring, filing: ReplacementFiling) -> None:
        self._cloud = ports.cloud
        self._removal = ports.removal
        self._procuring = procuring
        self._filing = filing

    def run(self, progress: ReplacementProgress) -> ReplacementProgress:
        """Return the progress with at most one consolidation begun, if a slot is free and a search is due."""
        memory, now, options = progress.memory, progress.stage.now, progress.stage.config.replacement
        if not options.consolidation or progress.slots <= 0:
            return progress
        workload = _workload(progress.stage.view)
        if not consolidation_backoff.may_consolidate(memory, workload, now, options):
            return progress
        progress, proposals = self._proposals(progress.remember(replace(memory, consolidated=now)))
        limits = limits_of(progress, self._removal.under_way())
        for proposal in proposals:
            before = progress.memory
            names = [progress.stage.view.nodes[position].name for position in proposal.positions]
            if limits.blocker(names, ReplacementTrigger.CHEAPER):
                continue
            progress = self._proven(progress, proposal)
            begun = progress.memory.in_progress[len(before.in_progress) :]
            if begun:
                classes = _moving(progress.stage.view, begun[0])
                unproven = UnprovenConsolidation(id=begun[0].id, classes=classes, workload=workload)
                return progress.remember(replace(progress.memory, settling=unproven, fruitless=None))
            if progress.ended:
                break
        return progress

    def _proposals(self, progress: ReplacementProgress) -> tuple[ReplacementProgress, tuple[Proposal, ...]]:
        """Return proposals, unless the inputs are the same as those of the last search that found nothing."""
        stage, memory = progress.stage, progress.memory
        context = self._context(stage)
        relocations = moves(stage, memory, context)
        candidates = _candidates(stage, relocations, progress.busy(self._removal.under_way().nodes))
        offers = _offers(stage, self._procuring.room_by_group(stage))
        searched = _search_hash(stage.placer.trial, candidates, offers, relocations.destinations)
        if not candidates or memory.fruitless == searched:
            return progress, ()
        proposals = propose(
            stage.placer, candidates, offers, relocations.destinations, context.groups, stage.config.replacement
        )
        return progress.remember(replace(memory, fruitless=searched)), proposals

    def _proven(self, progress: ReplacementProgress, proposal: Proposal) -> ReplacementProgress:
        """Begin a proposed replacement if every pod fits on the simulated cluster with the new nodes."""
        stage = progress.stage
        trial, replacement = stage.placer.trial, _planned(stage, proposal)
        context = self._context(stage)
        targets = {group: context.groups.by_id[group].target_size + count for group, count in proposal.buys.items()}
        context = replace(context, groups=context.groups.sized(targets))
        planned = replace(replacement, bought=tuple(states.Purchase(*item) for item in proposal.buys.items()))
        with trial.fork() as fork:
            for group, count in proposal.buys.items():
                numbered = stage.registry.upcoming.get(group, 0)
                trial.add(stage.templates[group], count, UPCOMING, numbered=numbered)
            forecast = moves(stage, progress.memory, context).forecast(planned)
            if forecast.kept is not None or forecast.lacks:
                return progress
            after = states.staged(replacement, ReplacementStage.READY)
            if proposal.buys:
                stage, after = self._procuring.buy_exactly(stage, replacement, proposal.buys)
                stage = with_current_registry(stage, self._cloud)
            if after.stage in (ReplacementStage.READY, ReplacementStage.BOUGHT):
                fork.keep()
        return self._filing.begun(replace(progress, stage=stage), after, forecast)

    def _context(self, stage: Grown) -> ScaleDownContext:
        return scale_down_context(stage, self._removal, stage.displaced_placed)


def _candidates(stage: Grown, relocations: Relocations, busy: Collection[str]) -> tuple[Candidate, ...]:
    """Return the nodes that may be replaced: old enough and removable, with pods and a known price, and not `busy`."""
    chosen: list[Candidate] = []
    taken = {name for forecast in stage.forecasts.values() for name in forecast.new}
    min_age_s = stage.config.replacement.consolidation_min_node_age_s
    for position, node in enumerate(stage.view.nodes):
        group = stage.view.groups.get(stage.view.groups.of_node.get(node.name, ""))
        young = stage.now.wall - node.created < min_age_s
        if group is None or group.node_price is None or young or node.name in busy or node.name in taken:
            continue
        removal = relocations.removal(node.name, scope_of(ReplacementTrigger.CHEAPER))
        if isinstance(removal, Removal) and removal.pods:
            weight = disturbance(removal.pods, stage.now.wall)
            chosen.append(
                Candidate(
                    position=position, group=group.id, price=group.node_price, pods=removal.pods, disturbance=weight
                )
            )
    return tuple(chosen)


def _offers(stage: Grown, room_by_group: Mapping[str, int]) -> tuple[GroupOffer, ...]:
    """Return the groups that have a known price and may grow; `room_by_group` holds the number of nodes each may
    add.
    """
    groups, templates = stage.view.groups.by_id, stage.templates
    return tuple(
        GroupOffer(group=group_id, template=templates[group_id], price=price, room=room)
        for group_id, room in room_by_group.items()
        if (price := groups[group_id].node_price) is not None
    )


def _planned(stage: Grown, proposal: Proposal) -> Replacement:
    """Return a proposal as a replacement for which nothing has been bought yet."""
    nodes = stage.view.nodes
    return Replacement(
        trigger=ReplacementTrigger.CHEAPER,
        nodes=tuple(nodes[position].name for position in proposal.positions),
        began=stage.now,
        places={
            uid: states.place_on_new(group, number) if group else states.place_on(nodes[number].name)
            for uid, (group, number) in proposal.places.items()
        },
        price_before=proposal.price_before,
        price_after=proposal.price_after,
        disturbance=proposal.disturbance,
    )


def _search_hash(
    trial: Trial, candidates: Sequence[Candidate], offers: Sequence[GroupOffer], destinations: Mask
) -> int:
    """Return a hash of everything that a search for cheaper nodes depends on."""
    pods = tuple(
        (candidate.position, candidate.price, tuple(pod.uid for pod in candidate.pods)) for candidate in candidates
    )
    new = tuple((offer.group, offer.price, offer.room) for offer in offers)
    room = trial.free[:, : trial.base].tobytes()
    return hash((pods, new, destinations.tobytes(), room))


def _workload(view: ClusterView) -> WorkloadKey:
    """Return the placed and pending workload, without the parts that nodes bring along."""
    counts = Counter({cls: int(count) for cls, count in zip(view.classes, _counts(view), strict=True) if count})
    counts.update(pod.cls for pod in view.pending)
    return frozenset((cls, count) for cls, count in counts.items() if not (cls.daemonset or cls.mirror))


def _counts(view: ClusterView) -> NDArray[np.int64]:
    return np.bincount(view.pod_classes, minlength=len(view.classes))


def _moving(view: ClusterView, replacement: Replacement) -> frozenset[PodClass]:
    """Return the classes of the pods on the nodes of a replacement."""
    return frozenset(pod.cls for name in replacement.nodes for pod in view.pods_on(name))
