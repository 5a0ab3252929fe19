"""Plans one cluster under several configurations, side by side."""

import re
from collections.abc import Sequence

import msgspec

from autoscaler.config.document import to_options
from autoscaler.config.flags import flags
from autoscaler.config.load import from_options
from autoscaler.config.settings import find_flag
from autoscaler.errors import ConfigError
from autoscaler.scenario.scenario import Scenario
from autoscaler.simulator.answer import AnswerPart, PlanAnswer
from autoscaler.simulator.play import play
from cloudprovider.nearest import nearest

GIVEN = "as given"
"""The name of the plan without additional flags."""
_NEXT_FLAG = re.compile(r",(?=-{0,2}[a-z][a-z0-9_-]*=)")


class Variant(msgspec.Struct, frozen=True):
    """The flags of one plan that differ from the other plans."""

    name: str
    options: dict[str, str | list[str]]
    """Values by flag name, as text."""


class Compared(AnswerPart, frozen=True, kw_only=True):
    """The plan of one variant."""

    variant: str
    options: dict[str, str | list[str]]
    answer: PlanAnswer


class Comparison(AnswerPart, frozen=True, kw_only=True):
    """The plans of all variants; the plan of the given configuration comes first."""

    name: str
    compared: list[Compared]

    @classmethod
    def of(cls, scenario: Scenario, variants: Sequence[Variant]) -> "Comparison":
        """Plan a scenario once as given, and once per variant; raises `ConfigError` that names the variant."""
        compared = [Compared(variant=GIVEN, options={}, answer=play(scenario))]
        compared.extend(
            Compared(variant=variant.name, options=variant.options, answer=play(_varied(scenario, variant)))
            for variant in variants
        )
        return cls(name=scenario.name, compared=compared)


def parse_variant(text: str) -> Variant:
    """Read `flag=value,flag=value`; a value may contain commas. Raises `ConfigError`."""
    options: dict[str, str | list[str]] = {}
    problems = []
    for part in _NEXT_FLAG.split(text):
        name, equals, value = part.strip().lstrip("-").partition("=")
        flag = find_flag(name)
        if flag is None:
            problems.append(f"--compare {text}: {name}: unknown flag{nearest(name, flags())}")
        elif not equals:
            problems.append(f"--compare {text}: {name}: needs a value, as {name}=...")
        elif flag.syntax.repeated:
            known = options.setdefault(flag.name, [])
            assert isinstance(known, list)
            known.append(value)
        else:
            options[flag.name] = value
    if problems:
        raise ConfigError(problems)
    return Variant(text, options)


def _varied(scenario: Scenario, variant: Variant) -> Scenario:
    try:
        config = from_options({**to_options(scenario.config), **variant.options})
    except ConfigError as error:
        raise ConfigError(f"--compare {variant.name}: {problem}" for problem in error.problems) from error
    config = msgspec.structs.replace(config, scheduler=scenario.config.scheduler)
    return msgspec.structs.replace(scenario, config=config)
