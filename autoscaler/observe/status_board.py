"""The board that holds the newest status of a process, and since when each condition has had its value."""

import threading
from collections.abc import Iterable

import msgspec

from autoscaler.observe.status import (
    Condition,
    Decision,
    ProcessStatus,
    PublishedStatus,
    Scope,
    State,
    UndecodedKind,
)


def with_transitions(current: PublishedStatus, previous: PublishedStatus | None) -> PublishedStatus:
    """Set the time since which each condition has had its status.

    A status that did not change keeps its time. A new status gets the time of its check, as Cluster Autoscaler's
    lastTransitionTime does.
    """
    before = {} if previous is None else {group.id: group.scope for group in previous.groups}
    cluster = current.cluster
    if cluster is not None:
        cluster_before = previous.cluster.scope if previous is not None and previous.cluster is not None else None
        cluster = msgspec.structs.replace(cluster, scope=_scope_since(cluster.scope, cluster_before))
    groups = tuple(
        msgspec.structs.replace(group, scope=_scope_since(group.scope, before.get(group.id)))
        for group in current.groups
    )
    return msgspec.structs.replace(current, cluster=cluster, groups=groups)


def _scope_since(scope: Scope, before: Scope | None) -> Scope:
    old = scope if before is None else before
    return msgspec.structs.replace(
        scope,
        health=_since(scope.health, old.health),
        scale_up=_since(scope.scale_up, old.scale_up),
        scale_down=_since(scope.scale_down, old.scale_down),
    )


def _since(condition: Condition[State], before: Condition[State]) -> Condition[State]:
    since_at = before.since_at if before.status == condition.status else None
    return Condition(condition.status, condition.probed_at, condition.probed_at if since_at is None else since_at)


class StatusView(msgspec.Struct, frozen=True):
    """A consistent pair: the newest status, and the recent decisions, oldest first."""

    status: PublishedStatus
    history: tuple[Decision, ...] = ()


class StatusBoard:
    """Holds the newest status for all readers. One writer at a time replaces the whole value."""

    def __init__(self, process: ProcessStatus, history_s: float = 6 * 3600.0, history_size: int = 1000) -> None:
        self._view = StatusView(PublishedStatus(process=process))
        self._history_s = history_s
        self._history_size = history_size
        self._lock = threading.Lock()

    @property
    def view(self) -> StatusView:
        """The newest value; it never changes."""
        return self._view

    def publish(self, status: PublishedStatus) -> PublishedStatus:
        """Publish the status of a pass; return it with transition times.

        Two parts belong to the board: the last values of `process_changed` and `undecoded_changed` remain.
        """
        with self._lock:
            old = self._view
            known = msgspec.structs.replace(status, process=old.status.process, undecoded=old.status.undecoded)
            published = with_transitions(known, old.status)
            newest_at = published.last_pass.started_at if published.last_pass is not None else None
            self._view = StatusView(published, self._extended(old.history, published.decisions, newest_at))
            return published

    def process_changed(self, process: ProcessStatus) -> None:
        """Publish a change of leadership or versions at once, also between passes."""
        with self._lock:
            status = msgspec.structs.replace(self._view.status, process=process)
            self._view = StatusView(status, self._view.history)

    def undecoded_changed(self, undecoded: tuple[UndecodedKind, ...]) -> None:
        """Publish the objects that cannot be decoded now."""
        with self._lock:
            status = msgspec.structs.replace(self._view.status, undecoded=undecoded)
            self._view = StatusView(status, self._view.history)

    def _extended(
        self, history: tuple[Decision, ...], new: Iterable[Decision], newest_at: float | None
    ) -> tuple[Decision, ...]:
        oldest_at = None if newest_at is None else newest_at - self._history_s
        recent = (decision for decision in (*history, *new) if oldest_at is None or decision.at >= oldest_at)
        return tuple(recent)[-self._history_size :]
