"""From a simulated cluster to the unneeded nodes, once a pass, as a pure function.

Behaviour as Cluster Autoscaler's `core/scaledown/planner`: a node must be found removable in every pass to collect
unneeded time, and removals that are considered together must work together.
"""

from collections.abc import Callable

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.scaledown import ScaleDown
from autoscaler.current_step import in_hand
from autoscaler.reasons import UnremovableNode, UnremovableReason
from autoscaler.scaledown.displaced_pods import leaving_nodes, place_displaced_pods
from autoscaler.scaledown.drain import NodeDrain
from autoscaler.scaledown.eligibility import Eligible, eligible
from autoscaler.scaledown.memory import ScaleDownMemory, remembered
from autoscaler.scaledown.plan import Removal, ScaleDownContext, UnneededNodes
from autoscaler.scaledown.removal import Removals
from autoscaler.scaledown.taints import being_deleted
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.overlay import Trial

_SHORTEST_S = 1e-9


def plan_unneeded(
    placer: Placer,
    situation: ScaleDownContext,
    memory: ScaleDownMemory,
    out_of_time: Callable[[], bool] = lambda: False,
) -> UnneededNodes:
    """Return which nodes could go, all together, and why the others stay.

    The placer's trial has pending pods that fit already placed, and upcoming nodes, which are no destinations; it is
    left as it was. `out_of_time` ends the simulation: nodes not examined by then are not unneeded.
    """
    memory = _looked_at(memory, placer.trial, situation.now)
    with placer.trial.fork():
        leaving = leaving_nodes(placer.trial, situation)
        place_displaced_pods(placer, situation, leaving)
        eligible_nodes = eligible(placer.trial, situation, memory, leaving)
        if not eligible_nodes.order:
            return UnneededNodes(
                memory=msgspec.structs.replace(memory, unneeded=_interrupted(placer.trial, situation, memory)),
                kept=eligible_nodes.kept,
                candidates=eligible_nodes.candidates,
            )
        removals = Removals(placer, situation, eligible_nodes.arrivals, leaving, memory.hints)
        return _simulated(removals, placer.trial, situation, memory, eligible_nodes, out_of_time)


def _looked_at(memory: ScaleDownMemory, trial: Trial, now: Instant) -> ScaleDownMemory:
    """Return the memory without what has expired; nodes are examined now."""
    interval_s = None if memory.last_update is None else now.mono - memory.last_update.mono
    known = memory.shortest_interval_s
    shortest = known if interval_s is None else interval_s if known is None else min(known, interval_s)
    positions = trial.view.positions
    return msgspec.structs.replace(
        memory,
        unremovable={
            name: recent
            for name, recent in memory.unremovable.items()
            if name in positions and recent.until.mono > now.mono
        },
        last_update=now,
        shortest_interval_s=shortest,
    )


def _interrupted(trial: Trial, situation: ScaleDownContext, memory: ScaleDownMemory) -> dict[str, Instant]:
    """Return since when nodes are unneeded whose removal an earlier process began and did not finish.

    The watch has yet to report that they are given back.
    """
    nodes, under_way = trial.view.nodes, situation.under_way.nodes
    return {
        name: since
        for name, since in memory.unneeded.items()
        if (position := trial.view.positions.get(name)) is not None
        and name not in under_way
        and being_deleted(nodes[position], situation.now.wall)
    }


def unneeded_limit(memory: ScaleDownMemory, options: ScaleDown) -> int:
    """Return how many unneeded nodes are enough, nodes of groups that go as a whole not counted.

    With N removals at a time, N more than there are plus N to spare; and no more than can be removed within the
    unneeded time, at one look per shortest interval, plus N.
    """
    parallelism, unneeded_s = options.max_scale_down_parallelism, options.scale_down_unneeded_time_s
    looks = 1
    if memory.shortest_interval_s is not None and memory.shortest_interval_s < unneeded_s:
        looks = int(unneeded_s / max(memory.shortest_interval_s, _SHORTEST_S))
    return min(len(memory.unneeded) + 2 * parallelism, parallelism * looks + parallelism)


def _simulated(
    removals: Removals,
    trial: Trial,
    situation: ScaleDownContext,
    memory: ScaleDownMemory,
    eligible_nodes: Eligible,
    out_of_time: Callable[[], bool],
) -> UnneededNodes:
    groups = situation.groups.by_id
    limit = unneeded_limit(memory, situation.options)
    until = situation.now.later(situation.options.unremovable_node_recheck_timeout_s)
    nodes, owner_of, kept = trial.view.nodes, situation.groups.of_node, eligible_nodes.kept
    unremovable = dict(memory.unremovable)
    unneeded: list[Removal] = []
    single = 0
    for number, position in enumerate(eligible_nodes.order):
        if single >= limit or out_of_time():
            kept.update(_not_tried(trial, situation, eligible_nodes, number, limit))
            break
        name = nodes[position].name
        in_hand("node", name)
        outcome = removals.simulate(position)
        if isinstance(outcome, UnremovableNode):
            share = float(eligible_nodes.used.share[position])
            kept[name] = msgspec.structs.replace(outcome, utilization=share)
            unremovable[name] = remembered(outcome, until)
            continue
        group = groups[owner_of[name]]
        unneeded.append(_removal(position, group, outcome, situation, eligible_nodes, removals))
        removals.take(outcome)
        single += not group.settings.zero_or_max_node_scaling
    since = {removal.node.name: memory.unneeded.get(removal.node.name, situation.now) for removal in unneeded}
    since |= _interrupted(trial, situation, memory)
    after = msgspec.structs.replace(memory, unneeded=since, unremovable=unremovable, hints=removals.hints)
    return UnneededNodes(memory=after, unneeded=tuple(unneeded), kept=kept, candidates=eligible_nodes.candidates)


def _removal(
    position: int,
    group: Group,
    leaving: NodeDrain,
    situation: ScaleDownContext,
    eligible_nodes: Eligible,
    removals: Removals,
) -> Removal:
    reading = situation.readings.items[position]
    return Removal(
        node=reading.node,
        group=group.id,
        pods=tuple(pod for pod in leaving.move if not pod.cls.simulated),
        daemons=leaving.daemons,
        wait_for=leaving.wait_for,
        ready=reading.readiness.ready,
        utilization=float(eligible_nodes.used.share[position]),
        atomic=group.settings.zero_or_max_node_scaling,
        risky=not removals.all_at_once(leaving),
    )


def _not_tried(
    trial: Trial, situation: ScaleDownContext, eligible_nodes: Eligible, start: int, limit: int
) -> dict[str, UnremovableNode]:
    """Say why nodes from `start` on were left out, where rules want a reason for those too."""
    if not situation.rules.reason_for_every_node:
        return {}
    detail = f"not looked at: there are enough unneeded nodes for now (at most {limit}), or time ran out"
    names = [trial.view.nodes[position].name for position in eligible_nodes.order[start:]]
    shares = eligible_nodes.used.share[list(eligible_nodes.order[start:])].tolist()
    return {
        name: UnremovableNode(name, UnremovableReason.NOT_TRIED, detail, None, None, share)
        for name, share in zip(names, shares, strict=True)
    }
