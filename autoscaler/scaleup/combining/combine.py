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
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from autoscaler.config.rules import Rules
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scaleup.combining.filling import Filling
from autoscaler.scaleup.combining.greedy import Greedy
from autoscaler.scaleup.combining.model import Good, Model, means_of, measure
from autoscaler.scaleup.combining.search import TINY, Search, Trying
from autoscaler.scaleup.combining.worth import Worth, worth
from autoscaler.scaleup.cost import Cost
from autoscaler.scaleup.estimator import Packed, PodGroup, spread_over
from autoscaler.scaleup.expander import LeastWaste
from autoscaler.scaleup.limits import Allowance
from autoscaler.scaleup.market import Fitting, Market, Offer, place
from autoscaler.scaleup.plan import Increase
from autoscaler.scaleup.situation import Situation, considered
from autoscaler.snapshot.contribution import Contribution
from autoscaler.snapshot.groups import Group

_MOST_TURNS = 100
"""Offers taken one after the other for one candidate."""
_SEARCHED_PODS, _SEARCH_STEPS = 40, 20_000
"""Backlogs up to this size are searched, in figures, for so many steps."""
_TRIED_PODS, _TRIED_STEPS = 12, 3_000
"""The same where every step is tried on the trial."""


class Terms(msgspec.Struct, frozen=True):
    """What a combination goes by."""

    situation: Situation
    needs: Mapping[str, Contribution]
    cost: Cost
    margin: float = 0.0
    """Share of its price that a combination must save over one with fewer groups."""
    rules: Rules = Rules()


class Candidate(msgspec.Struct, frozen=True):
    """Offers to take in order, the nodes of each after those of the one before."""

    offers: tuple[Offer, ...]
    price: float

    @property
    def helped(self) -> int:
        """Pods that it helps."""
        return sum(len(offer.option.pods) for offer in self.offers)

    @property
    def groups(self) -> int:
        """How many groups grow."""
        return len({offer.option.group.id for offer in self.offers})


def combine(market: Market, offers: Sequence[Offer], pods: Sequence[PodGroup], terms: Terms) -> tuple[Offer, ...]:
    """Return what to buy, in order; `offers` are what groups, one by one, offer to the pods.

    Groups of unknown price are left out unless no price is known: then the first group that helps most pods grows.
    """
    priced = tuple(offer for offer in offers if terms.cost.price(offer.option) is not None)
    if not priced:
        return tuple(sorted(offers, key=lambda offer: -len(offer.option.pods))[:1])
    return _Combining(market, priced, pods, terms).best()


def simplest(candidates: Iterable[Candidate], margin: float) -> Candidate:
    """Return the candidate that helps most and, within the margin of the cheapest of these, has the fewest groups."""
    found = list(candidates)
    helped = max(one.helped for one in found)
    found = [one for one in found if one.helped == helped]
    cheapest = min(one.price for one in found)
    affordable = [one for one in found if one.price <= cheapest * (1 + margin) + TINY * max(1.0, cheapest)]
    return min(affordable, key=lambda one: (one.groups, round(one.price, 9), sum(o.option.nodes for o in one.offers)))


