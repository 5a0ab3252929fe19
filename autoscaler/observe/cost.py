"""Calculates what the machines of a cluster cost, as far as their prices are known."""

from collections.abc import Iterable

import msgspec

from autoscaler.observe.status import GroupStatus


class ClusterCost(msgspec.Struct, frozen=True, kw_only=True):
    """The price of all requested machines."""

    per_hour: float | None
    """Price per hour; None if no group has a price."""
    currency: str
    unpriced_groups: int
    """Number of groups with machines of unknown price; the sum excludes them."""


def cost_of(groups: Iterable[GroupStatus], currency: str) -> ClusterCost:
    """Return the cost of the groups' target sizes."""
    prices = [(group.target_size, group.node_price) for group in groups]
    known = [size * price for size, price in prices if price is not None]
    unpriced = sum(1 for size, price in prices if price is None and size)
    return ClusterCost(per_hour=sum(known) if known else None, currency=currency, unpriced_groups=unpriced)


def money(amount: float) -> str:
    """Return an amount with at least four significant digits and no exponent: `0.0047`, `12.35`, `1,234.5`."""
    digits = next((digits for digits in range(1, 5) if abs(amount) >= 10 ** (4 - digits)), 5)
    text = f"{amount:,.{digits}f}".rstrip("0").rstrip(".")
    return text if text not in ("", "-0") else "0"
