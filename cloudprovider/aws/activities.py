"""Scaling activities of a group: whether missing machines may still start."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_UNDER_WAY = frozenset({"InProgress", "PreInService", "WaitingForInstanceId"})
_ENDING = "Terminating"
_INSTANCE = re.compile(r"\bi-[0-9a-f]{8,17}\b")
_LONGEST = 300


def why_unmet(activities: Iterable[Mapping[str, Any]], since: float) -> str | None:
    """Return why AWS does not start machines; None if it still may.

    The newest attempt since `since` decides, because a group that failed in one zone tries the next one.
    """
    for activity in _launches(activities, since):
        if activity.get("StatusCode") == "Cancelled":
            continue
        if activity.get("StatusCode") != "Failed":
            return None
        said = activity.get("StatusMessage") or activity.get("Description") or "a launch failed"
        return " ".join(str(said).split())[:_LONGEST]
    return None


def is_launching(activities: Iterable[Mapping[str, Any]], known: Iterable[str]) -> bool:
    """Whether AWS is starting a machine that the group does not list yet."""
    listed = set(known)
    return any(
        activity.get("StatusCode") in _UNDER_WAY
        and not listed.intersection(_INSTANCE.findall(str(activity.get("Description", ""))))
        for activity in _launches(activities, 0.0)
    )


def _launches(activities: Iterable[Mapping[str, Any]], since: float) -> Iterator[Mapping[str, Any]]:
    for activity in activities:
        started = activity.get("StartTime")
        if started is not None and started.timestamp() < since:
            return
        if not str(activity.get("Description", "")).startswith(_ENDING):
            yield activity
