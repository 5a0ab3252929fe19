"""Expanders choose between scale-up options; a chain of expanders narrows the choice to one option."""

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Protocol, runtime_checkable

import msgspec

from autoscaler.config.expanders import BY_PRICE, chain_problems, with_tie_break
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import TieBreak
from autoscaler.current_step import in_hand
from autoscaler.errors import ConfigError
from autoscaler.objects import quantity
from autoscaler.objects.workload import ConfigMap
from autoscaler.ports import ExpanderAnswer
from autoscaler.scaleup.choice import Choice, ExpanderStep, ExpanderWarning, RatedOptions, rated
from autoscaler.scaleup.cost import CostExpander
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.preferred import PreferredExpander
from autoscaler.scaleup.price import PriceExpander, Prices
from autoscaler.scaleup.priority import PriorityExpander
from autoscaler.snapshot.contribution import gpu_resources
from autoscaler.tie_break import RandomSource


class Expander(Protocol):
    """One way to narrow the choice."""

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return those of the options that it rates highest, in their order; none of none."""
        ...


@runtime_checkable
class ExplainsChoice(Protocol):
    """Ability of an expander: says what people should know about its choice."""

    def weigh(self, options: Sequence[Option]) -> RatedOptions:
        """Return what `best` would, with scores, warnings, and answers of remote expanders."""
        ...


class Random:
    """Keeps one option, any."""

    def __init__(self, dice: RandomSource) -> None:
        self._dice = dice

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return one option."""
        return [self._dice.choice(options)] if options else []


class MostPods:
    """Keeps the options that help the most pods."""

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the options with the most pods."""
        return self.weigh(options).options

    def weigh(self, options: Sequence[Option]) -> RatedOptions:
        """Return the same with the count of pods of each option."""
        pods = [float(len(option.pods)) for option in options]
        return rated(options, pods, max(pods, default=None))


class LeastNodes:
    """Keeps the options that add the fewest nodes."""

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the options with the fewest nodes, but at least one."""
        return self.weigh(options).options

    def weigh(self, options: Sequence[Option]) -> RatedOptions:
        """Return the same with the count of nodes of each option."""
        nodes = [float(sum(part.nodes for part in option.parts)) for option in options]
        return rated(options, nodes, min((count for count in nodes if count > 0), default=None))


class LeastWaste:
    """Keeps the options that leave the least of the new nodes' CPU and memory unused.

    An option's score is the unused share of CPU capacity plus that of memory capacity; only exact ties stay.
    `plain_containers` leaves init containers and overhead out of what pods use.
    """

    def __init__(self, *, plain_containers: bool = False) -> None:
        self._plain_containers = plain_containers

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the options with the lowest score."""
        return self.weigh(options).options

    def weigh(self, options: Sequence[Option]) -> RatedOptions:
        """Return the same with the score of each option."""
        wastes = [self.waste(option) for option in options]
        return rated(options, wastes, min(wastes, default=None))

    def waste(self, option: Option) -> float:
        """Return the score, 0 (all used) to 2 (nothing used)."""
        cpu_milli = memory_bytes = 0
        for cls, count in Counter(map(attrgetter("cls"), option.pods)).items():
            requests = cls.container_requests if self._plain_containers else cls.requests
            cpu_milli += requests.get(quantity.CPU, 0) * count
            memory_bytes += requests.get(quantity.MEMORY, 0) * count
        cpu = _unused(_capacity(option, quantity.CPU), cpu_milli)
        return cpu + _unused(_capacity(option, quantity.MEMORY), memory_bytes)


def _capacity(option: Option, resource: str) -> int:
    return sum(part.template.node.capacity.get(resource, 0) * part.nodes for part in option.parts)


def _unused(available: int, used: int) -> float:
    return (available - used) / available if available else 0.0


class ExpanderInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What expanders may need to know beside the options, as one pass sees it."""

    dice: RandomSource
    """Of this choice alone: a seed and what has been chosen so far fix them (`seed`)."""
    tie_break: TieBreak = TieBreak.STABLE
    rules: Rules = Rules()
    cluster_nodes: int | None = None
    """Nodes in the cluster, of groups or not; None where they could not be counted."""
    gpu_label: str = ""
    prices: Prices | None = None
    """None: the provider knows no prices."""
    priorities: ConfigMap | None = None
    remote: Expander | None = None
    """The gRPC expander; None: there is no server to ask."""
    preferred: PreferredExpander | None = None
    """Weighs what pods prefer; None: that is not weighed."""


