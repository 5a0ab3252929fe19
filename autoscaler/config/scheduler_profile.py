"""The parts of the scheduler's own configuration that affect where pods fit."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec

from autoscaler.errors import ConfigError
from autoscaler.reasons import FILTERS, NoFit

T = TypeVar("T")


class NodeOperator(StrEnum):
    """Operators of node selectors."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class _Strict(msgspec.Struct, frozen=True, rename="camel"):
    """Base of what is read of the file."""


class ProfileExpression(_Strict, frozen=True):
    """One requirement on a label or field of nodes."""

    key: str
    operator: NodeOperator
    values: list[str] = []


class ProfileTerm(_Strict, frozen=True):
    """Requirements that must all hold."""

    match_expressions: list[ProfileExpression] = []
    match_fields: list[ProfileExpression] = []


class ProfileTerms(_Strict, frozen=True):
    """Terms; at least one must hold."""

    node_selector_terms: list[ProfileTerm]


class DefaultConstraint(_Strict, frozen=True):
    """A spread constraint for pods that have none."""

    topology_key: str
    max_skew: Annotated[int, msgspec.Meta(ge=1)]
    when_unsatisfiable: str
    min_domains: Annotated[int, msgspec.Meta(ge=1)] | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class SchedulerProfile(msgspec.Struct, frozen=True):
    """What the one profile of the file changes."""

    added_affinity: ProfileTerms | None = None
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    default_constraints: tuple[DefaultConstraint, ...] = ()
    """Only those that forbid."""
    disabled: tuple[NoFit, ...] = ()
    """Filters that are not asked, in the scheduler's order."""
    warnings: tuple[str, ...] = ()
    """What in the file has no effect, each with its path in it."""


class _AddedAffinity(_Strict, frozen=True):
    required: ProfileTerms | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[Any] = msgspec.field(default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution")


class _AffinityArgs(_Strict, frozen=True):
    added_affinity: _AddedAffinity | None = None


class _FitArgs(_Strict, frozen=True):
    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []


class _SpreadArgs(_Strict, frozen=True):
    default_constraints: list[DefaultConstraint] = []
    defaulting_type: str = "System"


class _Plugin(_Strict, frozen=True):
    name: str


class _PluginSet(_Strict, frozen=True):
    enabled: list[_Plugin] = []
    disabled: list[_Plugin] = []


class _PluginConfig(_Strict, frozen=True):
    name: str
    args: dict[str, Any] = {}


class _ProfileForm(_Strict, frozen=True):
    scheduler_name: str = "default-scheduler"
    plugins: dict[str, _PluginSet] = {}
    plugin_config: list[_PluginConfig] = []


_FILTER_POINTS = ("multiPoint", "preFilter", "filter")
_ARGUMENTS = ("NodeAffinity", "NodeResourcesFit", "PodTopologySpread")


def read_profile(content: object) -> SchedulerProfile:
    """Read a KubeSchedulerConfiguration from plain YAML data.

    Raises `ConfigError` with what is wrong: words that go on after the name of the file.
    """
    if not isinstance(content, dict) or content.get("kind") != "KubeSchedulerConfiguration":
        raise ConfigError("is not a KubeSchedulerConfiguration")
    profiles = content.get("profiles") or []
    if not isinstance(profiles, list) or len(profiles) != 1:
        raise ConfigError("must have exactly one profile")
    problems: list[str] = []
    profile = _convert(profiles[0], _ProfileForm, "profiles[0]", problems)
    if profile is None:
        raise ConfigError(problems)
    arguments = {
        entry.name: (f"profiles[0].pluginConfig[{number}].args", entry.args)
        for number, entry in enumerate(profile.plugin_config)
    }
    warnings = [f"profiles[0].pluginConfig: {name} has no effect here" for name in arguments if name not in _ARGUMENTS]
    if content.get("extenders"):
        warnings.append("extenders: they are not asked")
    affinity = _arguments(arguments, "NodeAffinity", _AffinityArgs, problems)
    fit = _arguments(arguments, "NodeResourcesFit", _FitArgs, problems)
    spread = _arguments(arguments, "PodTopologySpread", _SpreadArgs, problems)
    problems.extend(_spread_problems(spread))
    warnings.extend(_plugin_warnings(profile.plugins))
    if problems:
        raise ConfigError(problems)
    return SchedulerProfile(
        added_affinity=affinity.added_affinity.required if affinity.added_affinity else None,
        ignored_resources=tuple(fit.ignored_resources),
        ignored_resource_groups=tuple(fit.ignored_resource_groups),
        default_constraints=tuple(
            constraint for constraint in spread.default_constraints if constraint.when_unsatisfiable == "DoNotSchedule"
        ),
        disabled=_disabled(profile.plugins),
        warnings=tuple(warnings),
    )


def _arguments(given: Mapping[str, tuple[str, dict[str, Any]]], name: str, kind: type[T], problems: list[str]) -> T:
    path, args = given.get(name, ("", {}))
    return _convert(args, kind, path, problems) or kind()


def _convert(value: object, kind: type[T], path: str, problems: list[str]) -> T | None:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        problems.append(f"in {path}{where.rstrip('`')}: {reason[0].lower()}{reason[1:]}")
        return None


def _spread_problems(args: _SpreadArgs) -> Iterator[str]:
    path = "in the PodTopologySpread args"
    if args.defaulting_type not in ("List", "System"):
        yield f"{path}: defaultingType: is {args.defaulting_type!r}; write List or System"
    if args.default_constraints and args.defaulting_type == "System":
        yield f"{path}: defaultConstraints: they need defaultingType List"
    for number, constraint in enumerate(args.default_constraints):
        if constraint.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
            yield (
                f"{path}: defaultConstraints[{number}].whenUnsatisfiable: is {constraint.when_unsatisfiable!r}; "
                "write DoNotSchedule or ScheduleAnyway"
            )


def _disabled(plugins: Mapping[str, _PluginSet]) -> tuple[NoFit, ...]:
    """Return the filters that are off: `multiPoint` says what is on, then `filter` takes away and adds."""
    on = {reason.value for reason in FILTERS}
    for point in ("multiPoint", "filter"):
        chosen = plugins.get(point, _PluginSet())
        off = {plugin.name for plugin in chosen.disabled}
        on = set() if "*" in off else on - off
        on |= {plugin.name for plugin in chosen.enabled}
    return tuple(reason for reason in FILTERS if reason.value not in on)


def _plugin_warnings(plugins: Mapping[str, _PluginSet]) -> Iterator[str]:
    known = {reason.value for reason in FILTERS}
    for point in _FILTER_POINTS:
        for plugin in plugins.get(point, _PluginSet()).enabled:
            if plugin.name not in known and point != "multiPoint":
                yield f"profiles[0].plugins.{point}.enabled: {plugin.name} is not known here and not asked"
    for plugin in plugins.get("preFilter", _PluginSet()).disabled:
        yield f"profiles[0].plugins.preFilter.disabled: {plugin.name} stays; disable it as a filter"
