"""Finds nodes to replace with cheaper ones: any set of nodes by any mix that fits the same pods.

The search works on amounts and masks, with a bound on its steps, not on its time; the best sets it finds are then
proven on the simulated cluster with all the scheduler's filters. A set counts only if it saves more than the margin.
Pods may also go to room that there is on other nodes, so a set can need no new node at all. Nodes of groups without a
known price take no part, on neither side.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import msgspec
import numpy as np

from autoscaler.config.scaledown import ReplacementOptions as Options
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scaledown.bin_packing import Amount, BinType, Item, NodeMix, SearchBudget, cheapest_mix
from autoscaler.scheduling.placement import Placer, accepts
from autoscaler.snapshot.columns import Amounts, Mask
from autoscaler.snapshot.groups import Groups
from autoscaler.snapshot.template import Template

_MOST_BINS = 64
"""Nodes whose room counts: those with the most."""
_ALL_SETS_UP_TO = 8
"""Most candidates of which every set is examined."""
_CLIMBED = 3
"""How many of the best sets are tried with a node more or less."""
_PROPOSED = 5
_EPSILON = 1e-9


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A node that may be replaced, and the pods that would move."""

    position: int
    group: str
    price: float
    pods: tuple[Pod, ...]
    disturbance: float = 0.0
    """The weight of moving the pods."""


class GroupOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A group that may grow, and by how much."""

    group: str
    template: Template
    price: float
    room: int


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to replace, by position, what to buy, and where their pods are meant to go."""

    positions: tuple[int, ...]
    buys: Mapping[str, int]
    places: Mapping[str, tuple[str, int]]
    """By pod uid: empty text and a position, or a group and the number of its new node."""
    price_before: float
    price_after: float
    disturbance: float = 0.0
    """The weight of moving the pods."""

    @property
    def saving(self) -> float:
        """What it saves per hour."""
        return self.price_before - self.price_after


def propose(
    placer: Placer,
    candidates: Sequence[Candidate],
    offers: Sequence[GroupOffer],
    destinations: Mask,
    groups: Groups,
    options: Options,
) -> tuple[Proposal, ...]:
    """Return the most promising sets of candidates, the one that saves most first; the trial is left as it was.

    `destinations` are the nodes of the view whose room counts, candidates included.
    """
    problem = _Problem(placer, candidates, offers, destinations, groups, options)
    for chosen in problem.sets():
        if problem.exhausted:
            break
        problem.look(chosen)
    return problem.best()


