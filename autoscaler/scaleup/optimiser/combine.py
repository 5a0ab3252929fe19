"""Combines groups to the cheapest combination for all pending pods.

Helping more pods comes first, then the price of the nodes, then fewer groups. Candidates are

- what each group offers alone;
- rounds that take one offer after the other: the one with the lowest price for the value of its pods, or the one with
  the least waste;
- a greedy packing of the model, after rounds for the interdependent pods;
- where the backlog is small, the cheapest packing of all, by branch and bound.

Every candidate is packed on the trial with the scheduler's filters before it counts. All bounds are numbers of steps,
so that the same backlog always gets the same answer. The simplest candidate that costs at most a margin more than the
cheapest wins: kinds of nodes do not multiply unless that saves money.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scaleup.estimator import PodGroup
from autoscaler.scaleup.expander import LeastWaste
from autoscaler.scaleup.optimiser.branch_and_bound import TINY, PackingSearch, TrialCheck
from autoscaler.scaleup.optimiser.dual_prices import DualPrices, solve_dual
from autoscaler.scaleup.optimiser.greedy import GreedyPacker
from autoscaler.scaleup.optimiser.model import NodeOffer, PackingModel, measure, purchase_limits
from autoscaler.scaleup.optimiser.packing import Packing
from autoscaler.scaleup.optimiser.rounds import OptimiserInput, Rounds, Score
from autoscaler.scaleup.optimiser.verify import verified_options
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.options import ExpansionOptions, PackedOption
from autoscaler.scaleup.preferred import lost_by

_FEW_PODS = 500
"""Backlogs up to this size get rounds by every rule."""
_SEARCHED_PODS, _SEARCH_STEPS = 40, 10_000
"""Backlogs up to this size are searched, and the steps of that search."""
_TRIED_PODS, _TRIED_STEPS = 12, 3_000
"""The same where every step is tried on the trial."""


class Combination(msgspec.Struct, frozen=True):
    """Offers to take in order, the nodes of each after those of the one before."""

    offers: tuple[PackedOption, ...]
    price: float
    lost: int = 0
    """Points that its pods lose by their preferences; see `preferred.lost_by`."""

    @property
    def helped(self) -> int:
        """Pods that it helps."""
        return sum(len(offer.option.pods) for offer in self.offers)

    @property
    def groups(self) -> int:
        """How many groups grow."""
        return len({offer.option.group.id for offer in self.offers})

    @property
    def nodes(self) -> int:
        """Nodes to buy."""
        return sum(offer.option.nodes for offer in self.offers)


def combine(
    options: ExpansionOptions, offers: Sequence[PackedOption], pods: Sequence[PodGroup], terms: OptimiserInput
) -> tuple[PackedOption, ...]:
    """Return what to buy, in order; `offers` are what each group alone offers to the pods.

    Groups of unknown price are left out unless no price is known: then the first group that helps most pods grows.
    """
    priced = tuple(offer for offer in offers if terms.cost.price(offer.option) is not None)
    if not priced:
        return tuple(sorted(offers, key=lambda offer: -len(offer.option.pods))[:1])
    return _Optimiser(options, priced, pods, terms).best()


def simplest(candidates: Iterable[Combination], margin: float) -> Combination:
    """Return the candidate that helps most and, within the margin of the cheapest of these, has the fewest groups.

    Between equal ones it is the one that its pods prefer.
    """
    combinations = list(candidates)
    helped = max(combination.helped for combination in combinations)
    best = [combination for combination in combinations if combination.helped == helped]
    cheapest = min(combination.price for combination in best)
    limit = cheapest * (1 + margin) + TINY * max(1.0, cheapest)
    affordable = [combination for combination in best if combination.price <= limit]
    return min(
        affordable,
        key=lambda combination: (combination.groups, combination.lost, round(combination.price, 9), combination.nodes),
    )


class _Optimiser:
    def __init__(
        self,
        options: ExpansionOptions,
        offers: tuple[PackedOption, ...],
        pods: Sequence[PodGroup],
        terms: OptimiserInput,
    ) -> None:
        self._options = options
        self._terms = terms
        groups = [offer.option.group for offer in offers]
        self._rounds = Rounds(options, groups, terms)
        self._fitting = options.fitting(terms.situation, groups, pods)
        self._pods = [group for group in pods if self._fitting[group.cls]]
        self._offers = self._rounds.offers(terms.situation, groups, self._fitting, self._pods, offers)
        preferred, options_made = terms.preferred, [offer.option for offer in self._offers]
        losses = [] if preferred is None else preferred.losses(options_made)
        self._losses = {option.group.id: lost for option, lost in zip(options_made, losses, strict=False) if lost}
        self._node_offers = [self._node_offer(offer) for offer in self._offers]
        self._limits = purchase_limits(self._node_offers, terms.situation, terms.needs)

    def _node_offer(self, offer: PackedOption) -> NodeOffer:
        option = offer.option
        atomic = option.group.settings.zero_or_max_node_scaling
        unit = option.group.room if atomic else 1
        max_nodes = unit if atomic else self._options.node_limit(self._terms.situation, option.group)
        return NodeOffer(option, self._terms.cost.node_price(option) or 0.0, unit, max_nodes)

    def best(self) -> tuple[PackedOption, ...]:
        """Return the best candidate's offers."""
        model = measure(
            self._options, self._terms.situation, self._node_offers, self._pods, self._fitting, self._limits
        )
        dual_prices = solve_dual(model)
        waste = LeastWaste(plain_containers=self._terms.rules.least_waste_plain_containers).waste
        candidates = [
            *(self._candidate((offer,)) for offer in self._offers),
            self._in_rounds(self._by_value(dual_prices)),
            self._in_rounds(lambda offer: (waste(offer.option), self._lost(offer.option))),
        ]
        if sum(model.demand) <= _FEW_PODS or max(candidate.helped for candidate in candidates) < sum(model.demand):
            # Where limits leave some pods out, the order of the offers decides how many.
            candidates.append(self._in_rounds(lambda offer: (-len(offer.option.pods), self._lost(offer.option))))
            candidates.append(self._in_rounds(lambda offer: (offer.option.nodes, self._lost(offer.option))))
        packed = self._packed_greedily(model, dual_prices)
        if packed is not None:
            candidates.append(packed)
        searched = self._searched(model, dual_prices, candidates)
        if searched is not None:
            candidates.append(searched)
        candidates = [candidate for candidate in candidates if candidate.offers]
        return simplest(candidates, self._terms.margin).offers if candidates else ()

    def _in_rounds(self, score: Callable[[PackedOption], Score]) -> Combination:
        return self._candidate(self._rounds.run(self._pods, score, self._offers))

    def _candidate(self, offers: tuple[PackedOption, ...]) -> Combination:
        price = sum((self._terms.cost.price(offer.option) or 0.0) for offer in offers)
        return Combination(offers, price, sum(self._lost(offer.option) for offer in offers))

    def _lost(self, option: Option) -> int:
        losses = self._losses.get(option.group.id)
        return 0 if losses is None else lost_by(option.pods, losses)

    def _by_value(self, dual_prices: DualPrices) -> Callable[[PackedOption], Score]:
        prices = {group.cls: price for group, price in zip(self._pods, dual_prices.by_class, strict=True)}

        def score(offer: PackedOption) -> Score:
            value = sum(prices.get(cls, 0.0) * count for cls, count in _classes(offer.option.pods).items())
            price = self._terms.cost.price(offer.option) or 0.0
            return price / value if value > 0 else float(price > 0), self._lost(offer.option)

        return score

    def _packed_greedily(self, model: PackingModel, dual_prices: DualPrices) -> Combination | None:
        """Place interdependent pods in rounds, and pack the others with the model."""
        trial = self._options.placer.trial
        if not model.interdependent:
            return self._verified((), model, GreedyPacker(model, dual_prices).pack())
        interdependent = [group for cls, group in enumerate(self._pods) if cls in model.interdependent]
        others = [group for cls, group in enumerate(self._pods) if cls not in model.interdependent]
        before = self._rounds.run(interdependent, self._by_value(dual_prices))
        if not others:
            return self._candidate(before)
        with trial.fork():
            first, situation = trial.count, self._terms.situation
            for offer in before:
                situation = self._rounds.after(situation, offer)
            room = {group.id: group.room for group in situation.groups.all}
            offers = [
                msgspec.structs.replace(offer, max_nodes=min(offer.max_nodes, room[offer.group]))
                for offer in self._node_offers
                if room[offer.group] >= offer.unit
            ]
            limits = purchase_limits(offers, situation, self._terms.needs)
            rest = measure(self._options, situation, offers, others, self._fitting, limits, range(first, trial.count))
            return self._verified(before, rest, GreedyPacker(rest, solve_dual(rest)).pack())

    def _searched(
        self, model: PackingModel, dual_prices: DualPrices, candidates: Sequence[Combination]
    ) -> Combination | None:
        """Return the cheapest packing of a small backlog; None where nothing beats the candidates."""
        pods, interdependent = sum(model.demand), bool(model.interdependent)
        if pods > (_TRIED_PODS if interdependent else _SEARCHED_PODS):
            return None
        known = simplest(candidates, 0.0)
        bar = (pods - known.helped, known.price)
        if not interdependent:
            best = PackingSearch(model, dual_prices, _SEARCH_STEPS, bar).run().best
        else:
            templates = [offer.option.template for offer in model.offers]
            check = TrialCheck(self._options, model, templates)
            best = PackingSearch(model, dual_prices, _TRIED_STEPS, bar, check).run().best
        return None if best is None else self._verified((), model, best)

    def _verified(self, before: tuple[PackedOption, ...], model: PackingModel, packing: Packing) -> Combination | None:
        offers = verified_options(self._options.placer, model, packing, before)
        return None if offers is None else self._candidate(offers)


def _classes(pods: Iterable[Pod]) -> Counter[PodClass]:
    return Counter(pod.cls for pod in pods)
