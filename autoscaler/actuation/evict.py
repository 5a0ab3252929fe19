"""Evicts the pods of one node, and retries each eviction until its time is up."""

from collections.abc import Callable, Sequence

import msgspec

from autoscaler.actuation.deletion_tracker import NodeDeletionTracker
from autoscaler.actuation.removal_events import RemovalEvents
from autoscaler.actuation.removal_job import RemovalJob
from autoscaler.actuation.removal_outcome import Eviction
from autoscaler.actuation.write_gate import WriteGate
from autoscaler.errors import AutoscalerError, Blocked, Gone, LeadershipLost, RetryLater
from autoscaler.kube.writes import ClusterWrites
from autoscaler.logs import Log
from autoscaler.objects.pod import Pod

log = Log(__name__)

_PAUSE_S = 5.0
_NOT_TRIED = "not tried: another pod of the node could not be evicted"


class EvictionRetry(msgspec.Struct, frozen=True):
    """How long an eviction is retried, and the pause after a failure; both in seconds."""

    total_s: float
    pause_s: float


class _Attempt:
    """One pod, and the time of its next attempt."""

    __slots__ = ("due", "error", "pod", "required")

    def __init__(self, pod: Pod, required: bool, due: float) -> None:
        self.pod = pod
        self.required = required
        self.due = due
        self.error = ""


class Evictor:
    """Evicts pods. Threads may share it.

    The thread of a node tries the node's pods in turn. The API server's rate limit would serialize them anyway, and
    this way no drain can take the threads of another.
    """

    def __init__(
        self, writes: ClusterWrites, gate: WriteGate, events: RemovalEvents, tracker: NodeDeletionTracker
    ) -> None:
        self._writes = writes
        self._gate = gate
        self._events = events
        self._tracker = tracker

    def evict(
        self,
        job: RemovalJob,
        required: Sequence[Pod],
        optional: Sequence[Pod],
        *,
        limit_s: int,
        patience: EvictionRetry,
        check: Callable[[], object],
    ) -> tuple[Eviction, ...]:
        """Evict pods and return the results of the required ones; the job records all results.

        `limit_s` caps each pod's termination time in seconds (0: no cap). Every pod is tried once, and again until the
        retry time is over. Then the first required pod that stays ends the attempt for the others, because evicting
        them would be useless. Optional pods are tried for as long as the required ones take. `check` is called before
        each round and may raise.
        """
        start = self._gate.now().mono
        give_up = start + patience.total_s
        waiting = [_Attempt(pod, True, start) for pod in required]
        waiting += [_Attempt(pod, False, start) for pod in optional]
        results: list[Eviction] = []
        for attempt in waiting:
            self._events.evicting(attempt.pod)
        while waiting:
            check()
            waiting, ended = self._round(job, waiting, limit_s, give_up, patience.pause_s)
            results += ended
            job.evictions += ended
            if not any(attempt.required for attempt in waiting) and (required or not waiting):
                break
            if waiting:
                self._gate.pause(min(attempt.due for attempt in waiting) - self._gate.now().mono)
        return tuple(results)

    def insist(self, job: RemovalJob, pod: Pod, budget: str | None, *, limit_s: int) -> Eviction:
        """Evict a pod or, if the API server forbids that for a disruption budget, delete it, and say so."""
        grace_s = min(pod.cls.grace_s, limit_s) if limit_s > 0 else pod.cls.grace_s
        try:
            self._writes.evict(pod.namespace, pod.name, pod.uid, grace_s)
        except Gone:
            pass
        except Blocked as error:
            return self._deleted(job, pod, f"budget {budget}" if budget else str(error), grace_s)
        except LeadershipLost:
            raise
        except AutoscalerError as error:
            return Eviction(pod=pod, error=str(error))
        self._events.evicted()
        self._tracker.evicted(job.removal, pod)
        return Eviction(pod=pod)

    def _deleted(self, job: RemovalJob, pod: Pod, forbids: str, grace_s: int) -> Eviction:
        try:
            self._writes.delete_pod(pod.namespace, pod.name, pod.uid, grace_s)
        except Gone:
            pass
        except LeadershipLost:
            raise
        except AutoscalerError as error:
            return Eviction(pod=pod, error=f"{forbids} forbids its eviction, and it cannot be deleted: {error}")
        log.warning("scale_down.budget_overruled", node=job.name, pod=pod.key, budget=forbids)
        self._events.overruled(job.removal, pod, forbids)
        self._tracker.evicted(job.removal, pod)
        return Eviction(pod=pod)

    def evict_now(self, job: RemovalJob, pod: Pod, limit_s: int) -> float | None:
        """Try once to evict a pod; return None on success, otherwise the seconds until the next attempt."""
        wait_s = self._try(job, _Attempt(pod, True, 0.0), limit_s, _PAUSE_S)
        if wait_s is None:
            job.evictions.append(Eviction(pod=pod))
        return wait_s

    def last_call(self, pods: Sequence[Pod]) -> None:
        """Evict pods of a node that is about to be deleted, without waiting for them to end."""
        for pod in pods:
            self._events.evicting(pod)
            try:
                self._writes.evict(pod.namespace, pod.name, pod.uid, None)
                self._events.evicted()
            except LeadershipLost:
                raise
            except AutoscalerError as error:
                log.warning("scale_down.eviction_failed", pod=pod.key, error=str(error))

    def _round(
        self, job: RemovalJob, attempts: list[_Attempt], limit_s: int, give_up: float, pause_s: float
    ) -> tuple[list[_Attempt], list[Eviction]]:
        """Try every pod that is due; return the pods to retry, and the results of required pods that are final."""
        waiting: list[_Attempt] = []
        ended: list[Eviction] = []
        doomed = False
        for attempt in attempts:
            if doomed or attempt.due > self._gate.now().mono:
                waiting.append(attempt)
            elif (wait_s := self._try(job, attempt, limit_s, pause_s)) is None:
                ended += [Eviction(pod=attempt.pod)] if attempt.required else []
            elif self._gate.now().mono < give_up:
                attempt.due = min(self._gate.now().mono + wait_s, give_up)
                waiting.append(attempt)
            else:
                ended += self._given_up(attempt)
                doomed = attempt.required
        if doomed:
            ended += [eviction for attempt in waiting for eviction in self._given_up(attempt)]
            waiting = []
        return waiting, ended

    def _given_up(self, attempt: _Attempt) -> list[Eviction]:
        if not attempt.required:
            log.info("scale_down.daemon_pod_stays", pod=attempt.pod.key, error=attempt.error)
            return []
        if attempt.error:
            self._events.eviction_failed(attempt.pod, attempt.error)
        return [Eviction(pod=attempt.pod, error=attempt.error or _NOT_TRIED)]

    def _try(self, job: RemovalJob, attempt: _Attempt, limit_s: int, pause_s: float) -> float | None:
        """Evict one pod; return None on success, otherwise the seconds until the next attempt."""
        pod = attempt.pod
        grace_s = min(pod.cls.grace_s, limit_s) if limit_s > 0 else pod.cls.grace_s
        try:
            self._writes.evict(pod.namespace, pod.name, pod.uid, grace_s)
        except Gone:
            pass
        except LeadershipLost:
            raise
        except AutoscalerError as error:
            log.info("scale_down.eviction_failed", pod=pod.key, error=str(error))
            attempt.error = str(error)
            wished_s = error.retry_after_s if isinstance(error, RetryLater) else None
            return max(pause_s, wished_s or 0.0)
        self._events.evicted()
        self._tracker.evicted(job.removal, pod)
        return None
