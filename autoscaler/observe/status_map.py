"""The text of the status ConfigMap, as Cluster Autoscaler writes it since 1.30 (YAML).

The text is made without a YAML library: it is made in every pass, and its form is simple.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from autoscaler.config.rules import Rules
from autoscaler.observe.status import (
    BackoffStatus,
    Condition,
    GroupStatus,
    Health,
    NodeCounts,
    PublishedStatus,
    ScaleDownActivity,
    ScaleUpActivity,
    Scope,
)

Fields: TypeAlias = dict[str, "Fields | YamlText | str | int | None"]
"""A part of the document, in the order of its keys."""

_MAX_MESSAGE = 500
_TRUNCATED = "<truncated>"
_MAX_BYTES = 1024 * 1024
"""Maximum size of a ConfigMap that the API server accepts."""
_MESSAGE_BYTES = 200
"""Bytes that the message about missing groups may take."""
_PLAIN_YAML = re.compile(r"(?!(?i:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_/](?:[\w./@+,;()=-]|:(?=[\w/])| (?=\w))*")
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON allows unescaped and YAML does not."""


class YamlText(str):
    """Text that is quoted if YAML would otherwise reject it or not read it as text."""

    __slots__ = ()


def status_config_map(status: PublishedStatus, now_wall: float, rules: Rules = Rules()) -> str:  # noqa: B008  # frozen
    """Return the value of the key `status`; `status` should have been through `with_transitions`.

    A ConfigMap holds 1 MiB. If there is no room for all node groups, groups without problems and activity are left out
    from the end, then others, and `message` says how many are shown.
    """
    groups = tuple(_item(_group(group, rules), rules) for group in status.groups)
    text = _document(status, now_wall, rules, status.message, groups)
    if len(text.encode()) <= _MAX_BYTES:
        return text
    bytes_left = _MAX_BYTES - _MESSAGE_BYTES - len(_document(status, now_wall, rules, status.message, ()).encode())
    kept_groups = _fitting(status.groups, groups, bytes_left)
    message = f"{len(kept_groups)} of {len(groups)} node groups are shown: a ConfigMap holds no more than 1 MiB"
    return _document(status, now_wall, rules, message, kept_groups)


def status_time(wall: float) -> str:
    """Return a time as Go prints it, in UTC: the form of `time` and of the last-updated annotation."""
    return f"{_moment(wall):%Y-%m-%d %H:%M:%S}{_fraction(wall)} +0000 UTC"


def _document(
    status: PublishedStatus, now_wall: float, rules: Rules, message: str | None, groups: Iterable[str]
) -> str:
    head: Fields = {"time": status_time(now_wall), "autoscalerStatus": str(status.state)}
    if message is not None:
        head["message"] = YamlText(message)
    head["clusterWide"] = _cluster(None if status.cluster is None else status.cluster.scope, rules)
    if status.pauses:
        head["paused"] = YamlText("; ".join(pause.text for pause in status.pauses)[:_MAX_MESSAGE])
    parts = {key: "".join(_lines({key: value}, rules)) for key, value in head.items()}
    if group_texts := "".join(groups):
        parts["nodeGroups"] = f"nodeGroups:\n{group_texts}"
    return "".join(parts[key] for key in _ordered(parts, rules))


def _fitting(groups: Iterable[GroupStatus], texts: tuple[str, ...], bytes_left: int) -> list[str]:
    """Return the texts of as many groups as fit, in their order. Groups with problems or activity have priority."""
    sizes = [len(text.encode()) for text in texts]
    idle = [_is_idle(group) for group in groups]
    kept_groups = set()
    for index in sorted(range(len(texts)), key=lambda index: idle[index]):
        bytes_left -= sizes[index]
        if bytes_left < 0:
            break
        kept_groups.add(index)
    return [text for index, text in enumerate(texts) if index in kept_groups]


def _is_idle(group: GroupStatus) -> bool:
    scope = group.scope
    state = (scope.health.status, scope.scale_up.status, scope.scale_down.status)
    return state == (Health.HEALTHY, ScaleUpActivity.NO_ACTIVITY, ScaleDownActivity.NO_CANDIDATES)