class _Problem:
    """The candidates as numbers, and every set examined so far."""

    def __init__(
        self,
        placer: Placer,
        candidates: Sequence[Candidate],
        offers: Sequence[GroupOffer],
        destinations: Mask,
        groups: Groups,
        options: Options,
    ) -> None:
        self._options = options
        self._groups = groups
        self._candidates = tuple(candidates)
        self._offers = tuple(offers)
        self._steps = SearchBudget(options.consolidation_steps)
        self._seen: dict[tuple[int, ...], Proposal | None] = {}
        classes = list(dict.fromkeys(pod.cls for candidate in candidates for pod in candidate.pods))
        self._model(placer, classes, destinations)

    @property
    def exhausted(self) -> bool:
        """Whether the work allowed has been done."""
        return self._steps.left <= 0

    def _model(self, placer: Placer, classes: Sequence[PodClass], destinations: Mask) -> None:
        trial = placer.trial
        needs = {cls: placer.need(cls) for cls in classes}
        rows = [row for row in range(len(trial.free)) if any(row < len(n) and n[row] > 0 for n in needs.values())]
        free = trial.free[:, : trial.base]
        self._bins = self._roomiest(free, rows, destinations)
        base = slice(0, trial.base)
        masks = {cls: trial.open(base) & placer.accepted(cls, base) for cls in classes}
        self._amounts = {int(position): tuple(int(free[row, position]) for row in rows) for position in self._bins}
        self._kinds = [
            BinType(offer.price, _of_template(placer, offer.template, rows), min(offer.room, 1 << 20))
            for offer in self._offers
        ]
        self._bits = {
            cls: Item(
                need=tuple(int(needs[cls][row]) if row < len(needs[cls]) else 0 for row in rows),
                bins=sum(1 << number for number, position in enumerate(self._bins) if masks[cls][position]),
                kinds=sum(1 << n for n, offer in enumerate(self._offers) if accepts(cls, offer.template.node)),
            )
            for cls in classes
        }

    def _roomiest(self, free: Amounts, rows: Sequence[int], destinations: Mask) -> list[int]:
        """Return the destinations with the most room, in the order of the view."""
        every = np.flatnonzero(destinations)
        if len(every) <= _MOST_BINS or not rows:
            bins: list[int] = every[:_MOST_BINS].tolist()
            return bins
        amounts = free[list(rows)][:, every].astype(np.float64)
        score = (amounts / np.maximum(amounts.max(axis=1, keepdims=True), 1.0)).min(axis=0)
        return sorted(int(position) for position in every[np.argsort(-score, kind="stable")[:_MOST_BINS]])

    # Which sets.

    def sets(self) -> Iterator[tuple[int, ...]]:
        """Yield sets of candidates, by number: all of them where there are few, else those that promise most."""
        count, most = len(self._candidates), self._options.consolidation_max_nodes
        if count <= _ALL_SETS_UP_TO:
            for size in range(1, min(count, most) + 1):
                yield from combinations(range(count), size)
            return
        order = sorted(range(count), key=lambda number: (-self._waste(number), number))
        yield from ((number,) for number in order)
        for members in (order, *self._by_group(order)):
            for size in range(2, min(len(members), most) + 1):
                yield tuple(sorted(members[:size]))
        yield from self._neighbours(order)

    def _by_group(self, order: Sequence[int]) -> list[list[int]]:
        by_group: dict[str, list[int]] = {}
        for number in order:
            by_group.setdefault(self._candidates[number].group, []).append(number)
        return list(by_group.values())

    def _neighbours(self, order: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the best sets with one node more or less, again and again while that finds better ones."""
        top = None
        while (best := self._ranked()[:_CLIMBED]) and best[0] != top:
            top = best[0]
            for chosen in best:
                for number in order:
                    changed = set(chosen) ^ {number}
                    if 0 < len(changed) <= self._options.consolidation_max_nodes:
                        yield tuple(sorted(changed))

    def _waste(self, number: int) -> float:
        """Return how much more a node costs than the cheapest room for its pods in fractions of nodes."""
        candidate = self._candidates[number]
        if not self._kinds:
            return candidate.price
        need = [sum(amounts) for amounts in zip(*(self._bits[pod.cls].need for pod in candidate.pods), strict=True)]
        cheapest = (
            min(
                (
                    max((n / f if f else float("inf")) for n, f in zip(need, kind.free, strict=True) if n) * kind.price
                    for kind in self._kinds
                ),
                default=0.0,
            )
            if any(need)
            else 0.0
        )
        return candidate.price - cheapest

    # What a set saves.

    def look(self, chosen: tuple[int, ...]) -> None:
        """Find out what a set saves."""
        if chosen in self._seen:
            return
        members = [self._candidates[number] for number in chosen]
        before = sum(member.price for member in members)
        options, disturbed = self._options, sum(member.disturbance for member in members)
        least = max(
            options.consolidation_margin * before,
            options.consolidation_min_saving,
            options.consolidation_min_saving_per_pod * disturbed,
        )
        pods = [pod for member in members for pod in member.pods]
        gone = {member.position for member in members}
        # A node that leaves keeps its number, and has no room for anything.
        nothing = tuple(-1 for _ in next(iter(self._amounts.values()), ()))
        bins = [nothing if position in gone else self._amounts[position] for position in self._bins]
        closed = ~sum(1 << number for number, position in enumerate(self._bins) if position in gone)
        items = [msgspec.structs.replace(self._bits[pod.cls], bins=self._bits[pod.cls].bins & closed) for pod in pods]
        mix = cheapest_mix(items, bins, self._kinds, self._steps, before - least)
        self._seen[chosen] = None if mix is None else self._proposal(members, pods, before, mix)

    def _proposal(
        self, members: Sequence[Candidate], pods: Sequence[Pod], before: float, mix: NodeMix
    ) -> Proposal | None:
        buys = Counter(self._offers[kind].group for kind in mix.new)
        for group_id, count in Counter(candidate.group for candidate in members).items():
            group = self._groups.by_id[group_id]
            if group.target_size - count + buys[group_id] < group.min_size:
                return None
        numbers: Counter[str] = Counter()
        new: list[tuple[str, int]] = []
        for kind in mix.new:
            group_id = self._offers[kind].group
            new.append((group_id, numbers[group_id]))
            numbers[group_id] += 1
        base = len(self._bins)
        places = {
            pod.uid: ("", self._bins[place]) if place < base else new[place - base]
            for pod, place in zip(pods, mix.places, strict=True)
        }
        positions = tuple(candidate.position for candidate in members)
        return Proposal(
            positions=positions,
            buys=dict(buys),
            places=places,
            price_before=before,
            price_after=mix.price,
            disturbance=sum(candidate.disturbance for candidate in members),
        )

    def _ranked(self) -> list[tuple[int, ...]]:
        """Return the sets that save something, the one that saves most first; of equals, the smaller disruption."""
        saving = [(chosen, plan) for chosen, plan in self._seen.items() if plan is not None]
        saving.sort(key=lambda pair: (-round(pair[1].saving, 9), round(pair[1].disturbance, 9), len(pair[0]), pair[0]))
        return [chosen for chosen, _ in saving]

    def best(self) -> tuple[Proposal, ...]:
        """Return the best few."""
        plans = (self._seen[chosen] for chosen in self._ranked()[:_PROPOSED])
        return tuple(plan for plan in plans if plan is not None)


def _of_template(placer: Placer, template: Template, rows: Sequence[int]) -> Amount:
    trial = placer.trial
    with trial.fork():
        position = trial.add(template, 1)[0]
        return tuple(int(trial.free[row, position]) for row in rows)
