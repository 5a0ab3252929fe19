"""How a flag's text becomes a value and back: the syntax of Go's flag libraries, which Cluster Autoscaler uses.

Every parser takes one occurrence of a flag and raises `ValueError` with what is wrong and how to write it.
"""

import csv
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from cloudprovider.address import parse_address
from cloudprovider.duration import parse_duration_s
from cloudprovider.nearest import nearest
from cloudprovider.number import BOOLEANS, parse_bool, parse_float, parse_int
from cloudprovider.structure import Syntax

_LONGEST_SPAN_S = 31 * 86400.0


class Range(msgspec.Struct, frozen=True):
    """Lower and upper limit, both allowed."""

    min: int
    max: int


class GpuRange(NamedTuple):
    """Lower and upper limit of one GPU type, which is a value of the provider's GPU label."""

    gpu_type: str
    min: int
    max: int


class DrainPriority(msgspec.Struct, frozen=True):
    """Maximum termination time in seconds for pods of this priority and above, up to the next entry."""

    priority: int
    max_graceful_termination_sec: int


class GroupLimit(msgspec.Struct, frozen=True):
    """A limit of one group, or of the whole cluster."""

    group: str | None
    most: int


class Support(StrEnum):
    """How far a flag of Cluster Autoscaler is honoured."""

    SAME = "same"
    BETTER = "better"
    OURS = "ours"
    ACCEPTED = "accepted"
    """Parsed and validated, without effect so far."""
    NOT_APPLICABLE = "not-applicable"
    """It tunes something that does not exist here."""


def parse_range(text: str) -> Range:
    """Read `min:max`, both whole and not negative."""
    low, colon, high = text.partition(":")
    if not colon or ":" in high:
        raise ValueError("is not min:max; write two whole numbers, such as 0:100")
    return Range(*_limits(low, high))


def parse_gpu_range(text: str) -> tuple[GpuRange, ...]:
    """Read `type:min:max`."""
    parts = text.split(":")
    if len(parts) != 3 or not parts[0]:
        raise ValueError("is not type:min:max; write for example nvidia-tesla-t4:0:16")
    return (GpuRange(parts[0], *_limits(parts[1], parts[2])),)


def _limits(low: str, high: str) -> tuple[int, int]:
    try:
        limits = parse_int(low), parse_int(high)
    except ValueError:
        raise ValueError("holds a limit that is not a whole number") from None
    if limits[0] < 0 or limits[1] < 0:
        raise ValueError("holds a negative limit")
    if limits[0] > limits[1]:
        raise ValueError("has a minimum above its maximum; write the smaller number first")
    return limits


def parse_node_spec(text: str) -> tuple[str, ...]:
    """Check `min:max:name`; the provider reads it, the name may hold colons."""
    parts = text.split(":", 2)
    if len(parts) != 3 or not parts[2]:
        raise ValueError("is not min:max:name; write for example 1:10:my-group")
    _limits(parts[0], parts[1])
    return (text,)


def parse_group_limit(text: str) -> tuple[GroupLimit, ...]:
    """Read `[group=]count`; a count of 1 or more."""
    group, equals, digits = text.rpartition("=")
    try:
        most = parse_int(digits.strip())
    except ValueError:
        most = 0
    if most < 1 or (equals and not group.strip()):
        raise ValueError("is not [group=]count with a count of 1 or more; write for example 10 or web=2")
    return (GroupLimit(group.strip() or None, most),)


def parse_span_s(text: str, name: str, example: str, *, zero: bool = False) -> float:
    """Read a duration of up to 31 days, above 0 unless `zero` is allowed; `ValueError` calls it by its `name`."""
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise ValueError(f'has a {name} "{text}" that {error}') from None
    if not 0 <= seconds <= _LONGEST_SPAN_S or (seconds == 0 and not zero):
        bounds = "from 0 to 744h" if zero else "above 0 and at most 744h"
        raise ValueError(f'has a {name} "{text}" that is not {bounds}; write for example {example}')
    return seconds


def parse_drain_priorities(text: str) -> tuple[DrainPriority, ...]:
    """Read `priority:seconds,...` into entries of ascending priority."""
    entries: dict[int, DrainPriority] = {}
    for part in filter(None, text.split(",")):
        priority, colon, seconds = part.partition(":")
        try:
            entry = DrainPriority(parse_int(priority), parse_int(seconds))
        except ValueError:
            entry = None
        if entry is None or not colon or entry.max_graceful_termination_sec < 0:
            raise ValueError("is not priority:seconds,...; write for example 0:60,1000:300")
        if entry.priority in entries:
            raise ValueError(f"names priority {entry.priority} twice")
        entries[entry.priority] = entry
    return tuple(entries[priority] for priority in sorted(entries))


