"""The cost expander: compares only the price of the nodes.

It compares options by the price of their nodes for each pod that they help. Where a pass may take several options the
planner asks `optimiser` for the cheapest combination instead, at these prices.
"""

from collections.abc import Sequence

from autoscaler.scaleup.choice import RatedOptions, rated
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.price import Prices


class CostExpander:
    """Keeps the options that help a pod for the least; one of unknown price only where no price is known at all."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the options with the lowest price for each pod."""
        return self.weigh(options).options

    def weigh(self, options: Sequence[Option]) -> RatedOptions:
        """Return the same with the price for each pod of each option."""
        rates = [None if (price := self.price(option)) is None else price / len(option.pods) for option in options]
        lowest = min((rate for rate in rates if rate is not None), default=None)
        return RatedOptions(tuple(options), scores=tuple(rates)) if lowest is None else rated(options, rates, lowest)

    def price(self, option: Option) -> float | None:
        """Return what the nodes of an option cost for an hour, None where that is not known.

        Nodes that the group has no room for are not bought: one that grows all at once offers its maximum.
        """
        total = 0.0
        for part in option.parts:
            node_price = self.node_price(part)
            if node_price is None:
                return None
            atomic = part.group.settings.zero_or_max_node_scaling
            total += node_price * (min(part.nodes, part.group.room) if atomic else part.nodes)
        return total

    def node_price(self, option: Option) -> float | None:
        """Return what one node of an option's group costs for an hour: the group's own price, else its template's."""
        own = option.group.node_price
        return own if own is not None else self._prices.node(option.template.node)
