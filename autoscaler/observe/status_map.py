"""The text of the status ConfigMap, as Cluster Autoscaler writes it since 1.30 (YAML)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import yaml

from autoscaler.config.rules import Rules
from autoscaler.observe.status import Backoff, Condition, GroupStatus, NodeCounts, PublishedStatus, Scope

KEY = "status"
LAST_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"

_LONGEST_MESSAGE = 500
_CUT = "<truncated>"


class _Quoted(str):
    """A text that YAML would otherwise read back as a time."""

    __slots__ = ()


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
)


def status_config_map(status: PublishedStatus, now_wall: float, rules: Rules = Rules()) -> str:  # noqa: B008  # frozen
    """Render the value of the key `status`; `status` should have been through `with_transitions`."""
    document: dict[str, Any] = {"time": status_time(now_wall), "autoscalerStatus": str(status.state)}
    if status.message is not None:
        document["message"] = status.message
    if status.cluster is not None:
        document["clusterWide"] = _cluster(status.cluster.scope, rules)
    if status.groups:
        document["nodeGroups"] = [_group(group, rules) for group in status.groups]
    text: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=rules.status_keys_sorted, allow_unicode=True, width=1_000_000
    )
    return text


def status_time(wall: float) -> str:
    """Write a time as Go prints it, in UTC: the form of `time` and of the last-updated annotation."""
    moment = datetime.fromtimestamp(round(wall * 1e6) / 1e6, UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def _cluster(scope: Scope, rules: Rules) -> dict[str, Any]:
    return {
        "health": {
            "status": str(scope.health.status),
            "nodeCounts": _counts(scope.counts, rules),
            **_times(scope.health),
        },
        "scaleUp": {"status": str(scope.scale_up.status), **_times(scope.scale_up)},
        "scaleDown": _scale_down(scope),
    }


def _group(group: GroupStatus, rules: Rules) -> dict[str, Any]:
    scope = group.scope
    return {
        "name": group.id,
        "health": {
            "status": str(scope.health.status),
            "nodeCounts": _counts(scope.counts, rules),
            "cloudProviderTarget": group.target_size,
            "minSize": group.min_size,
            "maxSize": group.max_size,
            **_times(scope.health),
        },
        "scaleUp": {
            "status": str(scope.scale_up.status),
            **({} if group.backoff is None else {"backoffInfo": _backoff(group.backoff)}),
            **_times(scope.scale_up),
        },
        "scaleDown": _scale_down(scope),
    }


def _scale_down(scope: Scope) -> dict[str, Any]:
    return {
        "status": str(scope.scale_down.status),
        **({"candidates": scope.candidates} if scope.candidates else {}),
        **_times(scope.scale_down),
    }


def _backoff(backoff: Backoff) -> Mapping[str, str]:
    message = backoff.message
    if len(message) > _LONGEST_MESSAGE:
        message = message[: _LONGEST_MESSAGE - len(_CUT)] + _CUT
    return {"errorCode": backoff.code, "errorMessage": message}


def _counts(counts: NodeCounts, rules: Rules) -> dict[str, Any]:
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


def _times(condition: Condition[Any]) -> dict[str, str]:
    since_at = condition.probed_at if condition.since_at is None else condition.since_at
    return {"lastProbeTime": _rfc3339(condition.probed_at), "lastTransitionTime": _rfc3339(since_at)}


def _rfc3339(wall: float) -> str:
    return _Quoted(f"{datetime.fromtimestamp(int(wall), UTC):%Y-%m-%dT%H:%M:%SZ}")