class _Combining:
    def __init__(self, market: Market, offers: tuple[Offer, ...], pods: Sequence[PodGroup], terms: Terms) -> None:
        self._market = market
        self._terms = terms
        self._groups = [offer.option.group for offer in offers]
        self._fitting = market.fitting(terms.situation, self._groups, pods)
        self._pods = [each for each in pods if self._fitting[each.cls]]
        self._offers = self._offered(terms.situation, self._groups, self._fitting, self._pods, offers)
        self._goods = [self._good(offer) for offer in self._offers]
        self._means = means_of(self._goods, terms.situation, terms.needs)

    def _offered(
        self,
        situation: Situation,
        groups: Sequence[Group],
        fitting: Fitting,
        pods: Sequence[PodGroup],
        known: Sequence[Offer] = (),
    ) -> tuple[Offer, ...]:
        """Return what groups offer within all limits, similar groups aside; `known` are offers that may do."""
        given = {offer.option.group.id: offer for offer in known}
        found: list[Offer] = []
        for group in groups:
            ceiling = self._ceiling(situation, group)
            offer = given.get(group.id)
            if offer is None or _bought(offer) > ceiling:
                offer = next(iter(self._market.offers(situation, (group,), fitting, pods, ceiling)), None)
            if offer is not None and 0 < _bought(offer) <= ceiling:
                found.append(self._alone(offer))
        return tuple(found)

    def _ceiling(self, situation: Situation, group: Group) -> int:
        """Return the most nodes that a group may get."""
        whole = group.settings.zero_or_max_node_scaling
        nodes = group.room if whole else self._market.node_limit(situation, group)
        allowance = situation.allowance
        return allowance.cap(self._terms.needs[group.id], nodes) if isinstance(allowance, Allowance) else 0

    def _alone(self, offer: Offer) -> Offer:
        """Return the offer with those similar groups only that cost no more."""
        option, cost = offer.option, self._terms.cost
        own, by_id = cost.node_price(option) or 0.0, self._terms.situation.groups.by_id
        prices = {other: by_id[other].node_price for other in option.similar}
        similar = tuple(other for other, price in prices.items() if price is not None and price <= own)
        return Offer(msgspec.structs.replace(option, similar=similar), offer.packed)

    def _good(self, offer: Offer) -> Good:
        option = offer.option
        whole = option.group.settings.zero_or_max_node_scaling
        unit = option.group.room if whole else 1
        most = unit if whole else self._market.node_limit(self._terms.situation, option.group)
        return Good(option, self._terms.cost.node_price(option) or 0.0, unit, most)

    def best(self) -> tuple[Offer, ...]:
        """Return the best candidate's offers."""
        model = measure(self._market, self._terms.situation, self._goods, self._pods, self._fitting, self._means)
        value = worth(model)
        candidates = [self._candidate((offer,)) for offer in self._offers]
        candidates.append(self._candidate(self._turns(self._pods, self._by_worth(value))))
        waste = LeastWaste(plain_containers=self._terms.rules.least_waste_plain_containers).waste
        candidates.append(self._candidate(self._turns(self._pods, lambda offer: waste(offer.option))))
        filled = self._filled(model, value)
        if filled is not None:
            candidates.append(filled)
        searched = self._searched(model, value, candidates)
        if searched is not None:
            candidates.append(searched)
        candidates = [one for one in candidates if one.offers]
        return simplest(candidates, self._terms.margin).offers if candidates else ()

    def _candidate(self, offers: tuple[Offer, ...]) -> Candidate:
        return Candidate(offers, sum((self._terms.cost.price(offer.option) or 0.0) for offer in offers))

    def _by_worth(self, value: Worth) -> Callable[[Offer], float]:
        known = {each.cls: value.pod[at] for at, each in enumerate(self._pods)}

        def rate(offer: Offer) -> float:
            gives = sum(known.get(cls, 0.0) * count for cls, count in _classes(offer.option.pods).items())
            price = self._terms.cost.price(offer.option) or 0.0
            return price / gives if gives > 0 else float(price > 0)

        return rate

    def _turns(self, pods: Sequence[PodGroup], rate: Callable[[Offer], float]) -> tuple[Offer, ...]:
        """Take the offer with the lowest rate, again and again until no group has anything to offer."""
        market, situation, left = self._market, self._terms.situation, list(pods)
        allowed = {group.id for group in self._groups}
        taken: list[Offer] = []
        with market.placer.trial.fork():
            while left and len(taken) < _MOST_TURNS:
                offers = self._offers
                if taken or len(left) != len(self._pods):
                    groups = considered(situation, self._terms.needs, self._terms.rules)[1]
                    groups = [group for group in groups if group.id in allowed]
                    offers = self._offered(situation, groups, market.fitting(situation, groups, left), left)
                if not offers:
                    break
                chosen = min(offers, key=rate)
                taken.append(chosen)
                situation = self._after(situation, chosen)
                market.placer.trial.add(chosen.option.template, _bought(chosen))
                place(market.placer, chosen)
                gone = {pod.key for pod in chosen.option.pods}
                left = [
                    PodGroup(each.cls, rest)
                    for each in left
                    if (rest := tuple(pod for pod in each.pods if pod.key not in gone))
                ]
        return tuple(taken)

    def _after(self, situation: Situation, offer: Offer) -> Situation:
        group = situation.groups.by_id[offer.option.group.id]
        increase = Increase(group=group.id, delta=_bought(offer), before=group.target_size, max_size=group.max_size)
        return situation.after((increase,), self._terms.needs)

    def _filled(self, model: Model, value: Worth) -> Candidate | None:
        """Serve entangled pods in turns, and fill up with the others in figures."""
        market, trial = self._market, self._market.placer.trial
        with trial.fork():
            if not model.entangled:
                return self._proven((), model, Greedy(model, value).fill())
            first = trial.count
            entangled = [each for at, each in enumerate(self._pods) if at in model.entangled]
            before = self._turns(entangled, self._by_worth(value))
            situation = self._terms.situation
            for offer in before:
                trial.add(offer.option.template, _bought(offer))
                place(market.placer, offer)
                situation = self._after(situation, offer)
            others = [each for at, each in enumerate(self._pods) if at not in model.entangled]
            if not others:
                return self._candidate(before)
            goods = [
                msgspec.structs.replace(good, most=min(good.most, situation.groups.by_id[good.group].room))
                for good in self._goods
                if situation.groups.by_id[good.group].room >= good.unit
            ]
            means = means_of(goods, situation, self._terms.needs)
            rest = measure(market, situation, goods, others, self._fitting, means, range(first, trial.count))
            return self._proven(before, rest, Greedy(rest, worth(rest)).fill())

    def _searched(self, model: Model, value: Worth, candidates: Sequence[Candidate]) -> Candidate | None:
        """Return the cheapest filling of a small backlog; None where nothing beats the candidates."""
        pods, entangled = sum(model.demand), bool(model.entangled)
        if pods > (_TRIED_PODS if entangled else _SEARCHED_PODS):
            return None
        known = simplest(candidates, 0.0) if candidates else Candidate((), 0.0)
        bar = (pods - known.helped, known.price)
        if not entangled:
            best = Search(model, value, _SEARCH_STEPS, bar).run().best
        else:
            templates = [good.option.template for good in model.goods]
            trying = Trying(self._market, model, templates)
            best = Search(model, value, _TRIED_STEPS, bar, trying).run().best
        return None if best is None else self._proven((), model, best)

    def _proven(self, before: tuple[Offer, ...], model: Model, filling: Filling) -> Candidate | None:
        """Return a filling as offers; None where the scheduler's filters refuse some of it."""
        first = self._market.placer.trial.count - len(model.standing)
        waiting = [iter(each.pods) for each in model.pods]
        offers = list(before)
        placer = self._market.placer
        with placer.trial.fork():
            for good, nodes, moves in _purchases(model, filling):
                option = model.goods[good].option if good is not None else None
                if option is not None:
                    placer.trial.add(option.template, nodes)
                pods: list[Pod] = []
                packed: list[Packed] = []
                for cls, node, count in moves:
                    if not self._takes(model.pods[cls], first + node, count):
                        return None
                    one = Packed(model.pods[cls].cls, np.array([first + node]), np.array([count]))
                    packed.append(one)
                    pods.extend(pod for pod, _ in spread_over(waiting[cls], one.positions, one.counts))
                if option is not None:
                    whole = option.group.settings.zero_or_max_node_scaling
                    size = option.group.max_size if whole else nodes
                    bought = msgspec.structs.replace(option, nodes=size, pods=tuple(pods))
                    offers.append(Offer(bought, tuple(packed)))
                elif packed:
                    last = offers[-1]
                    joined = msgspec.structs.replace(last.option, pods=(*last.option.pods, *pods))
                    offers[-1] = Offer(joined, (*last.packed, *packed))
        return self._candidate(tuple(offers)) if offers else None

    def _takes(self, pods: PodGroup, position: int, count: int) -> bool:
        """Place some pods on one node if the scheduler would."""
        placer = self._market.placer
        if not placer.guards(pods.cls) and placer.fits(pods.cls, position):
            if int(placer.copies(pods.cls, slice(position, position + 1))[0]) < count:
                return False
            placer.place_many(pods.cls, np.array([position]), np.array([count]))
            return True
        for _ in range(count):
            if not placer.fits(pods.cls, position):
                return False
            placer.place(pods.cls, position)
        return True


def _purchases(model: Model, filling: Filling) -> Iterable[tuple[int | None, int, list[tuple[int, int, int]]]]:
    """Yield goods with how many nodes of each to buy, and the moves that follow; first those that need no purchase.

    Moves stay in order; a purchase ends where a node of another good is needed.
    """
    standing, opened = len(model.standing), 0
    good: int | None = None
    nodes, moves = 0, list[tuple[int, int, int]]()
    for move in filling.moves:
        while move.node - standing >= opened:
            wanted = filling.nodes[opened]
            if wanted != good:
                yield good, nodes, moves
                good, nodes, moves = wanted, 0, []
            unit = model.goods[wanted].unit
            nodes += unit
            opened += unit
        moves.append((move.cls, move.node, move.count))
    yield good, nodes, moves


def _bought(offer: Offer) -> int:
    """Return how many nodes come: a group that grows at once has no more than it has room for."""
    option = offer.option
    whole = option.group.settings.zero_or_max_node_scaling
    return min(option.nodes, option.group.room) if whole else option.nodes


def _classes(pods: Iterable[Pod]) -> Counter[PodClass]:
    return Counter(pod.cls for pod in pods)
