"""Decides which groups grow for the pods that need nodes, and resizes them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from autoscaler.errors import ErrorType
from autoscaler.loop.buying import Buying, scale_up_report, tries_other_groups
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.pass_time import TimeBox
from autoscaler.loop.repairing import with_current_registry
from autoscaler.loop.sorting import filter_pods, idle_upcoming, simulated_cluster
from autoscaler.loop.stages import Ended, Grown, PodsSorted, failed, next_stage, remember
from autoscaler.objects.pod import Pod
from autoscaler.observe.report import ScaleUpReport, refused
from autoscaler.reasons import ScaleUpResult, Waiting
from autoscaler.registry import memory as memories
from autoscaler.scaleup.gang_purchases import in_vain, purchases, still_open
from autoscaler.scaleup.pending import planned
from autoscaler.scaleup.plan import Resized, ScaleUpPlan, continued
from autoscaler.scaleup.torn_gangs import torn_apart, without_gangs
from autoscaler.snapshot.hints import identity

_LONGEST_S = 60.0
"""Seconds after which a pass stops trying another group after a failed one and leaves the rest to the next pass."""


class Growing:
    """Increases groups for pending pods."""

    def __init__(self, ports: PassPorts, buying: Buying) -> None:
        self._cloud = ports.cloud
        self._events = ports.events
        self._buying = buying

    def run(self, stage: PodsSorted) -> Grown | Ended:
        """Return the stage with groups grown; a failed scale-up ends the pass if the rules say so."""
        if stage.held_back is not None:
            return next_stage(stage, Grown, scale_up=ScaleUpReport(result=stage.held_back))
        with stage.time.phase("scale_up"):
            return self._grown(stage)

    def _grown(self, stage: PodsSorted) -> Grown | Ended:
        """Plan and resize; after failed resizes, plan again for the pods that still lack nodes.

        A failed group is backed off, so each group fails at most once. Successful increases count in later plans.
        """
        simulated, out_of_time = stage.placer, stage.time.box(TimeBox.FAILED_SCALE_UPS, _LONGEST_S)
        pods = stage.candidates
        stage, plan, done = self._buying.attempt(stage, pods)
        last, wanted = plan, {pod.key for pod in plan.triggered}
        while _others_may_help(stage, done, out_of_time):
            stage, pods, stranded = self._left(stage, plan, pods)
            stage, last, done = self._buying.attempt(stage, pods)
            left = [pod for pod in pods if pod.key not in stranded]
            plan = continued(plan, last, left, refused(stage.increases))
            wanted.update(pod.key for pod in last.triggered)
        missed = wanted.difference(pod.key for pod in last.triggered).difference(last.settled)
        stage, plan = self._taken_back(stage, plan)
        lost = any(resized.error is not None for resized in done) or any(pod.key in missed for pod in pods)
        stage = _with_settled(replace(stage, placer=simulated), plan)
        return self._concluded(self._with_purchases(stage, plan), plan, lost=lost)

    def _taken_back(self, stage: PodsSorted, plan: ScaleUpPlan) -> tuple[PodsSorted, ScaleUpPlan]:
        """Return the stage without machines that were asked for in vain, for gangs that could not get all of theirs;
        and the plan without these gangs. Where the cloud refuses, machines stay.
        """
        torn = torn_apart(plan)
        if not torn.pods:
            return stage, plan
        grown = {resized.group: resized.after - resized.before for resized in stage.increases}
        vain = {group: min(wanted, grown.get(group, 0)) for group, wanted in torn.machines.items()}
        return self._cancelled(stage, vain), without_gangs(plan, torn)

    def _with_purchases(self, stage: PodsSorted, plan: ScaleUpPlan) -> PodsSorted:
        """Return the stage without idle machines that earlier passes asked for, for gangs that cannot start; its memory
        has what this pass bought for gangs.
        """
        known, upcoming = stage.memory.gang_purchases, stage.registry.upcoming
        throttled = any(resized.hold for resized in stage.increases)
        idle = idle_upcoming(stage) if known and plan.short_gangs and not throttled else {}
        vain = in_vain(known, plan.short_gangs, {group: len(positions) for group, positions in idle.items()})
        if vain:
            machines: Counter[str] = Counter()
            for purchase in vain:
                machines[purchase.group] += purchase.machines
            for group, count in machines.items():
                for position in idle[group][-count:]:
                    stage.placer.trial.remove(position)
            stage = self._cancelled(stage, machines)
        pending = {pod.cls.gang.key for pod in stage.view.pending if pod.cls.gang is not None}
        given = {(purchase.gang, purchase.group) for purchase in vain}
        kept = [each for each in still_open(known, pending, upcoming) if (each.gang, each.group) not in given]
        return remember(stage, gang_purchases=(*kept, *purchases(plan, stage.increases)))

    def _cancelled(self, stage: PodsSorted, machines: Mapping[str, int]) -> PodsSorted:
        """Return the stage with so many machines fewer on their way, by group."""
        memory, now = stage.memory.registry, stage.now
        corrections: list[Resized] = []
        for group, count in machines.items():
            if count <= 0:
                continue
            resized = self._cloud.decrease_target(group, count)
            corrections.append(resized)
            if resized.error is not None:
                self._events.not_reverted(resized, "a gang could not be completed")
            memory = memories.scaled_up(memory, group, resized.after - resized.before, now, 0.0)
        repairs = replace(stage.repairs, corrections=(*stage.repairs.corrections, *corrections))
        return with_current_registry(replace(remember(stage, registry=memory), repairs=repairs), self._cloud)

    def _left(
        self, stage: PodsSorted, plan: ScaleUpPlan, pods: Sequence[Pod]
    ) -> tuple[PodsSorted, tuple[Pod, ...], frozenset[str]]:
        """Return the stage with the groups as they are now, the pods that fit neither on their planned nodes nor on
        others, and with them those that do fit, by key, though their gang cannot start with that.
        """
        stage = with_current_registry(stage, self._cloud)
        stage = remember(stage, hints=planned(stage.memory.hints, plan))
        stage = replace(stage, placer=simulated_cluster(stage))
        filtered = filter_pods(stage)
        stage = remember(stage, hints=filtered.pods.hints)
        asking = {pod.key for pod in pods}
        left = tuple(pod for pod in filtered.pods.pods if pod.key in asking)
        return replace(stage, displaced_placed=filtered.displaced_placed), left, filtered.stranded

    def _concluded(self, stage: PodsSorted, plan: ScaleUpPlan, *, lost: bool) -> Grown | Ended:
        """Return the outcome of the scale-up; it counts as failed if pods `lost` the nodes planned for them."""
        config, result = stage.config, ScaleUpResult.ERROR if lost else plan.result
        report = scale_up_report(plan, stage.increases, result)
        grown = tries_other_groups(config) and any(resized.after > resized.before for resized in stage.increases)
        if grown or result is ScaleUpResult.SUCCESSFUL:
            stage = remember(
                stage,
                registry=memories.scale_up_succeeded(stage.memory.registry, stage.now),
                hints=planned(stage.memory.hints, plan),
            )
        self._events.triggered(plan, result, refused(stage.increases))
        if config.features.enable_provisioning_requests:
            stage = remember(stage, requests=replace(stage.memory.requests, pods_next=False))
        ended = next_stage(stage, Grown, scale_up=report)
        if result is ScaleUpResult.ERROR and config.rules.return_scale_up_error:
            return failed(ended, ErrorType.CLOUD_PROVIDER, report.error)
        return ended


def _with_settled(stage: PodsSorted, plan: ScaleUpPlan) -> PodsSorted:
    """Return the stage with those pods of gangs on the simulated cluster that have room there after all."""
    if not plan.settled:
        return stage
    trial, keys = stage.placer.trial, plan.settled
    positions = {trial.name(position): position for position in range(trial.base, trial.count)}
    for pod in stage.candidates:
        name = keys.get(pod.key)
        position = None if name is None else stage.view.positions.get(name, positions.get(name))
        if position is not None:
            stage.placer.place(pod.cls, position)
    places = {identity(pod): keys[pod.key] for pod in stage.candidates if pod.key in keys}
    pods = replace(stage.pods, waiting={**stage.pods.waiting, **dict.fromkeys(keys, Waiting.FITS)})
    hints = stage.memory.hints
    return replace(remember(stage, hints=replace(hints, newer={**hints.newer, **places})), pods=pods)


def _others_may_help(stage: PodsSorted, done: Sequence[Resized], out_of_time: Callable[[], bool]) -> bool:
    """Whether to try another group now.

    False if the cloud limits calls, is slow, or may have carried out a failed call.
    """
    any_failed = any(resized.error is not None for resized in done)
    welcome = tries_other_groups(stage.config) and not any(resized.hold for resized in done)
    return any_failed and welcome and not out_of_time()
