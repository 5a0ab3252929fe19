"""The scale-up decision where gangs are among the pods: each gives all nodes that a gang lacks, or none.

Each gang is planned on its own, with the choices of `planner`. A plan that leaves the gang below its minimum is taken
back before anything is bought, and a second one prefers options that put many pods on each node: limits on nodes may
leave room for those only. What gangs need beyond their minimum is planned with the other pods.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import GroupsPerPass, ScaleUp
from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import Pod
from autoscaler.reasons import PodVerdict, ScaleUpResult
from autoscaler.scaleup.context import ScaleUpContext
from autoscaler.scaleup.expander import ExpanderChain
from autoscaler.scaleup.gangs import Gang, ShortGang, priority_of
from autoscaler.scaleup.plan import HeldReason, ScaleUpPlan
from autoscaler.scaleup.planner import Demand, plan_on_trial
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.template import Template


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
        best: ScaleUpPlan | None = None
        possible = 0
        for domain in self._domains(gang):
            for densest in (False, True):
                with self._placer.trial.fork() as fork:
                    pods, placed = (gang.pods, gang.placed) if domain is None else self._moved_to(domain, gang)
                    missing = gang.wanted - placed
                    allowed = None if domain is None else self._groups_in(domain, gang.topology_key)
                    plan = self._ask(Demand(pods, max(0, missing), self._one_choice, densest, allowed))
                    if len(plan.triggered) >= missing:
                        fork.keep()
                        self._keep(plan)
                        helped = {pod.key for pod in plan.triggered}
                        return [pod for pod in pods if pod.key not in helped] if domain is None else ()
                    if self._one_choice:  # a choice that is too small is not made, so it was not counted
                        plan = self._ask(Demand(pods, groups=allowed))
                if best is None or placed + len(plan.triggered) > possible:
                    best, possible = plan, placed + len(plan.triggered)
                if self._one_choice:
                    break
        short = ShortGang(gang.name, gang.wanted, gang.missing, possible, sharing=gang.topology_key)
        self._short.append((gang, short, best or ScaleUpPlan(result=ScaleUpResult.NO_OPTIONS)))
        return ()

    def _domains(self, gang: Gang) -> Sequence[str | None]:
        """Return where the gang may run: values of the label that its nodes share, or None for anywhere."""
        key = gang.topology_key
        if not key:
            return (None,)
        if gang.running:
            return (max(gang.running, key=lambda value: (gang.running[value], value)),)
        of_groups = {
            template.node.labels[key] for template in self._situation.templates.values() if _one(template, key)
        }
        trial = self._placer.trial
        of_nodes = {trial.node(position).labels.get(key) for position in range(trial.count)}
        return sorted({value for value in (*of_groups, *of_nodes) if value})

    def _groups_in(self, domain: str, key: str) -> frozenset[str]:
        """Return the groups all of whose new nodes are in a domain."""
        templates = self._situation.templates.items()
        return frozenset(
            group for group, template in templates if _one(template, key) and template.node.labels[key] == domain
        )

    def _moved_to(self, domain: str, gang: Gang) -> tuple[tuple[Pod, ...], int]:
        """Place a gang's pods on nodes of one domain alone; return those that do not fit, and how many are there."""
        trial, key = self._placer.trial, gang.topology_key
        for cls, positions, counts in tuple(trial.moves(dict.fromkeys(pod.cls for pod in gang.pending))):
            for position, count in zip(positions.tolist(), counts.tolist(), strict=True):
                if count > 0:
                    trial.lift(cls, position, count)
        among = np.array([trial.node(position).labels.get(key) == domain for position in range(trial.count)])
        left = []
        for pod in gang.pending:
            position = self._placer.first(pod.cls, slice(0, trial.count), 0, among)
            if position is None:
                left.append(pod)
            else:
                self._placer.place(pod.cls, position)
        return tuple(left), gang.running.get(domain, 0) + len(gang.pending) - len(left)

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


def _one(template: Template, key: str) -> bool:
    """Whether all new nodes of a group have the same value of a label."""
    several = template.zones is not None and len(template.zones.templates) > 1
    return key in template.node.labels and key != HOSTNAME and not several
