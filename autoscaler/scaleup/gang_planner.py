"""The scale-up decision where gangs are among the pods: each gives all nodes that a gang lacks, or none.

Each gang is planned on its own, on room that exists and with the choices of `planner`. A plan that leaves the gang
below its minimum is taken back before anything is bought, and another one leans towards other options. Where the nodes
of a gang share a label, each domain is planned, and the expanders choose between those in which most of its pods can
run. What gangs need beyond their minimum is planned with the other pods.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import GroupsPerPass, ScaleUp
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.ports import ExpanderAnswer
from autoscaler.reasons import PodVerdict, ScaleUpResult, Skip
from autoscaler.scaleup.choice import ExpanderWarning
from autoscaler.scaleup.context import ScaleUpContext
from autoscaler.scaleup.expander import ExpanderChain
from autoscaler.scaleup.gang_domains import Domain, domains, within
from autoscaler.scaleup.gangs import Gang, ShortGang, priority_of
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.plan import HeldReason, ScaleUpPlan
from autoscaler.scaleup.planner import Demand, Leaning, plan_on_trial
from autoscaler.scheduling.placement import Placer

_NO_PLAN = ScaleUpPlan(result=ScaleUpResult.NO_OPTIONS)


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


class _GangAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A gang in one domain: where its pods have room, and what would be bought for the others."""

    gang: Gang
    domain: Domain | None = None
    """None: anywhere."""
    leaning: Leaning
    settled: tuple[tuple[Pod, str], ...] = ()
    """Pods that need no new node, and the names of their nodes."""
    plan: ScaleUpPlan = _NO_PLAN
    made: bool = True
    """Whether the plan may be carried out; else it only shows what is possible."""

    @property
    def possible(self) -> int:
        """How many pods of the gang can run."""
        return self.gang.placed + len(self.settled) + len(self.plan.triggered)

    @property
    def whole(self) -> bool:
        """Whether the gang can start."""
        return self.made and self.possible >= max(1, self.gang.wanted)


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
        self._leanings: tuple[Leaning, ...] = (Leaning.WHOLE, Leaning.DENSEST)
        if self._one_choice:
            self._leanings = (Leaning.WHOLE,)
        elif chain.cost is not None:  # it chooses combinations, of which options that are not whole may be parts
            self._leanings = (Leaning.NONE, *self._leanings)
        self._asked: list[ScaleUpPlan] = []
        self._kept: list[ScaleUpPlan] = []
        self._short: list[tuple[Gang, ShortGang, ScaleUpPlan]] = []
        self._settled: dict[str, str] = {}
        self._warnings: list[ExpanderWarning] = []
        self._answers: list[ExpanderAnswer] = []

    def plan(self, demand: GangDemand) -> ScaleUpPlan:
        """Plan gangs of at least the priority of the other pods, then these, then the other gangs."""
        in_gangs = {pod.key for gang in demand.gangs for pod in gang.pods}
        others = [pod for pod in demand.pods if pod.key not in in_gangs]
        highest = priority_of(others)
        first = [gang for gang in demand.gangs if not others or priority_of(gang.pods) >= highest]
        spare = [pod for gang in first for pod in self._helped_whole(gang)]
        if others or spare:
            self._keep(self._ask(Demand((*others, *spare)), self._situation))
        later = [gang for gang in demand.gangs if gang not in first]
        spare = [pod for gang in later for pod in self._helped_whole(gang)]
        if spare:
            self._keep(self._ask(Demand(tuple(spare)), self._situation))
        return self._joined(demand.pods)

    @property
    def _over(self) -> bool:
        """Whether this pass may make no other choice."""
        return self._one_choice and any(plan.increases for plan in self._kept)

    def _ask(self, demand: Demand, situation: ScaleUpContext) -> ScaleUpPlan:
        if self._over:
            return ScaleUpPlan(
                result=ScaleUpResult.NO_OPTIONS, held={pod.key: PodVerdict.NEXT_PASS for pod in demand.pods}
            )
        plan = plan_on_trial(self._placer, demand, situation, self._chain, self._options, self._rules)
        self._asked.append(plan)
        self._note(plan.occurrences, plan.answers)
        return plan

    def _note(self, warnings: Iterable[ExpanderWarning], answers: Iterable[ExpanderAnswer]) -> None:
        self._warnings += warnings
        self._answers += answers

    def _keep(self, plan: ScaleUpPlan) -> None:
        self._kept.append(plan)
        self._situation = self._situation.after(plan.increases, self._situation.needs(self._rules))

    def _helped_whole(self, gang: Gang) -> Sequence[Pod]:
        """Plan what a gang lacks to start, or nothing; return its pods beyond the minimum that lack room then."""
        if gang.missing > len(gang.pods):
            possible = gang.placed + len(gang.pods)
            short = ShortGang(gang.name, gang.wanted, gang.missing, possible, incomplete=True)
            self._short.append((gang, short, _NO_PLAN))
            return ()
        if self._over:
            self._keep(self._ask(Demand(gang.pods), self._situation))
            return ()
        best = self._best(gang)
        if not best.whole:
            self._short.append((gang, self._too_short(gang, best), best.plan))
            return ()
        self._keep(best.plan)
        self._settled.update((pod.key, node) for pod, node in best.settled)
        helped = {pod.key for pod in best.plan.triggered} | {pod.key for pod, _ in best.settled}
        return [pod for pod in gang.pods if pod.key not in helped] if best.domain is None else ()

    def _too_short(self, gang: Gang, best: _GangAttempt) -> ShortGang:
        """Return what is known of a gang of which too few pods could run at best."""
        trial, key = self._placer.trial, gang.topology_key
        there = trial.labels(key) == gang.home if key and gang.home is not None else None
        return ShortGang(
            gang.name,
            gang.wanted,
            gang.missing if key else gang.missing - len(best.settled),
            best.possible,
            sharing=key,
            home=None if there is None else trial.node(int(there.argmax())).labels.get(key),
            failed=self._failed(gang),
        )

    def _best(self, gang: Gang) -> _GangAttempt:
        """Return the best attempt to start a gang; if it is whole, it is on the trial."""
        if not gang.topology_key:
            return self._attempted(gang, None, self._leanings)
        attempts = []
        for domain in domains(gang, self._placer, self._situation):
            with self._placer.trial.fork():
                attempts.append(self._attempted(gang, domain, self._leanings))
        whole = [attempt for attempt in attempts if attempt.whole]
        if not whole:
            nothing = _GangAttempt(gang=gang, domain=Domain(), leaning=Leaning.WHOLE)
            return max(attempts, key=lambda attempt: attempt.possible, default=nothing)
        chosen = self._chosen(whole)
        return self._attempted(gang, chosen.domain, (chosen.leaning,))

    def _chosen(self, whole: Sequence[_GangAttempt]) -> _GangAttempt:
        """Return the domain in which most pods of a gang can run, if possible on nodes that exist; the expanders choose
        between several.
        """
        most = max(attempt.possible for attempt in whole)
        best = [attempt for attempt in whole if attempt.possible == most]
        free = next((attempt for attempt in best if not attempt.plan.increases), None)
        if free is not None or len(best) == 1:
            return free or best[0]
        choice = self._chain.choose([self._option(attempt) for attempt in best])
        self._note(choice.occurrences, choice.answers)
        taken = None if choice.option is None else choice.option.group.id
        return next((each for each in best if each.plan.increases[0].group == taken), best[0])

    def _option(self, attempt: _GangAttempt) -> Option:
        """Return what is bought in a domain as one option, for all pods that can run there."""
        pods = (*(pod for pod, _ in attempt.settled), *attempt.plan.triggered)
        first, *others = (
            Option(
                group=self._situation.groups.by_id[increase.group],
                template=self._situation.templates[increase.group],
                nodes=increase.delta,
                pods=pods,
                kinds=len({pod.cls for pod in pods}),
                namespaces=1,
            )
            for increase in attempt.plan.increases
        )
        return msgspec.structs.replace(first, beside=tuple(others))

    def _attempted(self, gang: Gang, domain: Domain | None, leanings: Sequence[Leaning]) -> _GangAttempt:
        """Return the first of some attempts that is whole, which stays on the trial; else the best one."""
        attempts = []
        for leaning in leanings:
            with self._placer.trial.fork() as fork:
                attempt = self._attempt(gang, domain, leaning)
                if attempt.whole:
                    fork.keep()
                    return attempt
            attempts.append(attempt)
        return max(attempts, key=lambda attempt: attempt.possible)

    def _attempt(self, gang: Gang, domain: Domain | None, leaning: Leaning) -> _GangAttempt:
        """Put what fits on nodes that are there, and plan nodes for the rest."""
        settled = self._settle(gang, domain)
        there = {pod.key for pod, _ in settled}
        left = tuple(pod for pod in gang.pods if pod.key not in there)
        missing = max(0, gang.missing - len(settled))
        situation = self._situation if domain is None else within(domain, self._situation)
        plan = self._ask(Demand(left, missing, self._one_choice, leaning), situation) if left else _NO_PLAN
        attempt = _GangAttempt(gang=gang, domain=domain, leaning=leaning, settled=settled, plan=plan)
        if self._one_choice and not attempt.whole:  # a choice that is too small is not made, so it was not counted
            return msgspec.structs.replace(attempt, plan=self._ask(Demand(left), situation), made=False)
        return attempt

    def _settle(self, gang: Gang, domain: Domain | None) -> tuple[tuple[Pod, str], ...]:
        """Place pods of a gang on nodes of a domain; return those that fit, and the names of their nodes."""
        placer, trial = self._placer, self._placer.trial
        among = np.ones(trial.count, dtype=np.bool_)
        if domain is not None:
            among = trial.labels(gang.topology_key) == domain.code
        settled: list[tuple[Pod, str]] = []
        hopeless: set[PodClass] = set()
        for pod in gang.pods if among.any() else ():
            position = None if pod.cls in hopeless else placer.first(pod.cls, slice(0, trial.count), 0, among)
            if position is not None:
                placer.place(pod.cls, position)
                settled.append((pod, trial.name(position)))
            elif not placer.guards(pod.cls):
                hopeless.add(pod.cls)
        return tuple(settled)

    def _failed(self, gang: Gang) -> tuple[str, ...]:
        """Return the groups in backoff whose new nodes would take some pod of a gang."""
        skipped = self._asked[0].skipped if self._asked else ()
        names = [each.group for each in skipped if each.reason is Skip.BACKED_OFF]
        return tuple(name for name in names if name in self._situation.templates and self._suits(name, gang))

    def _suits(self, group_id: str, gang: Gang) -> bool:
        with self._placer.trial.fork():
            fresh = self._placer.trial.add(self._situation.templates[group_id], 1)[0]
            return any(self._placer.fits(cls, fresh) for cls in dict.fromkeys(pod.cls for pod in gang.pods))

    def _joined(self, pods: Sequence[Pod]) -> ScaleUpPlan:
        """Return the plans that are kept as one, with what became of the gangs that get nothing."""
        kept, last = self._kept, self._kept[-1] if self._kept else _NO_PLAN
        stuck = [*kept]
        held: dict[str, HeldReason] = {key: why for plan in kept for key, why in plan.held.items()}
        for gang, short, best in self._short:
            if not best.triggered and len(best.remaining) == len(gang.pods):
                stuck.append(best)
                continue
            held.update((pod.key, short.reason) for pod in gang.pods)
        grown = any(plan.increases for plan in kept)
        helped = {pod.key for plan in kept for pod in plan.triggered}
        gone = helped | self._settled.keys()
        error = "" if grown else next((plan.error for plan in kept if plan.error), "")
        return ScaleUpPlan(
            result=ScaleUpResult.SUCCESSFUL if grown else ScaleUpResult.ERROR if error else ScaleUpResult.NO_OPTIONS,
            rounds=tuple(each for plan in kept for each in plan.rounds if each.increases or not grown),
            triggered=tuple(pod for pod in pods if pod.key in helped),
            settled=self._settled,
            remaining=tuple(pod for plan in stuck for pod in plan.remaining if pod.key not in gone),
            awaiting=tuple(pod for plan in kept for pod in plan.awaiting if pod.key not in gone),
            held={key: why for key, why in held.items() if key not in gone},
            full=last.full,
            rejected={cls: reasons for plan in stuck for cls, reasons in plan.rejected.items()},
            skipped=self._asked[0].skipped if self._asked else (),
            occurrences=tuple(dict.fromkeys(self._warnings)),
            answers=tuple(self._answers),
            capped_by_nodes_total=any(plan.capped_by_nodes_total for plan in (*kept, *stuck)),
            short_gangs=tuple(short for _, short, _ in self._short),
            error=error,
        )
