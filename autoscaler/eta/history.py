"""Records the life of each pod with its estimates and actual times. Owned by one thread.

Pods are identified by uid, because names are reused. A recorded time never changes, and unobserved times stay None.
Pods that were ready before the first pass have no estimate, and no record until they end.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from autoscaler.eta.estimate import StartEstimate, WaitLevel
from autoscaler.objects.pod import Pod
from autoscaler.reasons import DeleteReason
from autoscaler.snapshot.cluster import ClusterView

MOST_ENDED = 1000
ENDED_S = 86400.0

_DISRUPTIONS = {
    "PreemptionByScheduler": DeleteReason.PREEMPTED,
    "EvictionByEvictionAPI": DeleteReason.EVICTED,
    "DeletionByTaintManager": DeleteReason.EVICTED,
    "TerminationByKubelet": DeleteReason.EVICTED,
}


class PodStage(StrEnum):
    """The stage of a pod."""

    REQUESTED = "Requested"
    UNSCHEDULABLE = "Unschedulable"
    NODE_REQUESTED = "NodeRequested"
    SCHEDULED = "Scheduled"
    READY = "Ready"
    FINISHED = "Finished"
    FAILED = "Failed"
    DELETED = "Deleted"


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The history of one pod. Times end in `_at` and are Unix seconds."""

    uid: str
    namespace: str
    name: str
    state: PodStage = PodStage.REQUESTED
    requested_at: float | None = None
    first_seen_at: float | None = None
    unschedulable_at: float | None = None
    estimated_ready_at: float | None = None
    """The time according to the first estimate."""
    estimated_ready_p90_at: float | None = None
    estimate_level: WaitLevel | None = None
    assumed: bool = False
    """Whether the first estimate was a default, because no boot had been seen; the score excludes it."""
    latest_estimated_ready_at: float | None = None
    node_requested_at: float | None = None
    node_group: str | None = None
    scheduled_at: float | None = None
    node: str | None = None
    ready_at: float | None = None
    finished_at: float | None = None
    deleted_at: float | None = None
    delete_reason: DeleteReason | None = None
    error_s: float | None = None
    """Actual minus estimated time: positive means late."""

    @property
    def ended(self) -> bool:
        """Whether the history is complete."""
        return self.state in (PodStage.FINISHED, PodStage.FAILED, PodStage.DELETED)


class Arrival(msgspec.Struct, frozen=True):
    """A pod that became ready since the last pass."""

    record: PodRecord
    pod: Pod

    @property
    def within_worst(self) -> bool | None:
        """Whether the pod was ready by the worst case of its first estimate; None if it had no estimate."""
        ready, worst = self.record.ready_at, self.record.estimated_ready_p90_at
        return None if ready is None or worst is None else ready <= worst


class HistoryChanges(msgspec.Struct, frozen=True):
    """The results of one pass."""

    arrivals: tuple[Arrival, ...] = ()
    ended: tuple[PodRecord, ...] = ()
    ran: tuple[tuple[Pod, float], ...] = ()
    """Pods that completed, with the seconds for which they had been ready."""