def parse_names(text: str) -> tuple[str, ...]:
    """Read names between commas; spaces around them and empty ones are dropped."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def parse_slice(text: str) -> tuple[str, ...]:
    """Read one occurrence of a comma-separated list; double quotes protect a comma."""
    try:
        return tuple(next(csv.reader([text], strict=True), ()))
    except csv.Error:
        raise ValueError("is not text between commas; close every quote, and break no line") from None


def parse_gates(text: str) -> tuple[str, ...]:
    """Read `Name=true,...`."""
    gates = parse_names(text)
    for gate in gates:
        name, equals, value = gate.partition("=")
        if not name or not equals or value not in BOOLEANS:
            raise ValueError("is not Name=true|false,...")
    return gates


def _address(text: str) -> str:
    parse_address(text)
    return text


def parse_zone(text: str) -> ZoneInfo:
    """Read the name of a time zone."""
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError("is not a known time zone; write for example Europe/Berlin") from None


_joined: Callable[[tuple[str, ...]], str] = ",".join


def names(known: Sequence[str] = ()) -> Syntax:
    """Return the syntax of a list of names; `known` are those that it may hold, if not all may be there."""
    return Syntax("names, comma-separated", parse_names, _joined, choices=lambda: known)


def optional(unit: str, choices: Callable[[], Iterable[str]] = tuple) -> Syntax:
    """Return the syntax of text that may be missing; `choices` as in `Syntax`."""
    return Syntax(unit, lambda text: text or None, str, choices=choices)


def choice(kind: type[StrEnum]) -> Syntax:
    """Return the syntax of a flag that takes one of the members of `kind`."""

    def parse(text: str) -> StrEnum:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"is not one of {', '.join(kind)}{nearest(text, kind)}") from None

    return Syntax("|".join(kind), parse, str, choices=lambda: kind)


def _counted(unit: str) -> Syntax:
    return Syntax(unit, parse_int, str, types=(int,))


def _show_range(value: Range) -> str:
    return f"{value.min}:{value.max}"


def _show_gpu_ranges(value: tuple[GpuRange, ...]) -> str:
    return ",".join(f"{gpu}:{low}:{high}" for gpu, low, high in value)


def _show_drain_priorities(value: tuple[DrainPriority, ...]) -> str:
    return ",".join(f"{entry.priority}:{entry.max_graceful_termination_sec}" for entry in value)


def _show_group_limits(value: tuple[GroupLimit, ...]) -> str:
    return " ".join(str(limit.most) if limit.group is None else f"{limit.group}={limit.most}" for limit in value)


def _show_float(value: float) -> str:
    return f"{value:.12g}"


_not_negative = msgspec.Meta(ge=0)

Switch = Annotated[
    bool,
    Syntax("bool", parse_bool, lambda on: "true" if on else "false", types=(bool,), choices=lambda: ("true", "false")),
]
Number = Annotated[int, _counted("int")]
Count = Annotated[int, _counted("int"), _not_negative]
CountFromOne = Annotated[int, _counted("int"), msgspec.Meta(ge=1)]
OptionalNumber = Annotated[int | None, _counted("int")]
WholeSeconds = Annotated[int, _counted("seconds"), _not_negative]
Real = Annotated[float, Syntax("float", parse_float, _show_float, types=(int, float)), _not_negative]
Percent = Annotated[float, Syntax("percent", parse_float, _show_float, types=(int, float)), msgspec.Meta(ge=0, le=100)]
Zone = Annotated[ZoneInfo, Syntax("time zone", parse_zone, str)]
Text = Annotated[str, Syntax("text", str, str)]
OptionalText = Annotated[str | None, optional("text")]
OptionalFile = Annotated[str | None, optional("file")]
OptionalDirectory = Annotated[str | None, optional("directory")]
Address = Annotated[str, Syntax("host:port", _address, str)]
Names = Annotated[tuple[str, ...], names()]
StringSlice = Annotated[
    tuple[str, ...], Syntax("text, comma-separated, repeatable", parse_slice, _joined, repeated=True)
]
StringArray = Annotated[tuple[str, ...], Syntax("text, repeatable", lambda text: (text,), _joined, repeated=True)]
NodeSpecs = Annotated[tuple[str, ...], Syntax("min:max:name, repeatable", parse_node_spec, _joined, repeated=True)]
Gates = Annotated[tuple[str, ...], Syntax("Name=bool,..., repeatable", parse_gates, _joined, repeated=True)]
CoreRange = Annotated[Range, Syntax("min:max cores", parse_range, _show_range)]
GibRange = Annotated[Range, Syntax("min:max GiB", parse_range, _show_range)]
GpuRanges = Annotated[
    tuple[GpuRange, ...], Syntax("type:min:max, repeatable", parse_gpu_range, _show_gpu_ranges, repeated=True)
]
GroupLimits = Annotated[
    tuple[GroupLimit, ...], Syntax("[group=]count, repeatable", parse_group_limit, _show_group_limits, repeated=True)
]
DrainPriorities = Annotated[
    tuple[DrainPriority, ...], Syntax("priority:seconds,...", parse_drain_priorities, _show_drain_priorities)
]
