"""Finds unneeded nodes and begins to remove those that are due."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from autoscaler.actuation.node_removal import NodeRemover
from autoscaler.errors import ErrorType
from autoscaler.loop.observing import without_removals
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.pass_time import TimeBox
from autoscaler.loop.repairing import with_current_registry
from autoscaler.loop.stages import Ended, Observed, Replaced, Shrunk, failed, next_stage, remember
from autoscaler.reasons import ScaleDownResult, ScaleUpResult, UnremovableNode
from autoscaler.registry import memory as memories
from autoscaler.scaledown.cooldown import in_cooldown
from autoscaler.scaledown.deletions import plan_deletions
from autoscaler.scaledown.memory import ScaleDownMemory, removals_begun
from autoscaler.scaledown.plan import NodesToDelete, Removal, ScaleDownContext, UnneededNodes
from autoscaler.scaledown.planner import plan_unneeded
from autoscaler.scaledown.protection import overruled
from autoscaler.scaledown.running_gangs import RunningGangs, running_gangs
from autoscaler.scaledown.taints import plan_soft_taints


def scale_down_context(
    stage: Observed,
    removal: NodeRemover,
    displaced_placed: frozenset[str] = frozenset(),
    reserved_nodes: Mapping[str, UnremovableNode] = {},
    disrupted: Mapping[str, str] = {},
) -> ScaleDownContext:
    """Return the inputs of scale-down decisions at this stage of the pass."""
    config, under_way = stage.config, removal.under_way()
    return ScaleDownContext(
        now=stage.now,
        groups=stage.view.groups.sized(stage.registry.targets),
        readings=stage.registry.readings,
        options=config.scale_down,
        drain=config.drain,
        limits=config.limits,
        rules=config.rules,
        last_by_group=stage.memory.registry.last_by_group,
        under_way=under_way,
        gangs=running_gangs(stage.view, under_way.nodes) if config.gangs_count else RunningGangs(),
        displaced_placed=displaced_placed,
        reserved_nodes=reserved_nodes,
        disruption_budgets=config.disruption.disruption_budget,
        disrupted=disrupted,
        pauses=stage.pauses,
    )


class Shrinking:
    """Removes unneeded nodes."""

    def __init__(self, ports: PassPorts) -> None:
        self._cloud = ports.cloud
        self._events = ports.events
        self._removal = ports.removal

    def run(self, stage: Replaced) -> Shrunk | Ended:
        """Return the stage with unneeded nodes found and, unless a cool-down or delay applies, removals begun."""
        config = stage.config
        grew = stage.scale_up.result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR)
        if not config.scale_down.scale_down_enabled or (grew and not config.rules.scale_down_after_scale_up):
            return next_stage(stage, Shrunk, scale_down_result=ScaleDownResult.NOT_TRIED)
        if stage.silent_s:
            return next_stage(without_removals(stage), Shrunk, scale_down_result=ScaleDownResult.NOT_TRIED)
        with stage.time.phase("scale_down"):
            return self._shrunk(stage)

    def _shrunk(self, stage: Replaced) -> Shrunk | Ended:
        with stage.time.phase("find_unneeded"):
            stage = with_current_registry(stage, self._cloud)
            context = scale_down_context(
                stage, self._removal, stage.displaced_placed, stage.reserved_nodes, stage.disrupted
            )
            limit_s = stage.config.scale_down.scale_down_simulation_timeout_s
            out_of_time = stage.time.box(TimeBox.SCALE_DOWN_SIMULATION, limit_s)
            memory = stage.memory.scale_down or ScaleDownMemory()
            update = plan_unneeded(stage.placer, context, memory, out_of_time)
        stage = remember(stage, scale_down=update.memory, unneeded=update.unneeded, kept=update.kept)
        shrunk = self._removed(stage, update, context)
        with stage.time.phase("soft_taints"):
            self._mark(stage, update)
        return shrunk

    def _removed(self, stage: Replaced, update: UnneededNodes, context: ScaleDownContext) -> Shrunk | Ended:
        """Return the stage with all due removals begun."""
        config, now, memory = stage.config, stage.now, stage.memory.registry
        early = stage.scale_up.result is ScaleUpResult.IN_COOLDOWN
        waits = early or in_cooldown(memory.last, config.scale_down, now)
        if waits and not stage.due:
            return next_stage(stage, Shrunk, scale_down_result=ScaleDownResult.IN_COOLDOWN)
        if config.rules.scale_down_reports_no_candidates and update.candidates == 0 and not stage.due:
            return next_stage(stage, Shrunk, scale_down_result=ScaleDownResult.NO_CANDIDATES)
        # New nodes have come for the replaced ones: during a cool-down both would be paid for.
        plan = plan_deletions(replace(update, unneeded=()) if waits else update, stage.placer.trial, context, stage.due)
        with stage.time.phase("node_deletion"):
            started = self._removal.start(plan)
        self._tell_of_limits(stage, started.drained)
        groups = [removal.group for removal in (*started.empty, *started.drained)]
        # Limits on the rate of removals count removals that have begun.
        stage = remember(stage, kept=plan.kept, scale_down=removals_begun(update.memory, groups, now))
        deletions = NodesToDelete(empty=started.empty, drained=started.drained, kept=plan.kept)
        if started.error:
            stage = remember(stage, registry=memories.scale_down_failed(memory, now))
            shrunk = next_stage(stage, Shrunk, scale_down_result=ScaleDownResult.ERROR, deletions=deletions)
            return failed(shrunk, ErrorType.API_CALL, started.error)
        if started.empty or started.drained:
            stage = remember(stage, registry=memories.scale_down_started(memory, now))
            result = ScaleDownResult.NODE_DELETE_STARTED
        elif waits:
            result = ScaleDownResult.IN_COOLDOWN
        else:
            result = ScaleDownResult.NO_NODE_DELETED if update.unneeded or stage.due else ScaleDownResult.NO_UNNEEDED
        return next_stage(stage, Shrunk, scale_down_result=result, deletions=deletions)

    def _tell_of_limits(self, stage: Replaced, removals: Iterable[Removal]) -> None:
        """Write an event for each pod that leaves although an annotation would protect it without the limit."""
        limit_s, namespaces = stage.config.drain.do_not_disrupt_limit_s, stage.view.related.namespaces
        for pod in (pod for removal in removals if limit_s > 0 and not removal.urgent for pod in removal.pods):
            if (protection := overruled(pod, namespaces, limit_s)) is not None:
                self._events.protection_over(pod, protection.text, limit_s)

    def _mark(self, stage: Replaced, update: UnneededNodes) -> None:
        """Add or remove soft taints, which ask the scheduler to avoid unneeded nodes."""
        most = stage.config.scale_down.max_bulk_soft_taint_count
        if most > 0:
            marked = {**update.memory.unneeded, **{removal.node.name: stage.now for removal in stage.due}}
            self._removal.mark(plan_soft_taints(stage.view.nodes, stage.view.groups, marked, most))