class PodHistory:
    """Histories of live pods that were seen before they were ready, and of the last pods that ended."""

    def __init__(self) -> None:
        self._live: dict[str, PodRecord] = {}
        self._pending: dict[str, Pod] = {}
        self._placed: dict[str, tuple[Pod, ...]] | None = None
        self._starting: dict[str, Pod] = {}
        self._ended: deque[PodRecord] = deque(maxlen=MOST_ENDED)
        self._marks: dict[str, DeleteReason] = {}

    @property
    def starting(self) -> Iterable[Pod]:
        """Pods that have a node and do not run yet, as of the last pass."""
        return (pod for pod in self._starting.values() if pod.phase != "Running")

    @property
    def unready(self) -> Iterable[Pod]:
        """Pods that have a node and are not ready, as of the last pass."""
        return self._starting.values()

    def get(self, uid: str) -> PodRecord | None:
        """Return the history of a live pod."""
        return self._live.get(uid)

    def live(self) -> Mapping[str, PodRecord]:
        """Return the histories of live pods, by uid."""
        return self._live.copy()

    def ended(self) -> tuple[PodRecord, ...]:
        """Return the histories of pods that have ended, oldest first."""
        return tuple(self._ended)

    def look(self, view: ClusterView, leaving_nodes: Iterable[str], wall: float) -> HistoryChanges:
        """Record a view; the autoscaler is removing the `leaving_nodes`."""
        first = self._placed is None
        before: Mapping[str, tuple[Pod, ...]] = self._placed or {}
        placed = {node.name: pods for node, pods in zip(view.nodes, view.pods, strict=True)}
        appeared: dict[str, Pod] = {}
        gone: dict[str, Pod] = {}
        for name, pods in placed.items():
            old = before.get(name, ())
            if first:
                appeared.update((pod.uid, pod) for pod in pods if pod.ready is None)
            elif old is not pods and old != pods:
                _compare(old, pods, appeared, gone)
        for name in before.keys() - placed.keys():
            gone.update((pod.uid, pod) for pod in before[name])
        pending = {pod.uid: pod for pod in view.pending}
        for uid, pod in pending.items():
            if self._pending.get(uid) is not pod:
                self._waits(pod, wall)
        gone.update((uid, pod) for uid, pod in self._pending.items() if uid not in pending)
        arrivals = [arrival for pod in appeared.values() if (arrival := self._on_node(pod, wall)) is not None]
        leaving = set(leaving_nodes)
        ends = [
            self._end(pod, leaving, wall) for uid, pod in gone.items() if uid not in appeared and uid not in pending
        ]
        self._pending, self._placed = pending, placed
        while self._ended and wall - (_end_of(self._ended[0]) or wall) > ENDED_S:
            self._ended.popleft()
        records = tuple(record for record, _ in ends)
        ran = tuple(seconds for _, seconds in ends if seconds is not None)
        return HistoryChanges(tuple(arrivals), records, ran)

    def estimated(self, uid: str, estimate: StartEstimate, wall: float) -> None:
        """Record an estimate; the first and the latest are kept. A pod that existed before this process gets none."""
        record = self.get(uid)
        if record is None or estimate.expected_s is None or estimate.worst_s is None or record.ready_at is not None:
            return
        ready = wall + estimate.expected_s
        changes: dict[str, float | WaitLevel | bool] = {"latest_estimated_ready_at": ready}
        if record.estimated_ready_at is None:
            changes |= {"estimated_ready_at": ready, "estimated_ready_p90_at": wall + estimate.worst_s}
            changes |= {"estimate_level": estimate.level, "assumed": estimate.assumed}
        self._live[uid] = msgspec.structs.replace(record, **changes)

    def node_requested(self, uid: str, group: str, wall: float) -> None:
        """Record that a node was requested for this pod."""
        record = self.get(uid)
        if record is None or record.node_requested_at is not None:
            return
        state = PodStage.NODE_REQUESTED if record.scheduled_at is None else record.state
        self._live[uid] = msgspec.structs.replace(record, node_requested_at=wall, node_group=group, state=state)

    def deleting(self, uid: str, reason: DeleteReason) -> None:
        """Record why this process is about to delete a pod. Pods that are never seen to end displace older ones."""
        self._marks[uid] = reason
        while len(self._marks) > MOST_ENDED:
            self._marks.pop(next(iter(self._marks)), None)

    def _waits(self, pod: Pod, wall: float) -> None:
        record = self._live.get(pod.uid) or _fresh(pod, wall)
        since = None
        if pod.unscheduled is not None and pod.unscheduled.reason == "Unschedulable":
            since = pod.unscheduled.since or wall
        if since is not None and record.unschedulable_at is None:
            state = PodStage.UNSCHEDULABLE if record.node_requested_at is None else record.state
            record = msgspec.structs.replace(record, unschedulable_at=since, state=state)
        self._live[pod.uid] = record

    def _on_node(self, pod: Pod, wall: float) -> Arrival | None:
        """Record a pod on a node that has appeared or changed; return the pod if it became ready."""
        ready = pod.ready
        if ready is None:
            self._starting[pod.uid] = pod
        else:
            self._starting.pop(pod.uid, None)
        record = self._live.get(pod.uid)
        if record is None:
            record = _fresh(pod, wall)
        if record.ready_at is not None:
            return None
        record = msgspec.structs.replace(
            record, node=pod.node, scheduled_at=record.scheduled_at or pod.scheduled, state=PodStage.SCHEDULED
        )
        if ready is not None:
            estimated = record.estimated_ready_at
            error = None if estimated is None else ready - estimated
            record = msgspec.structs.replace(record, ready_at=ready, error_s=error, state=PodStage.READY)
        self._live[pod.uid] = record
        return None if ready is None else Arrival(record, pod)

    def _end(self, pod: Pod, leaving: set[str], wall: float) -> tuple[PodRecord, tuple[Pod, float] | None]:
        self._starting.pop(pod.uid, None)
        record = self._live.pop(pod.uid, None) or rebuilt(pod)
        marked = self._marks.pop(pod.uid, None)
        by_itself = pod.deleted is None and pod.cls.restart_policy != "Always" and pod.node is not None
        ran = None
        ready = record.ready_at
        if by_itself and ready is not None:
            record = msgspec.structs.replace(record, state=PodStage.FINISHED, finished_at=wall)
            ran = pod, max(0.0, wall - ready)
        elif by_itself:
            record = msgspec.structs.replace(record, state=PodStage.FAILED, finished_at=wall)
        else:
            reason = marked or _delete_reason(pod, leaving)
            deleted_at = wall if pod.deleted is None else min(wall, pod.deleted)
            record = msgspec.structs.replace(
                record, state=PodStage.DELETED, deleted_at=deleted_at, delete_reason=reason
            )
        self._ended.append(record)
        return record, ran


