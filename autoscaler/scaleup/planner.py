"""The scale-up decision: which groups grow, by how much, and the outcome for every pending pod.

Groups are filtered, each that can take some pod makes an offer, an expander chooses, limits cap, similar groups
share: a round. With `groups_per_pass=all` the chosen nodes are then taken as given and the rest of the pods gets
another turn, until nothing more can be helped; `one` stops after the first, as Cluster Autoscaler does. A turn is one
round, or several where a combination of offers is chosen at once. Everything is a function of its arguments; the trial
is left as it was found. Source: Cluster Autoscaler's `core/scaleup/orchestrator`.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from autoscaler.config.expanders import COST, NOTICE_COOLDOWN
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import GroupsPerPass, ScaleUp
from autoscaler.objects.pod import Pod
from autoscaler.reasons import PodVerdict, ScaleUpResult, Skipped
from autoscaler.scaleup.affinity_followers import place_followers
from autoscaler.scaleup.balancing import balance, within_limits
from autoscaler.scaleup.choice import Choice, ExpanderStep
from autoscaler.scaleup.context import ScaleUpContext, considered
from autoscaler.scaleup.estimator import PodGroup, deal, pod_groups, without
from autoscaler.scaleup.expander import ExpanderChain
from autoscaler.scaleup.limits import Allowance, Uncountable
from autoscaler.scaleup.optimiser.combine import combine
from autoscaler.scaleup.optimiser.rounds import OptimiserInput
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.options import ExpansionOptions, Fitting, PackedOption, place
from autoscaler.scaleup.plan import HeldReason, Increase, Round, ScaleUpPlan
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.template import UPCOMING

_FEWEST_ROUNDS, _ROUNDS_PER_GROUP = 50, 2
"""Bounds a pass by the larger of a number of rounds and so many per group: what is left then waits for the next one.

