"""The preferred expander: keeps the options whose nodes the pods like best, as long as they cost much the same.

kube-scheduler would rate the nodes of each option for each class of pods (`scheduling.preferences`). What an option's
favourite plug-ins would give beyond that is lost; an option's figure is what each of its pods loses on average. A pod
that prefers nothing loses nothing. An option that costs more for each pod than the cheapest and a margin is not
preferred to others.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from autoscaler.objects.matching import term_matches
from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scaleup.choice import PreferredBy, RatedOptions
from autoscaler.scaleup.cost import CostExpander
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.price import Prices
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.preferences import MOST_POINTS, WEIGHTS, Preference, soft_taints
from autoscaler.snapshot.template import Template

LostPoints = Mapping[Preference, int]
"""Points that a pod loses on a node, by plug-in and with its weight; plug-ins that take off none are left out."""
Losses = Mapping[PodClass, LostPoints]

_OF_THE_NODE = frozenset((Preference.NODE_AFFINITY, Preference.TAINT))
"""What does not change as pods come."""
_ROUNDING = 1e-9
_MOST_NAMED = 3


class PreferredExpander:
    """Keeps the options of which the pods lose the fewest points. Leaves the placer's trial as it was."""

    def __init__(self, placer: Placer, prices: Prices | None, margin: float) -> None:
        """`prices` None: nothing has a price, so that no option costs more than another."""
        self._placer = placer
        self._cost = None if prices is None else CostExpander(prices)
        self._margin = margin

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the options that are preferred."""
        return self.weigh(options).options

    def weigh(self, options: Sequence[Option]) -> RatedOptions:
        """Return the same with the points that each loses, and why; it abstains where it tells none apart."""
        losses = self.losses(options)
        lost = [_mean(option.pods, by_class) for option, by_class in zip(options, losses, strict=True)]
        affordable = self._affordable(options) if any(lost) else []
        least = min((lost[number] for number in affordable), default=0.0)
        kept = [number for number in affordable if lost[number] == least]
        if len(kept) == len(affordable):
            return RatedOptions(tuple(options), abstains=True)
        others = [number for number in affordable if number not in kept]
        return RatedOptions(
            tuple(options[number] for number in kept),
            scores=tuple(lost),
            preference=_why(options[kept[0]], losses[kept[0]], [(options[other], losses[other]) for other in others]),
        )

    def losses(self, options: Sequence[Option]) -> list[Losses]:
        """Return what the classes of each option's pods lose on a node of it, compared with the other options."""
        return self._losses([(option.template, {pod.cls: None for pod in option.pods}) for option in options])

    def behind(self, option: Option, templates: Mapping[str, Template]) -> frozenset[str]:
        """Return which groups, by id, suit the option's pods less than its own by the labels and taints of their nodes.

        `templates` are those of the groups, all of which take every class of these pods.
        """
        classes = {pod.cls: None for pod in option.pods}
        own, *others = self._losses([(template, classes) for template in (option.template, *templates.values())])
        lost = _mean(option.pods, own, _OF_THE_NODE)
        return frozenset(
            group
            for group, by_class in zip(templates, others, strict=True)
            if _mean(option.pods, by_class, _OF_THE_NODE) > lost
        )

    def _losses(self, offers: Sequence[tuple[Template, Iterable[PodClass]]]) -> list[Losses]:
        """Return the losses on a new node of each template, by class of those that are compared on it."""
        takers: dict[PodClass, list[int]] = {}
        for number, (_, classes) in enumerate(offers):
            for cls in classes:
                takers.setdefault(cls, []).append(number)
        asked = any(not taint.hard for template, _ in offers for taint in template.node.taints)
        takers = {cls: numbers for cls, numbers in takers.items() if (asked or cls.soft) and len(numbers) > 1}
        losses: list[dict[PodClass, LostPoints]] = [{} for _ in offers]
        if not takers:
            return list(losses)
        trial = self._placer.trial
        with trial.fork():
            nodes = np.array([trial.add(template, 1)[0] for template, _ in offers])
            for cls, numbers in takers.items():
                points = self._placer.preferences.points(cls, nodes[numbers])
                for at, number in enumerate(numbers):
                    lost = {plugin: MOST_POINTS - int(given[at]) for plugin, given in points.items()}
                    losses[number][cls] = {plugin: WEIGHTS[plugin] * off for plugin, off in lost.items() if off}
        return list(losses)

    def _affordable(self, options: Sequence[Option]) -> list[int]:
        """Return the options that cost at most a margin more for each pod than the cheapest, by number."""
        prices = () if self._cost is None else self._cost.weigh(options).scores
        known = [price for price in prices if price is not None]
        if not known:
            return list(range(len(options)))
        limit = min(known) * (1 + self._margin) + _ROUNDING
        return [number for number, price in enumerate(prices) if price is not None and price <= limit]