def rebuilt(pod: Pod) -> PodRecord:
    """Return the history of a pod from the API alone, without an estimate."""
    state = (
        PodStage.READY if pod.ready is not None else PodStage.SCHEDULED if pod.node is not None else PodStage.REQUESTED
    )
    return PodRecord(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        state=state,
        requested_at=pod.created,
        scheduled_at=pod.scheduled,
        node=pod.node,
        ready_at=pod.ready,
    )


def records_of(live: Mapping[str, PodRecord], view: ClusterView) -> Iterator[PodRecord]:
    """Yield a record for each pod of a view; pods without one get a new one."""
    for pods in (view.pending, *view.pods):
        for pod in pods:
            yield live.get(pod.uid) or rebuilt(pod)


def _fresh(pod: Pod, wall: float) -> PodRecord:
    return PodRecord(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, requested_at=pod.created or None, first_seen_at=wall
    )


def _compare(old: tuple[Pod, ...], new: tuple[Pod, ...], appeared: dict[str, Pod], gone: dict[str, Pod]) -> None:
    """Add new and changed pods to `appeared`, and missing ones to `gone`."""
    known = {pod.uid: pod for pod in old}
    for pod in new:
        if known.pop(pod.uid, None) is not pod:
            appeared[pod.uid] = pod
    gone.update(known)


def _delete_reason(pod: Pod, leaving: set[str]) -> DeleteReason:
    if pod.node in leaving:
        return DeleteReason.SCALE_DOWN
    if pod.disruption is not None:
        return _DISRUPTIONS.get(pod.disruption, DeleteReason.EVICTED)
    return DeleteReason.UNKNOWN if pod.deleted is None else DeleteReason.USER


def _end_of(record: PodRecord) -> float | None:
    return record.finished_at if record.deleted_at is None else record.deleted_at
