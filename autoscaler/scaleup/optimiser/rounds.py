"""Rounds like those of the planner, tried on the trial: each takes the best offer of any group."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.scaleup.context import ScaleUpContext, considered
from autoscaler.scaleup.cost import CostExpander
from autoscaler.scaleup.estimator import PodGroup, without
from autoscaler.scaleup.limits import Allowance
from autoscaler.scaleup.options import ExpansionOptions, Fitting, PackedOption, place
from autoscaler.scaleup.plan import Increase
from autoscaler.scaleup.preferred import PreferredExpander
from autoscaler.snapshot.contribution import Contribution
from autoscaler.snapshot.groups import Group

Score = tuple[float, int]
"""How well an offer is liked, the least best; and what tells between equal ones."""

_MAX_ROUNDS = 100
"""Most offers that one run takes."""


class OptimiserInput(msgspec.Struct, frozen=True):
    """What combinations depend on."""

    situation: ScaleUpContext
    needs: Mapping[str, Contribution]
    cost: CostExpander
    margin: float = 0.0
    """Share of its price that a combination must save over one with fewer groups."""
    rules: Rules = Rules()
    preferred: PreferredExpander | None = None
    """Tells between combinations that cost much the same."""


class Rounds:
    """Runs rounds with some groups."""

    def __init__(self, options: ExpansionOptions, groups: Sequence[Group], terms: OptimiserInput) -> None:
        self._options = options
        self._ids = {group.id for group in groups}
        self._terms = terms

    def offers(
        self,
        situation: ScaleUpContext,
        groups: Sequence[Group],
        fitting: Fitting,
        pods: Sequence[PodGroup],
        known: Sequence[PackedOption] = (),
    ) -> tuple[PackedOption, ...]:
        """Return what groups offer within all limits, without dear similar groups; `known` are offers that may do."""
        known_by_group = {offer.option.group.id: offer for offer in known}
        offers: list[PackedOption] = []
        for group in groups:
            ceiling = self._ceiling(situation, group)
            offer = known_by_group.get(group.id)
            if offer is None or bought(offer) > ceiling:
                offer = next(iter(self._options.offers(situation, (group,), fitting, pods, ceiling)), None)
            if offer is not None and 0 < bought(offer) <= ceiling:
                offers.append(self._without_dearer(offer))
        return tuple(offers)

    def _ceiling(self, situation: ScaleUpContext, group: Group) -> int:
        """Return the most nodes that a group may get."""
        atomic = group.settings.zero_or_max_node_scaling
        nodes = group.room if atomic else self._options.node_limit(situation, group)
        allowance = situation.allowance
        return allowance.cap(self._terms.needs[group.id], nodes) if isinstance(allowance, Allowance) else 0

    def _without_dearer(self, offer: PackedOption) -> PackedOption:
        """Return the offer with only those similar groups that cost no more."""
        option, cost = offer.option, self._terms.cost
        own, by_id = cost.node_price(option) or 0.0, self._terms.situation.groups.by_id
        prices = {other: by_id[other].node_price for other in option.similar}
        similar = tuple(other for other, price in prices.items() if price is not None and price <= own)
        return PackedOption(msgspec.structs.replace(option, similar=similar), offer.packed)

    def run(
        self, pods: Sequence[PodGroup], score: Callable[[PackedOption], Score], known: Sequence[PackedOption] = ()
    ) -> tuple[PackedOption, ...]:
        """Take the offer with the lowest score, again and again until no group has anything to offer.

        `known` are the offers to begin with, where they are known already.
        """
        options, situation, left = self._options, self._terms.situation, list(pods)
        taken: list[PackedOption] = []
        with options.placer.trial.fork():
            while left and len(taken) < _MAX_ROUNDS:
                offers = tuple(known)
                if taken or not offers:
                    groups = considered(situation, self._terms.needs, self._terms.rules)[1]
                    groups = [group for group in groups if group.id in self._ids]
                    offers = self.offers(situation, groups, options.fitting(situation, groups, left), left)
                if not offers:
                    break
                chosen = min(offers, key=score)
                taken.append(chosen)
                situation = self.after(situation, chosen)
                left = without(left, chosen.option.pods)
        return tuple(taken)

    def after(self, situation: ScaleUpContext, offer: PackedOption) -> ScaleUpContext:
        """Put the nodes and pods of an offer onto the trial, and return the situation after that."""
        placer = self._options.placer
        placer.trial.add(offer.option.template, bought(offer))
        place(placer, offer)
        group = situation.groups.by_id[offer.option.group.id]
        increase = Increase(group=group.id, delta=bought(offer), before=group.target_size, max_size=group.max_size)
        return situation.after((increase,), self._terms.needs)


def bought(offer: PackedOption) -> int:
    """Return how many nodes come; an atomic group has no more than it has room for."""
    option = offer.option
    atomic = option.group.settings.zero_or_max_node_scaling
    return min(option.nodes, option.group.room) if atomic else option.nodes
