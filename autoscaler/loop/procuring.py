"""Buying machines for replacements: what they are for is written to the old nodes first."""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.actuation.node_removal import NodeRemoval
from autoscaler.config.tree import Config
from autoscaler.loop.growing import Growing
from autoscaler.loop.passing import PassState
from autoscaler.reasons import ReplacementHold, ReplacementStage, ReplacementTrigger, Skip
from autoscaler.scaledown import replacement as states
from autoscaler.scaledown.replacement import Purchase, Replacement, ReplacementForecast
from autoscaler.scaledown.replacement_record import STATE, record_of
from autoscaler.scaleup.context import ScaleUpContext, considered, over_limits
from autoscaler.scaleup.plan import Increase


class Procuring:
    """Buys what replacements lack."""

    def __init__(self, config: Config, growing: Growing, removal: NodeRemoval) -> None:
        self._config = config
        self._growing = growing
        self._removal = removal

    def lacking(self, p: PassState, one: Replacement, seen: ReplacementForecast) -> tuple[PassState, Replacement]:
        """Buy what a simulation shows to be lacking, all of it or nothing; the scale-up planner decides what."""
        situation = self._growing.situation(p)
        found = self._enough(p, seen, situation)
        if isinstance(found, tuple):
            hold, detail = found
            return p, states.staged(one, one.stage, hold, detail)
        if one.trigger is ReplacementTrigger.CHEAPER and not self._still_cheaper(p, one, found):
            return p, states.staged(one, ReplacementStage.ABANDONED, ReplacementHold.TOO_DEAR, one.detail)
        return self._bought(p, one, tuple(found.values()))

    def _still_cheaper(self, p: PassState, one: Replacement, more: Mapping[str, Increase]) -> bool:
        """Whether a consolidation saves its margin with more machines, too."""
        after = states.bought(one, [Purchase(each.group, each.delta) for each in more.values()])
        price = _price(p, after)
        if price is None or one.price_before is None:
            return False
        return one.price_before - price > self._config.replacement.consolidation_margin * one.price_before

    def exactly(self, p: PassState, one: Replacement, counts: Mapping[str, int]) -> tuple[PassState, Replacement]:
        """Buy so many machines of each group: a plan that is proven for these is not decided again."""
        situation = self._growing.situation(p)
        needs = situation.needs(self._config.rules)
        increases = []
        for group_id, count in counts.items():
            group = situation.groups.by_id[group_id]
            over = over_limits(group, count, situation, needs, self._config.rules)
            if over is not None or count > group.room:
                return p, states.staged(
                    one, one.stage, ReplacementHold.NO_CAPACITY, f"{group_id} may not grow by {count}"
                )
            increase = _increase(situation, group_id, count)
            increases.append(increase)
            situation = situation.after([increase], needs)
        return self._bought(p, one, increases)

    def usable(self, p: PassState) -> tuple[ScaleUpContext, Mapping[str, int]]:
        """Return the groups as they are, and by how much each of those that may grow may do so."""
        situation = self._growing.situation(p)
        _, usable = considered(situation, situation.needs(self._config.rules), self._config.rules)
        left = situation.nodes_left
        return situation, {group.id: group.room if left is None else min(group.room, left) for group in usable}

    def _enough(
        self, p: PassState, seen: ReplacementForecast, situation: ScaleUpContext
    ) -> dict[str, Increase] | tuple[ReplacementHold, str]:
        """Return the increases that give every pod a place and every group its minimum, or why there are none."""
        rules = self._config.rules
        needs = situation.needs(rules)
        skipped, usable = considered(situation, needs, rules)
        found: dict[str, Increase] = {}
        for group_id, count in seen.short.items():
            group = next((one for one in usable if one.id == group_id), None)
            if group is None or group.room < count:
                why = next((one for one in skipped if one.group == group_id), None)
                full = why is None or why.reason is Skip.MAX_SIZE
                text = f"group {group_id} needs {count} more to keep its minimum"
                detail = text if why is None else f"{text}: {why.message} {why.detail}".rstrip()
                return (ReplacementHold.MAX_SIZE if full else ReplacementHold.NO_CAPACITY), detail
            found[group_id] = _increase(situation, group_id, count)
        situation = situation.after(tuple(found.values()), needs)
        if not seen.homeless:
            return found
        plan = self._growing.plan_for(p, seen.homeless, situation)
        helped = {pod.key for pod in plan.triggered}
        missing = [pod.key for pod in seen.homeless if pod.key not in helped]
        if missing:
            return (
                ReplacementHold.NO_CAPACITY,
                f"no group that may grow takes {len(missing)} pods, such as {missing[0]}",
            )
        for increase in plan.increases:
            before = found.get(increase.group)
            if before is not None:
                increase = msgspec.structs.replace(before, delta=before.delta + increase.delta)
            found[increase.group] = increase
        return found

    def _bought(self, p: PassState, one: Replacement, increases: Sequence[Increase]) -> tuple[PassState, Replacement]:
        planned = states.bought(one, [Purchase(each.group, each.delta) for each in increases])
        planned = msgspec.structs.replace(planned, price_after=_price(p, planned))
        text = record_of(planned)
        for name in one.nodes:
            if p.view.node(name) is not None and not self._removal.annotate(name, {STATE: text}):
                return p, states.staged(
                    one, one.stage, ReplacementHold.NOT_WRITTEN, f"node {name} could not be annotated"
                )
        p, done = self._growing.buy(p, increases)
        got = [Purchase(each.group, each.after - each.before) for each in done if each.after > each.before]
        error = next((each.error for each in done if each.error is not None), None)
        if not got and error is not None:
            return p, states.staged(
                planned, ReplacementStage.ABANDONED, ReplacementHold.NOT_BOUGHT, error.message or error.code
            )
        return p, planned


def _increase(situation: ScaleUpContext, group_id: str, count: int) -> Increase:
    group = situation.groups.by_id[group_id]
    return Increase(group=group_id, delta=count, before=group.target_size, max_size=group.max_size)


def _price(p: PassState, one: Replacement) -> float | None:
    """Return what the machines bought cost per hour; None where one price is not known."""
    total = 0.0
    for purchase in one.bought:
        group = p.view.groups.get(purchase.group)
        if group is None or group.node_price is None:
            return None
        total += group.node_price * purchase.count
    return total
