"""Names of the expanders, and the valid chains of them."""

from collections.abc import Iterator, Sequence

from cloudprovider.nearest import nearest

RANDOM, COST, PREFERRED = "random", "cost", "preferred"
EXPANDERS = (RANDOM, "most-pods", "least-nodes", "least-waste", "price", COST, "priority", PREFERRED, "grpc")
NOTICE_COOLDOWN = "notice-cooldown"
"""A step before all expanders, no expander: it leaves out groups that cool down."""
BY_PRICE = ("price", COST)
"""Expanders that are of no use without prices."""
_LAST = {RANDOM: "which leaves one option", COST: "which decides about all that is left"}
"""Expanders that leave nothing to do for others, and why."""


def with_tie_break(names: Sequence[str]) -> tuple[str, ...]:
    """Return a valid chain in which preferences decide before chance does, or where all others see no difference.

    `cost` weighs them itself.
    """
    if PREFERRED in names or COST in names:
        return tuple(names)
    last = names.index(RANDOM) if RANDOM in names else len(names)
    return (*names[:last], PREFERRED, *names[last:])


def chain_problems(names: Sequence[str]) -> Iterator[str]:
    """Yield what keeps expanders of these names from making a chain, whatever the provider can do."""
    known = ", ".join(EXPANDERS)
    if not names:
        yield f"names no expander; write one or more of {known}"
    for name in dict.fromkeys(names):
        if name not in EXPANDERS:
            yield f'"{name}" is not an expander; known are {known}{nearest(name, EXPANDERS)}'
        elif list(names).count(name) > 1:
            yield f'"{name}" is there twice; name it once'
    for last, why in _LAST.items():
        after = [name for name in names[names.index(last) + 1 :] if name != last] if last in names else []
        if after:
            yield f'nothing can follow "{last}", {why}; move {last} behind {", ".join(after)} or drop it'
