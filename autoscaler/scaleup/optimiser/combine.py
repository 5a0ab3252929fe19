"""The cheapest combination of groups for the whole backlog.

Helping more pods comes first, then the price of the nodes, then fewer groups. Candidates are

- what each group offers alone;
- turns in which one offer after the other is taken, the one with the best price for what its pods are worth, or the one
  with the least waste;
- a filling in figures (`greedy`), for pods that constraints between nodes or classes entangle on top of such turns;
- where the backlog is small, the cheapest filling of all (`search`).

Every candidate is packed on the trial with the scheduler's filters before it counts. All bounds are numbers of steps,
so that the same backlog always gets the same answer. The simplest candidate that costs at most a margin more than the
cheapest wins: without a reason in money the kinds of nodes do not multiply.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scaleup.estimator import PodGroup
from autoscaler.scaleup.expander import LeastWaste
from autoscaler.scaleup.optimiser.branch_and_bound import TINY, PackingSearch, TrialCheck
from autoscaler.scaleup.optimiser.dual_prices import DualPrices, worth
from autoscaler.scaleup.optimiser.greedy import GreedyPacker
from autoscaler.scaleup.optimiser.model import NodeOffer, PackingModel, means_of, measure
from autoscaler.scaleup.optimiser.packing import Packing
from autoscaler.scaleup.optimiser.rounds import OptimiserInput, Rounds
from autoscaler.scaleup.optimiser.verify import proven
from autoscaler.scaleup.options import ExpansionOptions, PackedOption

_FEW_PODS = 500
"""Backlogs up to this size get the turns of every rule there is."""
_SEARCHED_PODS, _SEARCH_STEPS = 40, 10_000
"""Backlogs up to this size are searched, in figures, for so many steps."""
_TRIED_PODS, _TRIED_STEPS = 12, 3_000
"""The same where every step is tried on the trial."""


class Combination(msgspec.Struct, frozen=True):
    """Offers to take in order, the nodes of each after those of the one before."""

    offers: tuple[PackedOption, ...]
    price: float

    @property
    def helped(self) -> int:
        """Pods that it helps."""
        return sum(len(offer.option.pods) for offer in self.offers)

    @property
    def groups(self) -> int:
        """How many groups grow."""
        return len({offer.option.group.id for offer in self.offers})


def combine(
    market: ExpansionOptions, offers: Sequence[PackedOption], pods: Sequence[PodGroup], terms: OptimiserInput
) -> tuple[PackedOption, ...]:
    """Return what to buy, in order; `offers` are what groups, one by one, offer to the pods.

    Groups of unknown price are left out unless no price is known: then the first group that helps most pods grows.
    """
    priced = tuple(offer for offer in offers if terms.cost.price(offer.option) is not None)
    if not priced:
        return tuple(sorted(offers, key=lambda offer: -len(offer.option.pods))[:1])
    return _Optimiser(market, priced, pods, terms).best()


def simplest(candidates: Iterable[Combination], margin: float) -> Combination:
    """Return the candidate that helps most and, within the margin of the cheapest of these, has the fewest groups."""
    found = list(candidates)
    helped = max(one.helped for one in found)
    found = [one for one in found if one.helped == helped]
    cheapest = min(one.price for one in found)
    affordable = [one for one in found if one.price <= cheapest * (1 + margin) + TINY * max(1.0, cheapest)]
    return min(affordable, key=lambda one: (one.groups, round(one.price, 9), sum(o.option.nodes for o in one.offers)))


class _Optimiser:
    def __init__(
        self,
        market: ExpansionOptions,
        offers: tuple[PackedOption, ...],
        pods: Sequence[PodGroup],
        terms: OptimiserInput,
    ) -> None:
        self._market = market
        self._terms = terms
        groups = [offer.option.group for offer in offers]
        self._turns = Rounds(market, groups, terms)
        self._fitting = market.fitting(terms.situation, groups, pods)
        self._pods = [each for each in pods if self._fitting[each.cls]]
        self._offers = self._turns.offered(terms.situation, groups, self._fitting, self._pods, offers)
        self._goods = [self._good(offer) for offer in self._offers]
        self._means = means_of(self._goods, terms.situation, terms.needs)

    def _good(self, offer: PackedOption) -> NodeOffer:
        option = offer.option
        whole = option.group.settings.zero_or_max_node_scaling
        unit = option.group.room if whole else 1
        most = unit if whole else self._market.node_limit(self._terms.situation, option.group)
        return NodeOffer(option, self._terms.cost.node_price(option) or 0.0, unit, most)

    def best(self) -> tuple[PackedOption, ...]:
        """Return the best candidate's offers."""
        model = measure(self._market, self._terms.situation, self._goods, self._pods, self._fitting, self._means)
        value = worth(model)
        waste = LeastWaste(plain_containers=self._terms.rules.least_waste_plain_containers).waste
        candidates = [
            *(self._candidate((offer,)) for offer in self._offers),
            self._in_turns(self._by_worth(value)),
            self._in_turns(lambda offer: waste(offer.option)),
        ]
        if sum(model.demand) <= _FEW_PODS or max(one.helped for one in candidates) < sum(model.demand):
            # Where limits leave some pods out, how many these are depends on what comes first.
            candidates.append(self._in_turns(lambda offer: -len(offer.option.pods)))
            candidates.append(self._in_turns(lambda offer: offer.option.nodes))
        filled = self._filled(model, value)
        if filled is not None:
            candidates.append(filled)
        searched = self._searched(model, value, candidates)
        if searched is not None:
            candidates.append(searched)
        candidates = [one for one in candidates if one.offers]
        return simplest(candidates, self._terms.margin).offers if candidates else ()

    def _in_turns(self, rate: Callable[[PackedOption], float]) -> Combination:
        return self._candidate(self._turns.taken(self._pods, rate, self._offers))

    def _candidate(self, offers: tuple[PackedOption, ...]) -> Combination:
        return Combination(offers, sum((self._terms.cost.price(offer.option) or 0.0) for offer in offers))

    def _by_worth(self, value: DualPrices) -> Callable[[PackedOption], float]:
        known = {each.cls: value.pod[at] for at, each in enumerate(self._pods)}

        def rate(offer: PackedOption) -> float:
            gives = sum(known.get(cls, 0.0) * count for cls, count in _classes(offer.option.pods).items())
            price = self._terms.cost.price(offer.option) or 0.0
            return price / gives if gives > 0 else float(price > 0)

        return rate

    def _filled(self, model: PackingModel, value: DualPrices) -> Combination | None:
        """Serve entangled pods in turns, and fill up with the others in figures."""
        trial = self._market.placer.trial
        if not model.entangled:
            return self._proven((), model, GreedyPacker(model, value).fill())
        entangled = [each for at, each in enumerate(self._pods) if at in model.entangled]
        others = [each for at, each in enumerate(self._pods) if at not in model.entangled]
        before = self._turns.taken(entangled, self._by_worth(value))
        if not others:
            return self._candidate(before)
        with trial.fork():
            first, situation = trial.count, self._terms.situation
            for offer in before:
                situation = self._turns.after(situation, offer)
            room = {group.id: group.room for group in situation.groups.all}
            goods = [
                msgspec.structs.replace(good, most=min(good.most, room[good.group]))
                for good in self._goods
                if room[good.group] >= good.unit
            ]
            means = means_of(goods, situation, self._terms.needs)
            rest = measure(self._market, situation, goods, others, self._fitting, means, range(first, trial.count))
            return self._proven(before, rest, GreedyPacker(rest, worth(rest)).fill())

    def _searched(
        self, model: PackingModel, value: DualPrices, candidates: Sequence[Combination]
    ) -> Combination | None:
        """Return the cheapest filling of a small backlog; None where nothing beats the candidates."""
        pods, entangled = sum(model.demand), bool(model.entangled)
        if pods > (_TRIED_PODS if entangled else _SEARCHED_PODS):
            return None
        known = simplest(candidates, 0.0)
        bar = (pods - known.helped, known.price)
        if not entangled:
            best = PackingSearch(model, value, _SEARCH_STEPS, bar).run().best
        else:
            templates = [good.option.template for good in model.goods]
            trying = TrialCheck(self._market, model, templates)
            best = PackingSearch(model, value, _TRIED_STEPS, bar, trying).run().best
        return None if best is None else self._proven((), model, best)

    def _proven(self, before: tuple[PackedOption, ...], model: PackingModel, filling: Packing) -> Combination | None:
        offers = proven(self._market.placer, model, filling, before)
        return None if offers is None else self._candidate(offers)


def _classes(pods: Iterable[Pod]) -> Counter[PodClass]:
    return Counter(pod.cls for pod in pods)
