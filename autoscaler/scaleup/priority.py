"""The priority expander: people rank node groups in a ConfigMap, which is read again for every decision.

The entry `priorities` is YAML: a whole number, then regular expressions that are searched (not anchored) in group
ids. The options at the highest number that matches any of them stay. Source: Cluster Autoscaler's priority expander.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from autoscaler.objects.workload import ConfigMap
from autoscaler.ports import Subject
from autoscaler.scaleup.choice import ExpanderWarning, RatedOptions
from autoscaler.scaleup.option import Option
from cloudprovider.document import parse_documents
from cloudprovider.expression import Expression
from cloudprovider.number import parse_int
from cloudprovider.quoted import quoted

CONFIG_MAP = "cluster-autoscaler-priority-expander"
ENTRY = "priorities"
_MOST_CHARACTERS = 1 << 18
"""Of the entry, which is read for every decision."""

Priorities = Mapping[int, tuple[Expression, ...]]
"""Expressions by priority."""


class PriorityWarning(StrEnum):
    """Reasons of the warning events on the ConfigMap."""

    INVALID = "PriorityConfigMapInvalid"
    NOT_MATCHED = "PriorityConfigMapNotMatchedGroup"
    NONE_MATCHED = "PriorityConfigMapNoGroupMatched"


def config_map_in(config_maps: Mapping[str, ConfigMap], namespace: str) -> ConfigMap | None:
    """Return the priority expander's ConfigMap."""
    return config_maps.get(f"{namespace}/{CONFIG_MAP}")


def parse(text: str) -> Priorities:
    """Read the entry; raises `ValueError` with what is wrong and where."""
    try:
        # An expression such as 10 stays as it is written.
        documents = parse_documents(text, _MOST_CHARACTERS, as_written=True)
    except ValueError as error:
        raise ValueError(f"is not YAML: {error}") from error
    priorities = documents[0] if documents else None
    if not priorities:
        raise ValueError("is empty; write a priority, such as 10:, and under it a list of regular expressions")
    if not isinstance(priorities, dict):
        raise ValueError("is not a map of priorities to lists of regular expressions")
    return {_number(key): _patterns(key, expressions) for key, expressions in priorities.items()}


def _number(key: object) -> int:
    try:
        return parse_int(str(key))
    except ValueError:
        raise ValueError(f"has {quoted(str(key))} where a whole number belongs") from None


def _patterns(key: str, expressions: object) -> tuple[Expression, ...]:
    if expressions == "":
        return ()
    if not isinstance(expressions, list) or not all(isinstance(expression, str) for expression in expressions):
        raise ValueError(f"has no list of regular expressions under {key}")
    return tuple(_pattern(key, expression) for expression in expressions)


def _pattern(key: str, expression: str) -> Expression:
    try:
        return _expression(expression)
    except ValueError as error:
        raise ValueError(f"has a bad regular expression under {key}: {quoted(expression)}: {error}") from error


@lru_cache(maxsize=1024)
def _expression(text: str) -> Expression:
    return Expression(text)


class PriorityExpander:
    """Keeps the options that people rank highest; all of them where the ConfigMap is missing or unusable."""

    def __init__(self, config_map: ConfigMap | None) -> None:
        self._config_map = config_map

    def best(self, options: Sequence[Option]) -> Sequence[Option]:
        """Return the options at the highest priority."""
        return self.weigh(options).options

    def weigh(self, options: Sequence[Option]) -> RatedOptions:
        """Return the options at the highest priority, and warnings about groups and a ConfigMap that do not fit."""
        source = self._config_map
        if source is None:
            return RatedOptions(tuple(options))
        about = Subject(kind="ConfigMap", name=source.name, namespace=source.namespace, uid=source.uid)
        try:
            priorities = _read(source)
        except ValueError as error:
            message = f"Wrong configuration for priority expander: {error}. No options filtered."
            return RatedOptions(tuple(options), (ExpanderWarning(about, PriorityWarning.INVALID, message),))
        ranks = [_rank(option.group.id, priorities) for option in options]
        occurrences = [
            ExpanderWarning(
                about,
                PriorityWarning.NOT_MATCHED,
                f"Priority expander: node group {option.group.id} not found in priority expander configuration. "
                "The group won't be used.",
            )
            for option, rank in zip(options, ranks, strict=True)
            if rank is None
        ]
        scores = tuple(None if rank is None else float(rank) for rank in ranks)
        highest = max((rank for rank in ranks if rank is not None), default=None)
        if highest is None:
            message = (
                "Priority expander: no priorities info found for any of the expansion options. No options filtered."
            )
            occurrences.append(ExpanderWarning(about, PriorityWarning.NONE_MATCHED, message))
            return RatedOptions(tuple(options), tuple(occurrences), scores=scores)
        kept = tuple(option for option, rank in zip(options, ranks, strict=True) if rank == highest)
        return RatedOptions(kept, tuple(occurrences), scores=scores)


def _read(source: ConfigMap) -> Priorities:
    if ENTRY not in source.data:
        raise ValueError(f"the ConfigMap has no entry {ENTRY}")
    try:
        return parse(source.data[ENTRY])
    except ValueError as error:
        raise ValueError(f"{ENTRY} {error}") from error


def _rank(group_id: str, priorities: Priorities) -> int | None:
    matching = (
        priority for priority, patterns in priorities.items() if any(pattern.found_in(group_id) for pattern in patterns)
    )
    return max(matching, default=None)