def _cluster(scope: Scope | None, rules: Rules) -> Fields:
    if scope is None:
        unknown = _times(None, rules)
        health: Fields = {"nodeCounts": _counts(NodeCounts(), rules), **unknown}
        return {"health": health, "scaleUp": unknown, "scaleDown": unknown}
    return {
        "health": {
            "status": str(scope.health.status),
            "nodeCounts": _counts(scope.counts, rules),
            **_times(scope.health, rules),
        },
        "scaleUp": {"status": str(scope.scale_up.status), **_times(scope.scale_up, rules)},
        "scaleDown": _scale_down(scope, rules),
    }


def _group(group: GroupStatus, rules: Rules) -> Fields:
    scope = group.scope
    return {
        "name": YamlText(group.id),
        "health": {
            "status": str(scope.health.status),
            "nodeCounts": _counts(scope.counts, rules),
            "cloudProviderTarget": group.target_size,
            "minSize": group.min_size,
            "maxSize": group.max_size,
            **_times(scope.health, rules),
        },
        "scaleUp": {
            "status": str(scope.scale_up.status),
            "backoffInfo": _backoff(group),
            **_times(scope.scale_up, rules),
        },
        "scaleDown": _scale_down(scope, rules),
    }


def _scale_down(scope: Scope, rules: Rules) -> Fields:
    return {
        "status": str(scope.scale_down.status),
        **({"candidates": scope.candidates} if scope.candidates else {}),
        **_times(scope.scale_down, rules),
    }


def _backoff(group: GroupStatus) -> Fields:
    """Return why a group is left alone, if its scale-up shows that."""
    if group.backoff is None or group.scope.scale_up.status is not ScaleUpActivity.BACKOFF:
        return {}
    info = {"errorCode": group.backoff.code, "errorMessage": _truncated(group.backoff)}
    return {name: YamlText(value) for name, value in info.items() if value}


def _truncated(backoff: BackoffStatus) -> str:
    message = backoff.message
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - len(_TRUNCATED)] + _TRUNCATED


def _counts(counts: NodeCounts, rules: Rules) -> Fields:
    return {
        "registered": {
            "total": counts.total,
            "ready": counts.ready,
            "notStarted": counts.not_started,
            **({"suspended": counts.suspended} if rules.suspended_nodes else {}),
            **({"beingDeleted": counts.being_deleted} if counts.being_deleted else {}),
            "unready": {"total": counts.unready, "resourceUnready": counts.resource_unready},
        },
        "longUnregistered": counts.long_unregistered,
        "unregistered": counts.unregistered,
    }


def _times(condition: Condition[Any] | None, rules: Rules) -> Fields:
    probed_at = None if condition is None else condition.probed_at
    since_at = probed_at if condition is None or condition.since_at is None else condition.since_at
    return {"lastProbeTime": _time(probed_at, rules), "lastTransitionTime": _time(since_at, rules)}


def _time(wall: float | None, rules: Rules) -> YamlText | None:
    if wall is None:
        return None
    fraction = "" if rules.status_by_json else _fraction(wall)
    return YamlText(f"{_moment(wall):%Y-%m-%dT%H:%M:%S}{fraction}Z")


def _moment(wall: float) -> datetime:
    return datetime.fromtimestamp(round(wall * 1e6) / 1e6, UTC)


def _fraction(wall: float) -> str:
    """Return the fraction of a second as Go prints it: without trailing zeros, or nothing."""
    return f".{_moment(wall).microsecond:06d}".rstrip("0").rstrip(".")


def _item(fields: Fields, rules: Rules) -> str:
    """Return fields as the item of a list."""
    lines = "".join(_lines(fields, rules, "  "))
    return f"- {lines[2:]}"


def _lines(fields: Fields, rules: Rules, indent: str = "") -> Iterator[str]:
    for key in _ordered(fields, rules):
        value = fields[key]
        if not rules.status_by_json and _is_empty(value):
            continue
        if not isinstance(value, dict):
            yield f"{indent}{key}: {_scalar(value)}\n"
        elif value:
            yield f"{indent}{key}:\n"
            yield from _lines(value, rules, indent + "  ")
        else:
            yield f"{indent}{key}: {{}}\n"


def _is_empty(value: object) -> bool:
    """Whether older versions leave a part out: an unknown time, or a structure with only zeros."""
    return value is None or (isinstance(value, dict) and all(item == 0 or _is_empty(item) for item in value.values()))


def _ordered(fields: Mapping[str, object], rules: Rules) -> Iterable[str]:
    return sorted(fields) if rules.status_by_json else fields


def _scalar(value: YamlText | str | int | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, YamlText) and not _PLAIN_YAML.fullmatch(value):
        return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
    return str(value)
