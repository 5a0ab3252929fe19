"""The scale-up decision where gangs are among the pods: each gives all nodes that a gang lacks, or none.

Each gang is planned on its own, with the choices of `planner`. A plan that leaves the gang below its minimum is taken
back before anything is bought, and a second one prefers options that put many pods on each node: limits on nodes may
leave room for those only. What gangs need beyond their minimum is planned with the other pods.
"""

from collections.abc import Sequence

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import GroupsPerPass, ScaleUp
from autoscaler.objects.pod import Pod
from autoscaler.reasons import PodVerdict, ScaleUpResult
from autoscaler.scaleup.context import ScaleUpContext
from autoscaler.scaleup.expander import ExpanderChain
from autoscaler.scaleup.gangs import Gang, ShortGang, priority_of
from autoscaler.scaleup.plan import HeldReason, ScaleUpPlan
from autoscaler.scaleup.planner import Demand, plan_on_trial
from autoscaler.scheduling.placement import Placer


class GangDemand(msgspec.Struct, frozen=True):
    """Pods that need nodes, and the gangs among them, in the order in which they are helped."""

    pods: tuple[Pod, ...]
    gangs: tuple[Gang, ...]


def plan_with_gangs(
    placer: Placer,
    demand: GangDemand,
    situation: ScaleUpContext,
    chain: ExpanderChain,
    options: ScaleUp,
    rules: Rules,
) -> ScaleUpPlan:
    """Decide how to help the pods, each gang whole or not at all. The trial is left as it was found."""
    planner = _GangPlanner(placer, situation, chain, options, rules)
    with placer.trial.fork():
        return planner.plan(demand)


class _GangPlanner:
    """One decision in the making: plans that follow each other, and what they leave over."""

    def __init__(
        self, placer: Placer, situation: ScaleUpContext, chain: ExpanderChain, options: ScaleUp, rules: Rules
    ) -> None:
        self._placer = placer
        self._situation = situation
        self._chain = chain
        self._options = options
        self._rules = rules
        self._one_choice = options.groups_per_pass is GroupsPerPass.ONE
        self._asked: list[ScaleUpPlan] = []
        self._kept: list[ScaleUpPlan] = []
        self._short: list[tuple[Gang, ShortGang, ScaleUpPlan]] = []

    def plan(self, demand: GangDemand) -> ScaleUpPlan:
        """Plan gangs of at least the priority of the other pods, then these, then the other gangs."""
        in_gangs = {pod.key for gang in demand.gangs for pod in gang.pods}
        others = [pod for pod in demand.pods if pod.key not in in_gangs]
        highest = priority_of(others)
        first = [gang for gang in demand.gangs if not others or priority_of(gang.pods) >= highest]
        spare = [pod for gang in first for pod in self._helped_whole(gang)]
        if others or spare:
            self._keep(self._ask(Demand((*others, *spare))))
        later = [gang for gang in demand.gangs if gang not in first]
        spare = [pod for gang in later for pod in self._helped_whole(gang)]
        if spare:
            self._keep(self._ask(Demand(tuple(spare))))
        return self._joined(demand.pods)

    @property
    def _over(self) -> bool:
        """Whether this pass may make no other choice."""
        return self._one_choice and any(plan.increases for plan in self._kept)

    def _ask(self, demand: Demand) -> ScaleUpPlan:
        if self._over:
            return ScaleUpPlan(
                result=ScaleUpResult.NO_OPTIONS, held={pod.key: PodVerdict.NEXT_PASS for pod in demand.pods}
            )
        plan = plan_on_trial(self._placer, demand, self._situation, self._chain, self._options, self._rules)
        self._asked.append(plan)
        return plan

    def _keep(self, plan: ScaleUpPlan) -> None:
        self._kept.append(plan)
        self._situation = self._situation.after(plan.increases, self._situation.needs(self._rules))

    def _helped_whole(self, gang: Gang) -> Sequence[Pod]:
        """Plan what a gang lacks to start, or nothing; return its pods beyond the minimum that lack room then."""
        if self._over:
            self._keep(self._ask(Demand(gang.pods)))
            return ()
        if gang.missing > len(gang.pods):
            short = ShortGang(gang.name, gang.wanted, gang.missing, gang.placed + len(gang.pods), incomplete=True)
            self._short.append((gang, short, ScaleUpPlan(result=ScaleUpResult.NO_OPTIONS)))
            return ()
        demand = Demand(gang.pods, at_least=gang.missing, one_choice=self._one_choice)
        best = ScaleUpPlan(result=ScaleUpResult.NO_OPTIONS)
        for attempt in (demand, msgspec.structs.replace(demand, densest=True)):
            with self._placer.trial.fork() as fork:
                plan = self._ask(attempt)
                if len(plan.triggered) >= gang.missing:
                    fork.keep()
                    self._keep(plan)
                    helped = {pod.key for pod in plan.triggered}
                    return [pod for pod in gang.pods if pod.key not in helped]
            best = plan if not best.skipped or len(plan.triggered) > len(best.triggered) else best
            if self._one_choice:
                break
        self._short.append((gang, self._shortfall(gang, best), best))
        return ()

    def _shortfall(self, gang: Gang, best: ScaleUpPlan) -> ShortGang:
        """Return how far a gang would get; one choice that is too small has planned nothing that could be counted."""
        if self._one_choice:
            with self._placer.trial.fork():
                best = self._ask(Demand(gang.pods))
        return ShortGang(gang.name, gang.wanted, gang.missing, gang.placed + len(best.triggered))

    def _joined(self, pods: Sequence[Pod]) -> ScaleUpPlan:
        """Return the plans that are kept as one, with what became of the gangs that get nothing."""
        kept, last = self._kept, self._kept[-1] if self._kept else ScaleUpPlan(result=ScaleUpResult.NO_OPTIONS)
        stuck = [*kept]
        held: dict[str, HeldReason] = {key: why for plan in kept for key, why in plan.held.items()}
        for gang, short, best in self._short:
            if not best.triggered and len(best.remaining) == len(gang.pods):
                stuck.append(best)
                continue
            held.update((pod.key, short.reason) for pod in gang.pods)
        grown = any(plan.increases for plan in kept)
        helped = {pod.key for plan in kept for pod in plan.triggered}
        error = "" if grown else next((plan.error for plan in kept if plan.error), "")
        return ScaleUpPlan(
            result=ScaleUpResult.SUCCESSFUL if grown else ScaleUpResult.ERROR if error else ScaleUpResult.NO_OPTIONS,
            rounds=tuple(each for plan in kept for each in plan.rounds if each.increases or not grown),
            triggered=tuple(pod for pod in pods if pod.key in helped),
            remaining=tuple(pod for plan in stuck for pod in plan.remaining if pod.key not in helped),
            awaiting=tuple(pod for plan in kept for pod in plan.awaiting if pod.key not in helped),
            held={key: why for key, why in held.items() if key not in helped},
            full=last.full,
            rejected={cls: reasons for plan in stuck for cls, reasons in plan.rejected.items()},
            skipped=self._asked[0].skipped if self._asked else (),
            occurrences=tuple(dict.fromkeys(each for plan in self._asked for each in plan.occurrences)),
            answers=tuple(answer for plan in self._asked for answer in plan.answers),
            capped_by_nodes_total=any(plan.capped_by_nodes_total for plan in (*kept, *stuck)),
            short_gangs=tuple(short for _, short, _ in self._short),
            error=error,
        )
