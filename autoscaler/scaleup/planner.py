"""The scale-up decision: which groups grow, by how much, and what becomes of every pending pod.

Groups are filtered, each that can take some pod makes an option, an expander chooses, limits cap, similar groups
share. With `groups_per_pass=all` the chosen nodes are then taken as given and the rest of the pods gets another round,
until nothing more can be helped; `one` stops after the first, as Cluster Autoscaler does. Everything is a function
of its arguments; the trial is left as it was found. Source: Cluster Autoscaler's `core/scaleup/orchestrator`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import GroupsPerPass, ScaleUp
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import Rejection, ScaleUpResult
from autoscaler.scaleup.balancing import balance, within_limits
from autoscaler.scaleup.choice import Choice
from autoscaler.scaleup.estimator import Packed, PodGroup, deal, estimate, pod_groups, spread_over
from autoscaler.scaleup.expander import Chain
from autoscaler.scaleup.limits import Allowance, Uncountable
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.plan import Increase, Round, ScaleUpPlan
from autoscaler.scaleup.situation import Situation, considered
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.template import UPCOMING

_FEWEST_ROUNDS, _ROUNDS_PER_GROUP = 50, 2
"""Bounds a pass by the larger of a number of rounds and so many per group: what is left then waits for the next one.

Pods that spread over zones take a round for every pod of an owner, since one round grows one zone.
"""


def plan_scale_up(
    placer: Placer,
    pods: Sequence[Pod],
    situation: Situation,
    chain: Chain,
    options: ScaleUp,
    rules: Rules,
    *,
    all_or_nothing: bool = False,
) -> ScaleUpPlan:
    """Decide how to help the pods. The placer's trial holds real and upcoming nodes with what fits on them already.

    With `all_or_nothing` the nodes of one choice, uncapped, have to take every pod; else nothing is bought.
    """
    if not pods:
        return ScaleUpPlan(result=ScaleUpResult.NOT_NEEDED)
    if isinstance(situation.allowance, Uncountable):
        error = f"could not compute total resources: no template for node group {situation.allowance.group}"
        return ScaleUpPlan(result=ScaleUpResult.ERROR, remaining=tuple(pods), error=error)
    with placer.trial.fork():
        return _Decision(placer, pods, situation, chain, options, rules, all_or_nothing=all_or_nothing).plan()


class _Decision:
    """One scale-up decision in the making."""

    def __init__(
        self,
        placer: Placer,
        pods: Sequence[Pod],
        situation: Situation,
        chain: Chain,
        options: ScaleUp,
        rules: Rules,
        *,
        all_or_nothing: bool,
    ) -> None:
        self._all_or_nothing = all_or_nothing
        self._placer = placer
        self._pods = tuple(pods)
        self._situation = situation
        self._chain = chain
        self._options = options
        self._rules = rules
        self._needs = situation.needs(rules)
        self._capped_by_nodes_total = False
        self._choices: list[Choice] = []
        self._packed: dict[str, tuple[Packed, ...]] = {}
        self._upcoming = {group_id: state.upcoming for group_id, state in situation.states.items()}

    def plan(self) -> ScaleUpPlan:
        """Play rounds until one leads nowhere."""
        first = self._situation
        skipped, valid = considered(self._situation, self._needs, self._rules)
        groups = pod_groups(self._pods)
        helpable = self._helpable(valid, groups)
        remaining = tuple(pod for pod in self._pods if not helpable.get(pod.cls))
        rejected = self._rejections(valid, remaining)
        rounds: list[Round] = []
        helped: set[str] = set()
        left = self._pods
        most = max(_FEWEST_ROUNDS, _ROUNDS_PER_GROUP * len(first.groups.all))
        if self._options.groups_per_pass is GroupsPerPass.ONE or self._all_or_nothing:
            most = 1
        error = ""
        while left and len(rounds) < most:
            if rounds:
                _, valid = considered(self._situation, self._needs, self._rules)
                groups = pod_groups(left)
                helpable = self._helpable(valid, groups)
            options = self._build_options(valid, helpable, groups)
            played, error = self._play(options)
            if not played.increases:
                if not rounds:
                    rounds.append(played)
                break
            rounds.append(self._settle(played, groups))
            helped.update(pod.key for pod in rounds[-1].helped)
            left = tuple(pod for pod in left if pod.key not in helped)
        grown = any(each.increases for each in rounds)
        first_chosen = rounds[0].chosen if rounds else None
        plan_error = "" if grown else error
        result = ScaleUpResult.SUCCESSFUL if grown else ScaleUpResult.ERROR if plan_error else ScaleUpResult.NO_OPTIONS
        return ScaleUpPlan(
            result=result,
            rounds=tuple(rounds),
            triggered=tuple(pod for pod in self._pods if pod.key in helped),
            remaining=remaining,
            awaiting=self._awaiting(first_chosen, helpable, helped, remaining) if grown else (),
            rejected=rejected,
            skipped=skipped,
            occurrences=tuple(dict.fromkeys(one for choice in self._choices for one in choice.occurrences)),
            answers=tuple(answer for choice in self._choices for answer in choice.answers),
            capped_by_nodes_total=self._capped_by_nodes_total,
            error=plan_error,
        )

    def _helpable(self, valid: Sequence[Group], pods: Sequence[PodGroup]) -> dict[PodClass, set[str]]:
        """Return the groups whose fresh node each class fits, by class."""
        fitting: dict[PodClass, set[str]] = {group.cls: set() for group in pods}
        for group in valid:
            with self._one_more(group.id) as position:
                for cls, groups in fitting.items():
                    if self._placer.fits(cls, position):
                        groups.add(group.id)
        return fitting

    def _rejections(
        self, valid: Sequence[Group], remaining: Sequence[Pod]
    ) -> dict[PodClass, dict[str, tuple[Rejection, ...]]]:
        rejected: dict[PodClass, dict[str, tuple[Rejection, ...]]] = {pod.cls: {} for pod in remaining}
        for group in valid if rejected else ():
            with self._one_more(group.id) as position:
                for cls, by_group in rejected.items():
                    by_group[group.id] = self._placer.why(cls, position)
        return rejected

    @contextmanager
    def _one_more(self, group_id: str) -> Iterator[int]:
        """Yield the position of one more node of the group, gone afterwards."""
        with self._placer.trial.fork():
            yield self._placer.trial.add(self._situation.templates[group_id], 1)[0]

    def _build_options(
        self, valid: Sequence[Group], helpable: Mapping[PodClass, set[str]], pods: Sequence[PodGroup]
    ) -> tuple[Option, ...]:
        options: list[Option] = []
        for group in valid:
            candidates = [one for one in pods if group.id in helpable.get(one.cls, ())]
            if not candidates:
                continue
            similar = self._similar(group, helpable)
            template = self._situation.templates[group.id]
            estimated = estimate(
                self._placer,
                template,
                candidates,
                self._node_limit(group, similar),
                topology_fallback=self._rules.topology_fallback_in_estimator,
            )
            self._packed[group.id] = estimated.packed
            nodes = estimated.nodes
            if self._all_or_nothing and not self._takes_all(group, estimated.pods, nodes):
                continue
            if nodes > 0 and group.settings.zero_or_max_node_scaling:
                nodes = group.max_size
            if nodes > 0 and estimated.pods:
                options.append(
                    Option(group=group, template=template, nodes=nodes, pods=estimated.pods, similar=tuple(similar))
                )
        return tuple(options)

    def _takes_all(self, group: Group, pods: Sequence[Pod], nodes: int) -> bool:
        fits = nodes <= group.max_size or not group.settings.zero_or_max_node_scaling
        return fits and len(pods) == len(self._pods)

    def _similar(self, group: Group, helpable: Mapping[PodClass, set[str]]) -> list[str]:
        """Return similar groups that may grow and can host whatever this group can."""
        if group.settings.zero_or_max_node_scaling:
            return []
        return [
            other
            for other in self._situation.similar.get(group.id, ())
            if self._situation.states[other].may_scale_up
            and all(other in groups for groups in helpable.values() if group.id in groups)
        ]

    def _node_limit(self, group: Group, similar: Sequence[str]) -> int | None:
        """Return how many nodes an estimation may add: the strictest of all limits."""
        by_id = self._situation.groups.by_id
        limits = [group.room + sum(by_id[other].room for other in similar)]
        if self._options.max_nodes_per_scaleup > 0:
            limits.append(self._options.max_nodes_per_scaleup)
        if self._situation.nodes_left is not None:
            limits.append(self._situation.nodes_left)
        return min(limits)

    def _play(self, options: tuple[Option, ...]) -> tuple[Round, str]:
        """Choose among options and turn the choice into increases; an error says why there are none."""
        if not options:
            return Round(options=()), ""
        choice = self._chain.choose(options)
        self._choices.append(choice)
        if choice.option is None:
            return Round(options=options), ""
        nodes, left = choice.option.nodes, self._situation.nodes_left
        if left is not None and nodes > left:
            self._capped_by_nodes_total = True
            nodes = left
            if nodes < 1:
                return Round(options=options, chosen=choice.option), "max node total count already reached"
        allowance = self._situation.allowance
        assert isinstance(allowance, Allowance)
        nodes = allowance.cap(self._needs[choice.option.group.id], nodes)
        if self._all_or_nothing and nodes < choice.option.nodes:
            return Round(options=options, chosen=choice.option), ""
        if nodes < 1:
            return Round(options=options, chosen=choice.option), "max resource limit reached"
        increases = self._shared(choice.option, nodes)
        if self._all_or_nothing and sum(one.delta for one in increases) < nodes:
            increases = ()
        return Round(options=options, chosen=choice.option, increases=increases), ""

    def _shared(self, option: Option, nodes: int) -> tuple[Increase, ...]:
        """Share the nodes among the chosen group and its similar ones."""
        by_id = self._situation.groups.by_id
        takers = [by_id[group_id] for group_id in (option.group.id, *option.similar)]
        shares = balance(takers, nodes)
        allowance = self._situation.allowance
        if self._rules.balance_within_limits and isinstance(allowance, Allowance):
            shares = within_limits(shares, self._needs, allowance)
        return tuple(
            Increase(
                group=group_id,
                delta=delta,
                before=by_id[group_id].target_size,
                max_size=by_id[group_id].max_size,
            )
            for group_id, delta in shares.items()
        )

    def _settle(self, played: Round, pods: Sequence[PodGroup]) -> Round:
        """Take a round's nodes as given; return the round with the pods that they help."""
        chosen = played.chosen
        if chosen is None:
            return played
        if self._options.groups_per_pass is GroupsPerPass.ONE:
            return msgspec.structs.replace(played, helped=chosen.pods)
        trial = self._placer.trial
        first = trial.count
        for increase in played.increases:
            numbered = self._upcoming.get(increase.group, 0)
            trial.add(self._situation.templates[increase.group], increase.delta, UPCOMING, numbered)
            self._upcoming[increase.group] = numbered + increase.delta
        self._situation = self._situation.after(played.increases, self._needs)
        if [(one.group, one.delta) for one in played.increases] == [(chosen.group.id, chosen.nodes)]:
            placed = self._as_packed(chosen)
        else:
            placed = deal(self._placer, pods, chosen.template, slice(first, trial.count))
        names = tuple(trial.name(position) for _, position in placed)
        return msgspec.structs.replace(played, helped=tuple(pod for pod, _ in placed), places=names)

    def _as_packed(self, chosen: Option) -> tuple[tuple[Pod, int], ...]:
        """Place the pods of an option as its estimation did."""
        waiting = {group.cls: iter(group.pods) for group in pod_groups(chosen.pods)}
        placed: list[tuple[Pod, int]] = []
        for packed in self._packed[chosen.group.id]:
            self._placer.place_many(packed.cls, packed.positions, packed.counts)
            placed.extend(spread_over(waiting[packed.cls], packed.positions, packed.counts))
        return tuple(placed)

    def _awaiting(
        self,
        chosen: Option | None,
        helpable: Mapping[PodClass, set[str]],
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
            if pod.key not in helped and pod.key not in hopeless and chosen.group.id not in helpable.get(pod.cls, ())
        )