class ExpanderChain:
    """Expanders in order. As soon as one option is left it wins; the tie-break decides between several."""

    def __init__(self, expanders: Sequence[tuple[str, Expander]], supplies: ExpanderInputs) -> None:
        self._expanders = tuple(expanders)
        self._tie_break = supplies.tie_break
        self._dice = supplies.dice
        self.preferred = supplies.preferred

    def choose(self, options: Sequence[Option]) -> Choice:
        """Choose one option; `options` come in the order of their groups, which a stable tie-break follows."""
        left, choice = _narrowed(self._expanders, options)
        return msgspec.structs.replace(choice, option=self._only(left))

    @property
    def cost(self) -> CostExpander | None:
        """The expander that ends the chain by choosing a combination of options."""
        last = self._expanders[-1][1] if self._expanders else None
        return last if isinstance(last, CostExpander) else None

    def before_cost(self, options: Sequence[Option]) -> tuple[Sequence[Option], Choice]:
        """Return the options that the expanders before the last one leave to it, and the steps so far."""
        return _narrowed(self._expanders[:-1], options)

    def _only(self, options: Sequence[Option]) -> Option | None:
        if not options:
            return None
        return options[0] if self._tie_break is TieBreak.STABLE else self._dice.choice(options)


def _narrowed(expanders: Sequence[tuple[str, Expander]], options: Sequence[Option]) -> tuple[Sequence[Option], Choice]:
    """Return what expanders leave of the options, and their steps: a choice without an option yet."""
    steps: list[ExpanderStep] = []
    occurrences: list[ExpanderWarning] = []
    answers: list[ExpanderAnswer] = []
    for name, expander in expanders:
        in_hand("expander", name)
        weighed = (
            expander.weigh(options)
            if isinstance(expander, ExplainsChoice)
            else RatedOptions(tuple(expander.best(options)))
        )
        figures = zip(options, weighed.scores, strict=True) if weighed.scores else ()
        scores = {option.group.id: score for option, score in figures}
        if weighed.abstains:
            continue
        options = weighed.options
        occurrences.extend(weighed.occurrences)
        answers.extend([] if weighed.answer is None else [weighed.answer])
        steps.append(ExpanderStep(name, tuple(option.group.id for option in options), scores, weighed.preference))
        if len(options) <= 1:
            break
    return options, Choice(None, tuple(steps), tuple(occurrences), tuple(answers))


def problems(
    names: Sequence[str], *, has_prices: bool, has_remote: bool, unpriced: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a line for everything that keeps expanders of these names from making a chain.

    `unpriced` are the groups that exist and have no price, to be named where no group has one.
    """
    for problem in chain_problems(names):
        yield f"expander: {problem}"
    of_groups = f" (of {', '.join(unpriced)})" if unpriced else ""
    for name in (name for name in BY_PRICE if name in names and not has_prices):
        yield (
            f'expander: "{name}" needs prices{of_groups}, and this provider has none; '
            "give it a price list or drop the expander"
        )
    if "grpc" in names and not has_remote:
        yield 'expander: "grpc" needs a server; set grpc-expander-url and grpc-expander-cert'


def build_chain(names: Sequence[str], supplies: ExpanderInputs) -> ExpanderChain:
    """Return the chain of these expanders; raises `ConfigError` with all that is wrong with them."""
    wrong = tuple(problems(names, has_prices=supplies.prices is not None, has_remote=supplies.remote is not None))
    if wrong:
        raise ConfigError(wrong)
    chain = names if supplies.preferred is None else with_tie_break(names)
    return ExpanderChain([(name, _made(name, supplies)) for name in chain], supplies)


def _made(name: str, supplies: ExpanderInputs) -> Expander:
    match name:
        case "random":
            return Random(supplies.dice)
        case "most-pods":
            return MostPods()
        case "least-nodes":
            return LeastNodes()
        case "least-waste":
            return LeastWaste(plain_containers=supplies.rules.least_waste_plain_containers)
        case "price" if supplies.prices is not None:
            return PriceExpander(
                supplies.prices, supplies.cluster_nodes, supplies.gpu_label, gpu_resources(supplies.rules)
            )
        case "cost" if supplies.prices is not None:
            return CostExpander(supplies.prices)
        case "priority":
            return PriorityExpander(supplies.priorities)
        case "preferred" if supplies.preferred is not None:
            return supplies.preferred
        case "grpc" if supplies.remote is not None:
            return supplies.remote
        case _:
            raise ConfigError(problems((name,), has_prices=False, has_remote=False))
