"""Amounts of resources as the engine keeps them: CPU in thousandths of a core, all else in whole units.

Both are rounded away from zero and stay within 64 bits, as the scheduler and `resource.Quantity` have it.
"""

from collections.abc import Mapping
from functools import lru_cache

from cloudprovider.quantity import LARGEST, parse_quantity

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
_CONSISTENT = {CPU: 1000, MEMORY: 1024**3, EPHEMERAL_STORAGE: 1024**3}
"""The one unit in which people read amounts of a resource: cores and Gi."""


def milli(text: str) -> int:
    """Return thousandths; raises `ValueError` for what is no quantity."""
    return _scaled(text, 1000)


def whole(text: str) -> int:
    """Return whole units; raises `ValueError` for what is no quantity."""
    return _scaled(text, 1)


@lru_cache(maxsize=8192)
def _scaled(text: str, parts: int) -> int:
    value = parse_quantity(text) * parts
    size = min(-(-abs(value) // 1), LARGEST)
    return -size if value < 0 else size


def amount(resource: str, text: str) -> int:
    """Return a quantity in the engine's unit for `resource`: milli-CPU, or whole units."""
    return milli(text) if resource == CPU else whole(text)


def amounts(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """Convert a resource list of the API; numbers are read as their decimal text."""
    return {resource: amount(resource, str(quantity)) for resource, quantity in quantities.items()}


def text(resource: str, value: int) -> str:
    """Return a short form for people: `2500m`, `4Gi`, `17`; exact."""
    if resource == CPU:
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource in (MEMORY, EPHEMERAL_STORAGE):
        for power in range(6, 0, -1):
            unit = 1024**power
            if value and value % unit == 0:
                return f"{value // unit}{'KMGTPE'[power - 1]}i"
    return str(value)


def readable(resource: str, value: int, *, up: bool = False) -> str:
    """Return an amount for people, always in the same unit: `7.4`, `0.05`, `6.2Gi`, `0.5Gi`.

    It is rounded down (or `up`) to a tenth, and small amounts to two digits that count.
    """
    unit = _CONSISTENT.get(resource)
    if unit is None:
        return str(value)
    size = 10
    while 0 < value * size < 10 * unit and size < 1000:
        size *= 10
    parts = -(-value * size // unit) if up else value * size // unit
    number = f"{parts / size:.{len(str(size)) - 1}f}".rstrip("0").rstrip(".")
    return number if resource == CPU else f"{number}Gi"
