"""Taking one offer after the other, as rounds of the planner would, without anything being decided by it."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.scaleup.context import ScaleUpContext, considered
from autoscaler.scaleup.cost import CostExpander
from autoscaler.scaleup.estimator import PodGroup, without
from autoscaler.scaleup.limits import Allowance
from autoscaler.scaleup.options import ExpansionOptions, Fitting, PackedOption, place
from autoscaler.scaleup.plan import Increase
from autoscaler.snapshot.contribution import Contribution
from autoscaler.snapshot.groups import Group

_MOST_TURNS = 100
"""Offers taken one after the other."""


class OptimiserInput(msgspec.Struct, frozen=True):
    """What a combination goes by."""

    situation: ScaleUpContext
    needs: Mapping[str, Contribution]
    cost: CostExpander
    margin: float = 0.0
    """Share of its price that a combination must save over one with fewer groups."""
    rules: Rules = Rules()


class Rounds:
    """The offers of some groups, and what becomes of the situation when they are taken."""

    def __init__(self, market: ExpansionOptions, groups: Sequence[Group], terms: OptimiserInput) -> None:
        self._market = market
        self._ids = {group.id for group in groups}
        self._terms = terms

    def offered(
        self,
        situation: ScaleUpContext,
        groups: Sequence[Group],
        fitting: Fitting,
        pods: Sequence[PodGroup],
        known: Sequence[PackedOption] = (),
    ) -> tuple[PackedOption, ...]:
        """Return what groups offer within all limits, similar groups aside; `known` are offers that may do."""
        given = {offer.option.group.id: offer for offer in known}
        found: list[PackedOption] = []
        for group in groups:
            ceiling = self._ceiling(situation, group)
            offer = given.get(group.id)
            if offer is None or bought(offer) > ceiling:
                offer = next(iter(self._market.offers(situation, (group,), fitting, pods, ceiling)), None)
            if offer is not None and 0 < bought(offer) <= ceiling:
                found.append(self._alone(offer))
        return tuple(found)

    def _ceiling(self, situation: ScaleUpContext, group: Group) -> int:
        """Return the most nodes that a group may get."""
        whole = group.settings.zero_or_max_node_scaling
        nodes = group.room if whole else self._market.node_limit(situation, group)
        allowance = situation.allowance
        return allowance.cap(self._terms.needs[group.id], nodes) if isinstance(allowance, Allowance) else 0

    def _alone(self, offer: PackedOption) -> PackedOption:
        """Return the offer with those similar groups only that cost no more."""
        option, cost = offer.option, self._terms.cost
        own, by_id = cost.node_price(option) or 0.0, self._terms.situation.groups.by_id
        prices = {other: by_id[other].node_price for other in option.similar}
        similar = tuple(other for other, price in prices.items() if price is not None and price <= own)
        return PackedOption(msgspec.structs.replace(option, similar=similar), offer.packed)

    def taken(
        self, pods: Sequence[PodGroup], rate: Callable[[PackedOption], float], known: Sequence[PackedOption] = ()
    ) -> tuple[PackedOption, ...]:
        """Take the offer with the lowest rate, again and again until no group has anything to offer.

        `known` are the offers to begin with, where they have been asked for already.
        """
        market, situation, left = self._market, self._terms.situation, list(pods)
        taken: list[PackedOption] = []
        with market.placer.trial.fork():
            while left and len(taken) < _MOST_TURNS:
                offers = tuple(known)
                if taken or not offers:
                    groups = considered(situation, self._terms.needs, self._terms.rules)[1]
                    groups = [group for group in groups if group.id in self._ids]
                    offers = self.offered(situation, groups, market.fitting(situation, groups, left), left)
                if not offers:
                    break
                chosen = min(offers, key=rate)
                taken.append(chosen)
                situation = self.after(situation, chosen)
                left = without(left, chosen.option.pods)
        return tuple(taken)

    def after(self, situation: ScaleUpContext, offer: PackedOption) -> ScaleUpContext:
        """Take an offer: its nodes and pods come onto the trial. Return the situation after that."""
        placer = self._market.placer
        placer.trial.add(offer.option.template, bought(offer))
        place(placer, offer)
        group = situation.groups.by_id[offer.option.group.id]
        increase = Increase(group=group.id, delta=bought(offer), before=group.target_size, max_size=group.max_size)
        return situation.after((increase,), self._terms.needs)


def bought(offer: PackedOption) -> int:
    """Return how many nodes come: a group that grows at once has no more than it has room for."""
    option = offer.option
    whole = option.group.settings.zero_or_max_node_scaling
    return min(option.nodes, option.group.room) if whole else option.nodes
