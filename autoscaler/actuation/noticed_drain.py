"""Empties nodes whose machines leave at a known moment: by eviction only, in the time that is left.

All pods are evicted at once: first those whose grace period is longer than the time that is left, then by priority,
lowest first. Grace periods are cut to the time that is left. Disruption budgets delay evictions up to the deadline; no
pod is deleted. The machine is deleted once it is empty, so that its group neither counts nor replaces it. Until the
machine has left, its node keeps the taint.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from autoscaler.actuation.drain import by_priority
from autoscaler.actuation.evict import Evictor
from autoscaler.actuation.machine_deletion import MachineDeletion
from autoscaler.actuation.recheck import Recheck
from autoscaler.actuation.removal_events import RemovalEvents
from autoscaler.actuation.removal_job import RemovalJob
from autoscaler.actuation.removal_outcome import Aborted, AbortReason
from autoscaler.actuation.taints import HardTaint
from autoscaler.actuation.write_gate import WriteGate
from autoscaler.config.scaledown import Drain
from autoscaler.config.syntax import DrainPriority
from autoscaler.errors import AutoscalerError, Gone, LeadershipLost, RetryLater
from autoscaler.objects.pod import Pod
from autoscaler.scaledown.replacement import STAYED_S

_POLL_S = 2.0
_DELETION_RETRY_S = 10.0
_SPARE_S = 5.0
"""Seconds between the last moment of a shortened grace period and the deadline."""


class LeavingMachine:
    """A node whose machine leaves, and what has been done so far. One thread at a time works on it."""

    def __init__(self, job: RemovalJob) -> None:
        assert job.removal.leave_by is not None
        self.job = job
        self.deadline = job.removal.leave_by
        self.tainted = False
        self.tries_at: dict[str, float] = {}
        """Next attempt to evict a pod, in monotonic seconds, by uid."""
        self.seen: set[str] = set()
        """Pods that had to leave, by uid."""
        self.remaining: tuple[Pod, ...] = ()
        self.kept: Aborted | None = None
        """Why the empty machine could not be deleted."""


class NoticedDrainParts(msgspec.Struct, frozen=True, kw_only=True):
    """What drains share with other removals."""

    gate: WriteGate
    hard_taint: HardTaint
    recheck: Recheck
    evictor: Evictor
    commit: MachineDeletion


def in_order_of_urgency(pods: Sequence[Pod], left_s: float) -> list[Pod]:
    """Return pods in the order in which they are evicted: those whose grace period does not fit come first."""
    return sorted(
        pods, key=lambda pod: (pod.cls.grace_s + _SPARE_S <= left_s, pod.cls.priority or 0, -pod.cls.grace_s, pod.key)
    )


def longest_grace_s(limit_s: int, left_s: float) -> int:
    """Return the longest grace period in seconds that ends before the deadline and keeps a limit (0: none)."""
    fitting_s = max(1, int(left_s - _SPARE_S))
    return fitting_s if limit_s <= 0 else min(limit_s, fitting_s)


class NoticedDrain:
    """Drains nodes round by round. Threads may share it; raises `Aborted`, `LeadershipLost` and `Stopping`."""

    def __init__(
        self,
        parts: NoticedDrainParts,
        events: RemovalEvents,
        config: Drain,
        removed: Callable[[RemovalJob], None],
    ) -> None:
        """`removed` is called for nodes whose machine is being deleted, or has left after its pods."""
        self._gate = parts.gate
        self._hard_taint = parts.hard_taint
        self._recheck = parts.recheck
        self._evictor = parts.evictor
        self._commit = parts.commit
        self._events = events
        self._config = config
        self._removed = removed

    def round(self, leaving: LeavingMachine) -> float:
        """Do what can be done for a node now; return the seconds until the next round."""
        job = leaving.job
        self._gate.pause(0.0)
        if not leaving.tainted and not self._taint(leaving):
            return _POLL_S
        try:
            there = self._recheck.until_it_leaves(job)
        except Aborted as aborted:
            return self._gone(leaving, aborted)
        if there is None:
            return _POLL_S
        _, leaving.remaining = there
        leaving.seen.update(pod.uid for pod in leaving.remaining)
        if self._gate.now().mono > leaving.deadline.mono + STAYED_S:
            self._give_up(leaving)
        if not leaving.remaining:
            return self._delete(leaving)
        self._evict(leaving)
        return _POLL_S

    def _taint(self, leaving: LeavingMachine) -> bool:
        job = leaving.job
        try:
            self._hard_taint.put(job.removal.node, job.mark)
        except LeadershipLost:
            raise
        except RetryLater:
            return False
        except Gone as error:
            raise Aborted(AbortReason.NODE_GONE, str(error)) from error
        except AutoscalerError as error:
            self._events.taint_failed(job.removal.node, str(error))
            raise Aborted(AbortReason.NOT_TAINTED, f"the node cannot be tainted: {error}") from error
        leaving.tainted = True
        self._events.tainted(job.removal.node)
        return True

    def _evict(self, leaving: LeavingMachine) -> None:
        for pod, limit_s in self._limited(leaving.remaining, leaving.deadline.mono - self._gate.now().mono):
            now = self._gate.now().mono
            left_s = leaving.deadline.mono - now
            if left_s <= 0:
                return
            if pod.deleted is not None or leaving.tries_at.get(pod.uid, now) > now:
                continue
            if pod.uid not in leaving.tries_at:
                self._events.evicting(pod)
            wait_s = self._evictor.evict_now(leaving.job, pod, longest_grace_s(limit_s, left_s))
            leaving.tries_at[pod.uid] = self._gate.now().mono + (wait_s or _POLL_S)

    def _limited(self, pods: Sequence[Pod], left_s: float) -> Iterator[tuple[Pod, int]]:
        """Yield pods in the order of their eviction, each with the configured limit of its grace period."""
        limits = {pod.uid: group.limit_s for group in by_priority(pods, self._priorities()) for pod in group.pods}
        for pod in in_order_of_urgency(pods, left_s):
            yield pod, limits[pod.uid]

    def _priorities(self) -> Sequence[DrainPriority]:
        config = self._config
        return config.drain_priority_config or (DrainPriority(0, config.max_graceful_termination_sec),)

    def _delete(self, leaving: LeavingMachine) -> float:
        """Delete the machine of an empty node; if that is refused, wait until it leaves by itself."""
        result = self._commit.delete((leaving.job,))
        if result.going:
            self._left(leaving)
            return 0.0
        _, aborted = result.kept[0]
        match aborted.why:
            case AbortReason.NEW_PODS:
                return 0.0
            case AbortReason.NODE_GONE | AbortReason.TAINT_LOST | AbortReason.NOTICE_WITHDRAWN:
                return self._gone(leaving, aborted)
        leaving.kept = aborted
        return _DELETION_RETRY_S

    def _gone(self, leaving: LeavingMachine, aborted: Aborted) -> float:
        """Conclude that the machine has left, or raise why the removal ends."""
        if aborted.why is not AbortReason.NODE_GONE:
            raise aborted
        if leaving.remaining:
            self._count(leaving)
            names = ", ".join(pod.key for pod in leaving.remaining[:10])
            raise Aborted(AbortReason.NODE_GONE, f"the machine left before {len(leaving.remaining)} pods: {names}")
        self._left(leaving)
        return 0.0

    def _left(self, leaving: LeavingMachine) -> None:
        self._count(leaving)
        self._removed(leaving.job)

    def _give_up(self, leaving: LeavingMachine) -> None:
        if leaving.kept is not None and not leaving.remaining:
            raise leaving.kept
        self._count(leaving)
        names = ", ".join(pod.key for pod in leaving.remaining[:10])
        raise Aborted(AbortReason.PODS_REMAIN, f"the machine is still there, and so are {names or 'no pods'}")

    def _count(self, leaving: LeavingMachine) -> None:
        remained = len(leaving.remaining)
        self._events.listener.machine_left(len(leaving.seen) - remained, remained)
