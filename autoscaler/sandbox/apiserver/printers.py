"""Parts of tables: columns, ages, values by path."""

import re
from typing import Any

import msgspec

from cloudprovider.moment import parse_time

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
_STEP = re.compile(r"""\.([A-Za-z0-9_-]+)|\[(\d+)\]|\['([^']+)'\]""")


class PrinterColumn(msgspec.Struct, frozen=True):
    """One column; `wide` ones show only with `-o wide`. `path` is a CRD's JSONPath."""

    name: str
    type: str = "string"
    wide: bool = False
    description: str = ""
    path: str = ""
    format: str = ""


NAME = PrinterColumn(
    "Name",
    description="Name must be unique within a namespace. Is required when creating resources, although some resources "
    "may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for "
    "creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
AGE = PrinterColumn(
    "Age",
    description="CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
    "guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is "
    "represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
)


def named(*names: str, wide: tuple[str, ...] = ()) -> tuple[PrinterColumn, ...]:
    """Text columns, the wide ones last."""
    known = {column.name: column for column in (NAME, AGE)}
    return (
        *(known.get(name) or PrinterColumn(name) for name in names),
        *(PrinterColumn(name, wide=True) for name in wide),
    )


def age(obj: dict[str, Any], now: float, since: Any = None) -> str:
    """Time since creation (or `since`), as kubectl shows it."""
    return elapsed(since or obj["metadata"].get("creationTimestamp"), now)


def elapsed(timestamp: Any, now: float) -> str:
    """Time since an API timestamp, `<unknown>` without one."""
    moment = seconds(timestamp)
    return "<unknown>" if moment is None else duration(now - moment)


def seconds(timestamp: Any) -> float | None:
    """An API timestamp as wall seconds."""
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        return parse_time(timestamp).timestamp()
    except ValueError:
        return None


def duration(length_s: float) -> str:
    """Two units at most, coarser with length: `45s`, `3m20s`, `15m`, `5h3m`, `2d4h`, `40d`, `2y10d`."""
    whole = max(0, int(length_s))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _pair(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _pair(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _pair(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    return _pair(whole, _YEAR, "y", _DAY, "d")


def _pair(whole: int, unit: int, letter: str, smaller: int, small_letter: str) -> str:
    rest = whole % unit // smaller
    return f"{whole // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")


def lookup(obj: Any, path: str) -> Any:
    """The value at a simple JSONPath (`.spec.replicas`, `.status.conditions[0].type`), or `None`."""
    value = obj
    for name, position, quoted in _STEP.findall(path):
        if position:
            value = value[int(position)] if isinstance(value, list) and int(position) < len(value) else None
        else:
            value = value.get(name or quoted) if isinstance(value, dict) else None
    return value


def labels_text(labels: dict[str, str] | None) -> str:
    """`a=b,c=d`, or `<none>`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"
