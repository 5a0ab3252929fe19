"""The last step: find the nodes that nobody needs and begin to remove those that are due."""

from msgspec.structs import replace

from autoscaler.actuation.deletion import StartedRemovals
from autoscaler.actuation.node_removal import NodeRemoval
from autoscaler.config.tree import Config
from autoscaler.errors import ErrorType
from autoscaler.loop.observing import all_kept
from autoscaler.loop.pass_time import TimeBox
from autoscaler.loop.passing import PassState
from autoscaler.loop.repairing import Repairing
from autoscaler.reasons import ScaleDownResult, ScaleUpResult
from autoscaler.registry import memory as memories
from autoscaler.scaledown.cooldown import in_cooldown
from autoscaler.scaledown.deletions import plan_deletions
from autoscaler.scaledown.memory import removals_begun
from autoscaler.scaledown.plan import NodesToDelete, ScaleDownContext, UnneededNodes
from autoscaler.scaledown.planner import plan_unneeded
from autoscaler.scaledown.taints import plan_soft_taints


def situation_of(p: PassState, config: Config, removal: NodeRemoval) -> ScaleDownContext:
    """Return what scale-down decisions go by in this pass, as far as it has come."""
    return ScaleDownContext(
        now=p.report.now,
        groups=p.view.groups.sized(p.registry.targets),
        readings=p.registry.readings,
        options=config.scale_down,
        drain=config.drain,
        limits=config.limits,
        rules=config.rules,
        last_by_group=p.remembered.registry.last_by_group,
        under_way=removal.under_way(),
        housed=p.housed,
        spoken_for=p.spoken_for,
    )


class Shrinking:
    """Removes nodes."""

    def __init__(self, config: Config, removal: NodeRemoval, repairing: Repairing) -> None:
        self._config = config
        self._removal = removal
        self._repairing = repairing

    def run(self, p: PassState) -> PassState:
        """Return the pass with unneeded nodes found and, unless it is too early after other things, removals begun."""
        config, report = self._config, p.report
        grew = report.scale_up_result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR)
        if not config.scale_down.scale_down_enabled or (grew and not config.rules.scale_down_after_scale_up):
            return p.with_report(replace(report, scale_down_result=ScaleDownResult.NOT_TRIED))
        if report.silent_s:
            return all_kept(p)
        with p.time.phase("scale_down"):
            return self._shrunk(p)

    def _shrunk(self, p: PassState) -> PassState:
        with p.time.phase("find_unneeded"):
            p = self._repairing.judged_again(p)
            situation = situation_of(p, self._config, self._removal)
            update = self._unneeded(p, situation)
        p = replace(p, remembered=replace(p.remembered, scale_down=update.memory))
        p = p.with_report(replace(p.report, unneeded=update.unneeded, kept=update.kept))
        p = self._removed(p, update, situation)
        with p.time.phase("soft_taints"):
            self._mark(p, update)
        return replace(p, remembered=replace(p.remembered, unneeded=p.report.unneeded, kept=p.report.kept))

    def _unneeded(self, p: PassState, situation: ScaleDownContext) -> UnneededNodes:
        limit_s = self._config.scale_down.scale_down_simulation_timeout_s
        assert p.placer is not None
        assert p.remembered.scale_down is not None
        out_of_time = p.time.box(TimeBox.SCALE_DOWN_SIMULATION, limit_s)
        return plan_unneeded(p.placer, situation, p.remembered.scale_down, out_of_time)

    def _removed(self, p: PassState, update: UnneededNodes, situation: ScaleDownContext) -> PassState:
        config, now, memory = self._config, p.report.now, p.remembered.registry
        early = p.report.scale_up_result is ScaleUpResult.IN_COOLDOWN
        waits = early or in_cooldown(memory.last, config.scale_down, now)
        if waits and not p.due:
            return p.with_report(replace(p.report, scale_down_result=ScaleDownResult.IN_COOLDOWN))
        if config.rules.scale_down_reports_no_candidates and update.candidates == 0 and not p.due:
            return p.with_report(replace(p.report, scale_down_result=ScaleDownResult.NO_CANDIDATES))
        assert p.placer is not None
        # New nodes have come for the replaced ones: a cool-down would only have both paid for.
        due = plan_deletions(replace(update, unneeded=()) if waits else update, p.placer.trial, situation, p.due)
        p = p.with_report(replace(p.report, kept=due.kept))
        with p.time.phase("node_deletion"):
            started = self._removal.start(due)
        p = self._counted(p, started)
        deletions = NodesToDelete(empty=started.empty, drained=started.drained, kept=due.kept)
        report = replace(p.report, deletions=deletions)
        if started.error:
            p = p.with_memory(memories.scale_down_failed(memory, now))
            p = p.with_report(replace(report, scale_down_result=ScaleDownResult.ERROR))
            return p.failed(ErrorType.API_CALL, started.error)
        if not (started.empty or started.drained):
            nothing = ScaleDownResult.NO_NODE_DELETED if update.unneeded or p.due else ScaleDownResult.NO_UNNEEDED
            nothing = ScaleDownResult.IN_COOLDOWN if waits else nothing
            return p.with_report(replace(report, scale_down_result=nothing))
        p = p.with_memory(memories.scale_down_started(memory, now))
        return p.with_report(replace(report, scale_down_result=ScaleDownResult.NODE_DELETE_STARTED))

    def _counted(self, p: PassState, started: StartedRemovals) -> PassState:
        """Remember what has begun, for limits on the rate."""
        assert p.remembered.scale_down is not None
        groups = [one.group for one in (*started.empty, *started.drained)]
        memory = removals_begun(p.remembered.scale_down, groups, p.report.now)
        return replace(p, remembered=replace(p.remembered, scale_down=memory))

    def _mark(self, p: PassState, update: UnneededNodes) -> None:
        """Ask the scheduler to prefer other nodes to those that may go."""
        most = self._config.scale_down.max_bulk_soft_taint_count
        if most > 0:
            marked = {**update.memory.unneeded, **{one.node.name: p.report.now for one in p.due}}
            self._removal.mark(plan_soft_taints(p.view.nodes, p.view.groups, marked, most))
