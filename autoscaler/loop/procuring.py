"""Buys machines for replacements, after annotating the old nodes with the purpose."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from autoscaler.actuation.node_removal import NodeRemover
from autoscaler.loop.buying import Buying
from autoscaler.loop.stages import Grown
from autoscaler.reasons import ReplacementHold, ReplacementStage, ReplacementTrigger, Skip
from autoscaler.scaledown import replacement as states
from autoscaler.scaledown.replacement import Purchase, Replacement, ReplacementForecast
from autoscaler.scaledown.replacement_record import STATE, record_of
from autoscaler.scaleup.context import ScaleUpContext, considered, over_limits
from autoscaler.scaleup.plan import Increase

Refusal = tuple[ReplacementHold, str]
"""Why a replacement gets no machines, and details."""


class Procuring:
    """Buys the missing machines of replacements."""

    def __init__(self, buying: Buying, removal: NodeRemover) -> None:
        self._buying = buying
        self._removal = removal

    def buy_lacking(
        self, stage: Grown, replacement: Replacement, forecast: ReplacementForecast
    ) -> tuple[Grown, Replacement]:
        """Buy everything that a simulation shows to be missing, or nothing; the scale-up planner chooses the groups."""
        context = self._buying.context(stage)
        increases = self._increases(stage, forecast, context)
        if isinstance(increases, tuple):
            hold, detail = increases
            return stage, states.staged(replacement, replacement.stage, hold, detail)
        cheaper = replacement.trigger is ReplacementTrigger.CHEAPER
        if cheaper and not _still_cheaper(stage, replacement, increases):
            return stage, states.staged(
                replacement, ReplacementStage.ABANDONED, ReplacementHold.TOO_DEAR, replacement.detail
            )
        return self._buy(stage, replacement, tuple(increases.values()))

    def buy_exactly(
        self, stage: Grown, replacement: Replacement, counts: Mapping[str, int]
    ) -> tuple[Grown, Replacement]:
        """Buy the given number of machines per group.

        The search has already proven this plan, so it is not planned again.
        """
        rules, context = stage.config.rules, self._buying.context(stage)
        needs = context.needs(rules)
        increases = []
        for group_id, count in counts.items():
            group = context.groups.by_id[group_id]
            over = over_limits(group, count, context, needs, rules)
            if over is not None or count > group.room:
                detail = f"{group_id} may not grow by {count}"
                return stage, states.staged(replacement, replacement.stage, ReplacementHold.NO_CAPACITY, detail)
            increase = _increase(context, group_id, count)
            increases.append(increase)
            context = context.after([increase], needs)
        return self._buy(stage, replacement, increases)

    def room_by_group(self, stage: Grown) -> Mapping[str, int]:
        """Return the number of nodes that each group may add, for groups that may grow."""
        context, rules = self._buying.context(stage), stage.config.rules
        _, usable = considered(context, context.needs(rules), rules)
        left = context.nodes_left
        return {group.id: group.room if left is None else min(group.room, left) for group in usable}

    def _increases(
        self, stage: Grown, forecast: ReplacementForecast, context: ScaleUpContext
    ) -> dict[str, Increase] | Refusal:
        """Return the increases that give each pod a node and keep each group at its minimum, or why that is
        impossible.
        """
        rules = stage.config.rules
        needs = context.needs(rules)
        increases = _for_minimums(forecast, context, stage)
        if isinstance(increases, tuple) or not forecast.unplaced:
            return increases
        context = context.after(tuple(increases.values()), needs)
        plan = self._buying.plan_room(stage, forecast.unplaced, context)
        helped = {pod.key for pod in plan.triggered}
        missing = [pod.key for pod in forecast.unplaced if pod.key not in helped]
        if missing:
            detail = f"no group that may grow takes {len(missing)} pods, such as {missing[0]}"
            return ReplacementHold.NO_CAPACITY, detail
        for increase in plan.increases:
            before = increases.get(increase.group)
            increases[increase.group] = (
                increase if before is None else replace(before, delta=before.delta + increase.delta)
            )
        return increases

    def _buy(self, stage: Grown, replacement: Replacement, increases: Sequence[Increase]) -> tuple[Grown, Replacement]:
        planned = states.bought(replacement, [Purchase(increase.group, increase.delta) for increase in increases])
        planned = replace(planned, price_after=_price(stage, planned))
        text = record_of(planned)
        for name in replacement.nodes:
            if stage.view.node(name) is not None and not self._removal.annotate(name, {STATE: text}):
                detail = f"node {name} could not be annotated"
                return stage, states.staged(replacement, replacement.stage, ReplacementHold.NOT_WRITTEN, detail)
        stage, done = self._buying.buy(stage, increases)
        grew = any(resized.after > resized.before for resized in done)
        error = next((resized.error for resized in done if resized.error is not None), None)
        if not grew and error is not None:
            detail = error.message or error.code
            return stage, states.staged(planned, ReplacementStage.ABANDONED, ReplacementHold.NOT_BOUGHT, detail)
        return stage, planned


def _for_minimums(
    forecast: ReplacementForecast, context: ScaleUpContext, stage: Grown
) -> dict[str, Increase] | Refusal:
    """Return the increases that keep groups at their minimum size, or why a group cannot grow."""
    skipped, usable = considered(context, context.needs(stage.config.rules), stage.config.rules)
    increases: dict[str, Increase] = {}
    for group_id, count in forecast.short.items():
        group = next((group for group in usable if group.id == group_id), None)
        if group is None or group.room < count:
            skip = next((skip for skip in skipped if skip.group == group_id), None)
            full = skip is None or skip.reason is Skip.MAX_SIZE
            text = f"group {group_id} needs {count} more to keep its minimum"
            detail = text if skip is None else f"{text}: {skip.message} {skip.detail}".rstrip()
            return (ReplacementHold.MAX_SIZE if full else ReplacementHold.NO_CAPACITY), detail
        increases[group_id] = _increase(context, group_id, count)
    return increases


def _still_cheaper(stage: Grown, replacement: Replacement, more: Mapping[str, Increase]) -> bool:
    """Whether a consolidation still saves its margin after buying more machines."""
    after = states.bought(replacement, [Purchase(increase.group, increase.delta) for increase in more.values()])
    price = _price(stage, after)
    if price is None or replacement.price_before is None:
        return False
    margin = stage.config.replacement.consolidation_margin
    return replacement.price_before - price > margin * replacement.price_before


def _increase(context: ScaleUpContext, group_id: str, count: int) -> Increase:
    group = context.groups.by_id[group_id]
    return Increase(group=group_id, delta=count, before=group.target_size, max_size=group.max_size)


def _price(stage: Grown, replacement: Replacement) -> float | None:
    """Return the hourly price of the bought machines; None if any price is unknown."""
    total = 0.0
    for purchase in replacement.bought:
        group = stage.view.groups.get(purchase.group)
        if group is None or group.node_price is None:
            return None
        total += group.node_price * purchase.count
    return total