Pods that spread over zones take a round for every pod of an owner, since one round grows one zone.
"""


class Leaning(StrEnum):
    """Which options come first, where they are to help a number of pods together."""

    NONE = "none"
    """Those that the expanders choose, as for other pods."""
    WHOLE = "whole"
    """Those that help enough of the pods on their own."""
    DENSEST = "densest"
    """The same, and failing these, those with the most pods on each node."""


class Demand(msgspec.Struct, frozen=True):
    """Pods that need nodes, and what a plan for them has to achieve."""

    pods: tuple[Pod, ...]
    at_least: int = 0
    """Nodes for fewer pods than that are worth nothing."""
    one_choice: bool = False
    """Whether a single choice, uncapped, has to help that many; else nothing is planned."""
    leaning: Leaning = Leaning.WHOLE


def plan_scale_up(
    placer: Placer,
    pods: Sequence[Pod],
    situation: ScaleUpContext,
    chain: ExpanderChain,
    options: ScaleUp,
    rules: Rules,
    *,
    all_or_nothing: bool = False,
) -> ScaleUpPlan:
    """Decide how to help the pods. The placer's trial holds real and upcoming nodes with what fits on them already.

    With `all_or_nothing` the nodes of one choice, uncapped, have to take every pod; else nothing is bought.
    """
    demand = Demand(tuple(pods), at_least=len(pods) if all_or_nothing else 0, one_choice=all_or_nothing)
    with placer.trial.fork():
        return plan_on_trial(placer, demand, situation, chain, options, rules)


def plan_on_trial(
    placer: Placer, demand: Demand, situation: ScaleUpContext, chain: ExpanderChain, options: ScaleUp, rules: Rules
) -> ScaleUpPlan:
    """Decide as `plan_scale_up` does; the trial is left with the nodes and pods of the plan."""
    if not demand.pods:
        return ScaleUpPlan(result=ScaleUpResult.NOT_NEEDED)
    if isinstance(situation.allowance, Uncountable):
        error = f"could not compute total resources: no template for node group {situation.allowance.group}"
        return ScaleUpPlan(result=ScaleUpResult.ERROR, remaining=demand.pods, error=error)
    return _Decision(placer, demand, situation, chain, options, rules).plan()


class _Decision:
    """One scale-up decision in the making."""

    def __init__(
        self,
        placer: Placer,
        demand: Demand,
        situation: ScaleUpContext,
        chain: ExpanderChain,
        options: ScaleUp,
        rules: Rules,
    ) -> None:
        self._one_round = demand.one_choice or options.groups_per_pass is GroupsPerPass.ONE
        self._placer = placer
        self._demand = demand
        self._pods = demand.pods
        self._situation = situation
        self._chain = chain
        self._options = options
        self._rules = rules
        self._expansion_options = ExpansionOptions(placer, options, rules)
        self._needs = situation.needs(rules)
        self._capped_by_nodes_total = False
        self._choices: list[Choice] = []

    def plan(self) -> ScaleUpPlan:
        """Play turns until one leads nowhere."""
        first = self._situation
        skipped, valid = considered(self._situation, self._needs, self._rules)
        usable = valid
        groups = pod_groups(self._pods)
        fitting = self._expansion_options.fitting(self._situation, valid, groups)
        remaining = tuple(pod for pod in self._pods if not fitting.get(pod.cls))
        rejected = self._expansion_options.rejections(self._situation, valid, remaining)
        rounds: list[Round] = []
        helped: set[str] = set()
        left = self._pods
        most = max(_FEWEST_ROUNDS, _ROUNDS_PER_GROUP * len(first.groups.all))
        if self._one_round:
            most = 1
        error, declined = "", False
        while left and len(rounds) < most:
            if rounds:
                _, valid = considered(self._situation, self._needs, self._rules)
                groups = pod_groups(left)
                fitting = self._expansion_options.fitting(self._situation, valid, groups)
            in_time = self._expansion_options.in_time(self._situation, valid, fitting, groups)
            offers = self._expansion_options.offers(self._situation, valid, in_time, groups)
            turn, error = self._turn(self._acceptable(offers, len(helped)), groups)
            if not turn[0].increases:
                declined = bool(offers) and turn[0].chosen is None
                rounds.extend(turn if not rounds else ())
                break
            turn = self._joined(turn, left)
            rounds.extend(turn)
            helped.update(pod.key for plan_round in turn for pod in plan_round.helped)
            left = tuple(pod for pod in left if pod.key not in helped)
        remaining = tuple(pod for pod in remaining if pod.key not in helped)
        unfit = {pod.cls for pod in remaining}
        grown = any(plan_round.increases for plan_round in rounds)
        first_chosen = rounds[0].chosen if rounds else None
        plan_error = "" if grown else error
        left = tuple(pod for pod in left if pod.cls not in unfit)
        full, held = self._held(left if not plan_error else (), rounds, declined=declined)
        stuck = tuple(pod for pod in left if held.get(pod.key) is PodVerdict.NO_GROUP_FITS)
        result = ScaleUpResult.SUCCESSFUL if grown else ScaleUpResult.ERROR if plan_error else ScaleUpResult.NO_OPTIONS
        return ScaleUpPlan(
            result=result,
            rounds=tuple(rounds),
            triggered=tuple(pod for pod in self._pods if pod.key in helped),
            remaining=remaining,
            awaiting=self._awaiting(first_chosen, fitting, helped, remaining) if grown else (),
            held=held,
            full=full,
            rejected={cls: reasons for cls, reasons in rejected.items() if cls in unfit}
            | self._expansion_options.rejections(self._situation, usable, stuck),
            skipped=skipped,
            occurrences=tuple(
                dict.fromkeys(occurrence for choice in self._choices for occurrence in choice.occurrences)
            ),
            answers=tuple(answer for choice in self._choices for answer in choice.answers),
            capped_by_nodes_total=self._capped_by_nodes_total
            or ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL in held.values(),
            error=plan_error,
        )

    def _joined(self, turn: Sequence[Round], left: Sequence[Pod]) -> list[Round]:
        """Return the rounds of a turn; the last is also for pods that had to wait for those that the turn helps."""
        if self._one_round or not self._rules.pods_wait_for_affinity:
            return list(turn)
        helped = {pod.key for plan_round in turn for pod in plan_round.helped}
        placed_before = [pod.cls for plan_round in turn for pod in plan_round.helped]
        joining = place_followers(self._placer, [pod for pod in left if pod.key not in helped], placed_before)
        names = tuple(self._placer.trial.name(position) for _, position in joining)
        last = turn[-1]
        last = msgspec.structs.replace(
            last, helped=(*last.helped, *(pod for pod, _ in joining)), places=(*last.places, *names)
        )
        return [*turn[:-1], last]

    def _acceptable(self, offers: tuple[PackedOption, ...], helped: int) -> tuple[PackedOption, ...]:
        """Return the offers that may be taken once so many pods are helped; those that help enough go first."""
        demand = self._demand
        missing = demand.at_least - helped
        if missing <= 0 or not offers or demand.leaning is Leaning.NONE:
            return offers
        whole = tuple(offer for offer in offers if len(offer.option.pods) >= missing)
        if whole or self._one_round:
            return whole
        if demand.leaning is not Leaning.DENSEST:
            return offers
        most = max(offer.option.density for offer in offers)
        return tuple(offer for offer in offers if offer.option.density == most)

    def _turn(self, offers: tuple[PackedOption, ...], groups: Sequence[PodGroup]) -> tuple[list[Round], str]:
        """Like `_turn_among`, but offers of groups that cool down count only if the others lead nowhere."""
        others = tuple(offer for offer in offers if offer.option.group.id not in self._situation.cooling)
        if 0 < len(others) < len(offers):
            (first, *more), error = self._turn_among(others, groups)
            if first.increases:
                step = ExpanderStep(NOTICE_COOLDOWN, tuple(offer.option.group.id for offer in others))
                options = tuple(offer.option for offer in offers)
                return [msgspec.structs.replace(first, options=options, steps=(step, *first.steps)), *more], error
        return self._turn_among(offers, groups)

    def _turn_among(self, offers: tuple[PackedOption, ...], groups: Sequence[PodGroup]) -> tuple[list[Round], str]:
        """Choose among offers, and play what is chosen until something comes out otherwise.

        Returns at least one round. One without increases comes alone; an error says why it has none.
        """
        options = tuple(offer.option for offer in offers)
        rounds: list[Round] = []
        chosen, steps = self._chosen(offers, groups)
        for offer in chosen:
            if rounds:
                groups = without(groups, rounds[-1].helped)
            played, error = self._play(offer.option, (offer.option,) if rounds else options)
            played = played if rounds else msgspec.structs.replace(played, steps=steps)
            if not played.increases:
                return rounds or [played], error
            rounds.append(self._settle(played, offer, groups))
            if not _as_offered(played):
                break
        return rounds or [Round(options=options, steps=steps)], ""

    def _chosen(
        self, offers: tuple[PackedOption, ...], groups: Sequence[PodGroup]
    ) -> tuple[tuple[PackedOption, ...], tuple[ExpanderStep, ...]]:
        """Return what to take, and how it was chosen.

        That is the chain's choice, or the cheapest combination where that is what is asked for.
        """
        chain, options = self._chain, tuple(offer.option for offer in offers)
        if not options:
            return (), ()
        if chain.cost is not None and not self._one_round:
            kept, choice = chain.before_cost(options)
            self._choices.append(choice)
            ids = {option.group.id for option in kept}
            wanted = tuple(offer for offer in offers if offer.option.group.id in ids)
            terms = OptimiserInput(
                self._situation,
                self._needs,
                chain.cost,
                self._options.cost_stability_margin,
                self._rules,
                chain.preferred,
            )
            combined = combine(self._expansion_options, wanted, groups, terms)
            scores = {
                kept_option.group.id: score
                for kept_option, score in zip(kept, chain.cost.weigh(kept).scores, strict=True)
            }
            grown = tuple(dict.fromkeys(offer.option.group.id for offer in combined))
            return combined, (*choice.steps, ExpanderStep(COST, grown, scores))
        choice = chain.choose(options)
        self._choices.append(choice)
        taken = None if choice.option is None else choice.option.group.id
        return tuple(offer for offer in offers if offer.option.group.id == taken), choice.steps

    def _play(self, option: Option, options: tuple[Option, ...]) -> tuple[Round, str]:
        """Turn a choice into increases; an error says why there are none."""
        nodes, left = option.nodes, self._situation.nodes_left
        if left is not None and nodes > left:
            self._capped_by_nodes_total = True
            nodes = left
            if nodes < 1:
                return Round(options=options, chosen=option), "max node total count already reached"
        allowance = self._situation.allowance
        assert isinstance(allowance, Allowance)
        nodes = allowance.cap(self._needs[option.group.id], nodes)
        uncapped = self._one_round and self._demand.at_least > 0
        if uncapped and nodes < option.nodes:
            return Round(options=options, chosen=option), ""
        if nodes < 1:
            return Round(options=options, chosen=option), "max resource limit reached"
        increases = self._shared(option, nodes)
        if uncapped and sum(increase.delta for increase in increases) < nodes:
            increases = ()
        return Round(options=options, chosen=option, increases=increases), ""

    def _shared(self, option: Option, nodes: int) -> tuple[Increase, ...]:
        """Share the nodes among the chosen group and its similar ones."""
        by_id = self._situation.groups.by_id
        shares: dict[str, int] = {}
        for takers in self._takers(option):
            shares.update(balance([by_id[group_id] for group_id in takers], nodes - sum(shares.values())))
        allowance = self._situation.allowance
        limited = self._rules.balance_within_limits or bool(self._situation.quotas.all)
        if limited and isinstance(allowance, Allowance):
            shares = dict(within_limits(shares, self._needs, allowance))
        return tuple(
            Increase(
                group=group_id,
                delta=delta,
                before=by_id[group_id].target_size,
                max_size=by_id[group_id].max_size,
            )
            for group_id, delta in shares.items()
        )

    def _takers(self, option: Option) -> list[list[str]]:
        """Return the groups that share an option's nodes: first those that suit its pods, then those that do less."""
        groups, preferred = [option.group.id, *option.similar], self._chain.preferred
        if preferred is None or not option.similar:
            return [groups]
        behind = preferred.behind(option, {other: self._situation.templates[other] for other in option.similar})
        return [
            [group for group in groups if group not in behind],
            [group for group in groups if group in behind],
        ]

    def _settle(self, played: Round, offer: PackedOption, pods: Sequence[PodGroup]) -> Round:
        """Take a round's nodes as given; return the round with the pods that they help."""
        if self._options.groups_per_pass is GroupsPerPass.ONE:
            return msgspec.structs.replace(played, helped=offer.option.pods)
        trial = self._placer.trial
        first = trial.count
        for increase in played.increases:
            numbered = self._situation.upcoming(increase.group)
            trial.add(self._situation.templates[increase.group], increase.delta, UPCOMING, numbered)
        self._situation = self._situation.after(played.increases, self._needs)
        if _as_offered(played):
            placed = place(self._placer, offer)
        else:
            placed = deal(self._placer, pods, offer.option.template, slice(first, trial.count))
        names = tuple(trial.name(position) for _, position in placed)
        return msgspec.structs.replace(played, helped=tuple(pod for pod, _ in placed), places=names)

    def _held(
        self, left: Sequence[Pod], rounds: Sequence[Round], *, declined: bool
    ) -> tuple[tuple[Skipped, ...], dict[str, HeldReason]]:
        """Return the groups that may grow no further, and why no node was asked for these pods."""
        situation = self._situation
        if self._options.groups_per_pass is GroupsPerPass.ONE:
            for plan_round in rounds:
                situation = situation.after(plan_round.increases, self._needs)
        full, valid = considered(situation, self._needs, self._rules)
        fitting = self._expansion_options.fitting(situation, valid, pod_groups(left)) if left else {}
        otherwise: HeldReason = PodVerdict.NOT_CHOSEN if declined else PodVerdict.NEXT_PASS
        if situation.nodes_left == 0:
            otherwise = ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
        return full, {pod.key: otherwise if fitting[pod.cls] else PodVerdict.NO_GROUP_FITS for pod in left}

    def _awaiting(
        self,
        chosen: Option | None,
        fitting: Fitting,
        helped: set[str],
        remaining: Sequence[Pod],
    ) -> tuple[Pod, ...]:
        """Return pods that fit some group, though not the one chosen first."""
        if chosen is None:
            return ()
        hopeless = {pod.key for pod in remaining}
        return tuple(
            pod
            for pod in self._pods
            if pod.key not in helped and pod.key not in hopeless and chosen.group.id not in fitting.get(pod.cls, ())
        )


def _as_offered(played: Round) -> bool:
    """Whether a round gives the chosen group all the nodes of the choice, and no other group any."""
    chosen = played.chosen
    return chosen is not None and [(increase.group, increase.delta) for increase in played.increases] == [
        (chosen.group.id, chosen.nodes)
    ]