def lost_by(pods: Iterable[Pod], losses: Losses, plugins: Iterable[Preference] = tuple(Preference)) -> int:
    """Return the points that pods lose together."""
    counts = Counter(pod.cls for pod in pods)
    return sum(count * losses.get(cls, {}).get(plugin, 0) for cls, count in counts.items() for plugin in plugins)


def _mean(pods: Sequence[Pod], losses: Losses, plugins: Iterable[Preference] = tuple(Preference)) -> float:
    return lost_by(pods, losses, plugins) / len(pods) if losses and pods else 0.0


def _why(kept: Option, losses: Losses, others: Sequence[tuple[Option, Losses]]) -> PreferredBy | None:
    """Return how many pods prefer an option to all others, and what tells most of them."""
    gains: Counter[tuple[Preference, str]] = Counter()
    preferring = 0
    for cls, count in Counter(pod.cls for pod in kept.pods).items():
        rivals = [(option, lost[cls]) for option, lost in others if cls in lost]
        if not rivals:
            continue
        rival, least = min(rivals, key=lambda other: sum(other[1].values()))
        own = losses.get(cls, {})
        if sum(own.values()) >= sum(least.values()):
            continue
        preferring += count
        gain = {plugin: least.get(plugin, 0) - own.get(plugin, 0) for plugin in Preference}
        plugin = max(gain, key=gain.__getitem__)
        detail = ", ".join(list(_told(plugin, cls, kept.template.node, rival.template.node))[:_MOST_NAMED])
        gains[plugin, detail] += count
    if not gains:
        return None
    (plugin, detail), _ = gains.most_common(1)[0]
    return PreferredBy(group=kept.group.id, pods=preferring, of=len(kept.pods), plugin=plugin, detail=detail)


def _told(plugin: Preference, cls: PodClass, node: Node, rival: Node) -> Iterator[str]:
    """Yield what a plug-in likes better about a node than about a rival."""
    soft = cls.soft
    if plugin is Preference.TAINT:
        mine = set(soft_taints(cls, node))
        yield from (f"no taint {taint.key}" for taint in soft_taints(cls, rival) if taint not in mine)
        return
    if soft is None:
        return
    match plugin:
        case Preference.NODE_AFFINITY:
            keys = [
                expression.key
                for wish in soft.nodes
                if term_matches(wish.preference, node.labels, node.name)
                != term_matches(wish.preference, rival.labels, rival.name)
                for expression in wish.preference.match_expressions
            ]
        case Preference.SPREAD:
            keys = [constraint.topology_key for constraint in soft.spread]
        case Preference.POD_AFFINITY:
            keys = [weighted.pod_affinity_term.topology_key for weighted in (*soft.near, *soft.away)]
    for key in dict.fromkeys(keys):
        if key != HOSTNAME and node.labels.get(key) != rival.labels.get(key):
            yield f"{key}={node.labels[key]}" if key in node.labels else f"no {key}"
