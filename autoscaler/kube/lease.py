"""Decides leader election on a Lease, with Cluster Autoscaler's object and timings, so that the two exclude each other.

`LeaseState` decides the next step and does no I/O; `election` carries it out.

Leadership has a deadline. The lease lasts from the moment at which the request that won or renewed it was *sent*, so a
process that was frozen may not write when it resumes. Other holders are judged by how long their lease has not changed,
and never by comparing their clock with ours.
"""

import math
import random
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from autoscaler.clock import Instant
from autoscaler.kube import paths
from autoscaler.kube.paths import ObjectRef
from autoscaler.objects.meta import Wire

_RETRY_JITTER = 0.2
_MAX_LEASE_S = 2**31
"""The limit of the Kubernetes API."""


class ElectionSpec(Wire, frozen=True):
    """The holder of a Lease and its times; times are RFC 3339 texts with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class ElectionLease(msgspec.Struct, frozen=True, rename="camel"):
    """A coordination.k8s.io/v1 Lease; all metadata is kept, to be written back."""

    metadata: dict[str, Any]
    spec: ElectionSpec = ElectionSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"

    @classmethod
    def fresh(cls, namespace: str, name: str, spec: ElectionSpec) -> "ElectionLease":
        """Return a Lease to create."""
        return cls({"name": name, "namespace": namespace}, spec)

    @property
    def path(self) -> str:
        """The path of the object."""
        return paths.path(ObjectRef(self.api_version, self.kind, self.metadata["name"], self.metadata["namespace"]))


class LeaseTimings(msgspec.Struct, frozen=True):
    """Timings in seconds; the defaults are Cluster Autoscaler's. Each must be well above the next."""

    lease_s: float = 15.0
    """How long others respect a lease that is not renewed."""
    renew_deadline_s: float = 10.0
    """How long the leader tries to renew before it gives up leadership."""
    retry_s: float = 2.0
    """Pause between attempts, for the leader and for those who wait."""


class LeasePhase(StrEnum):
    """The state of this replica in the election."""

    STANDBY = "standby"
    LEADING = "leading"
    LOST = "lost"
    RELEASED = "released"


class LeaseRead(msgspec.Struct, frozen=True):
    """Read the Lease, within this many seconds."""

    namespace: str
    name: str
    timeout_s: float


class LeaseWrite(msgspec.Struct, frozen=True):
    """Create (`create`) or replace the Lease, within this many seconds."""

    lease: ElectionLease
    create: bool
    timeout_s: float


class LeaseWait(msgspec.Struct, frozen=True):
    """Ask again after this many seconds."""

    seconds: float


class LeaseEnd(msgspec.Struct, frozen=True):
    """The election is over; there are no more steps."""


LeaseStep = LeaseRead | LeaseWrite | LeaseWait | LeaseEnd


class LeaseState:
    """The known state of the Lease, and the next step. One thread drives it; any thread may call `may_write`.

    The driver calls `next`, carries out the step, and reports it with `on_read`, `on_written` or `on_failed`.
    """

    def __init__(
        self,
        identity: str,
        timings: LeaseTimings,
        namespace: str = "kube-system",
        name: str = "cluster-autoscaler",
        rng: random.Random | None = None,
    ) -> None:
        self._identity = identity
        self._name = name
        self._namespace = namespace
        self._timings = timings
        self._rng = rng if rng is not None else random.Random()
        self._phase = LeasePhase.STANDBY
        self._expires: Instant | None = None
        self._renew_by = 0.0
        self._observed: ElectionLease | None = None
        self._observed_at = 0.0
        self._exists = False
        self._must_read = True
        self._not_before = -math.inf
        self._conflicts = 0
        self._lost_reason = ""

    @property
    def phase(self) -> LeasePhase:
        """The state of this replica in the election."""
        return self._phase

    @property
    def lost_reason(self) -> str:
        """Why leadership was lost, and how late the loss was noticed; empty if it was not lost."""
        return self._lost_reason

    @property
    def holder(self) -> str | None:
        """The last known holder of the lease; None if there was none."""
        return (self._observed.spec.holder_identity or None) if self._observed is not None else None

    def may_write(self, now: Instant, takes_s: float) -> bool:
        """Whether the lease stays valid for a call that starts now and takes `takes_s` seconds.

        Both clocks must agree, because the monotonic clock may stop while a machine is suspended.
        """
        until = self._expires
        return until is not None and now.mono + takes_s < until.mono and now.wall + takes_s < until.wall

    def next(self, now: Instant) -> LeaseStep:
        """Return the step to take now."""
        if self._phase is LeasePhase.LEADING and now.mono >= self._renew_by:
            self._mark_lost(self._overdue_text(now))
        if self._phase in (LeasePhase.LOST, LeasePhase.RELEASED):
            return LeaseEnd()
        if now.mono < self._not_before:
            return self._wait(now)
        if self._must_read:
            return LeaseRead(self._namespace, self._name, self._timeout(now))
        if self._phase is LeasePhase.STANDBY and self._held_by_other(now):
            self._must_read = True
            self._retry_after(now)
            return self._wait(now)
        return LeaseWrite(self._next_lease(now), create=not self._exists, timeout_s=self._timeout(now))

    def on_read(self, lease: ElectionLease | None, now: Instant) -> None:
        """Process the result of a read; None means that there is no Lease."""
        self._must_read = False
        self._exists = lease is not None
        if lease is None:
            # A holder does not know yet that its Lease was deleted: our observations of it stay valid.
            return
        if self._observed is None or lease.spec != self._observed.spec:
            self._observed_at = now.mono
        self._observed = lease
        if self._phase is LeasePhase.LEADING and lease.spec.holder_identity != self._identity:
            self._mark_lost(f"it has another holder: {lease.spec.holder_identity or 'nobody'}")

    def on_written(self, lease: ElectionLease, sent: Instant) -> None:
        """Process the Lease as the server stored it, in response to a request sent at `sent`."""
        self._phase = LeasePhase.LEADING
        self._exists = True
        self._conflicts = 0
        self._observed = lease
        self._observed_at = sent.mono
        self._expires = sent.later(self._timings.lease_s)
        self._renew_by = sent.mono + self._timings.renew_deadline_s
        self._retry_after(sent)

    def on_failed(self, now: Instant, *, conflict: bool = False) -> None:
        """Record that a call failed or that its outcome is unknown: the Lease must be read before the next write.

        After a `conflict` the leader reads at once, because it may have conflicted with its own write of unknown
        outcome.
        """
        self._must_read = True
        self._conflicts += conflict
        if not (conflict and self._phase is LeasePhase.LEADING and self._conflicts == 1):
            self._retry_after(now)

    def on_crash(self) -> None:
        """Forbid all further writes, without telling the server."""
        self._mark_lost("the election crashed")

    def release(self, now: Instant) -> LeaseWrite | None:
        """Forbid all further writes; return the write that releases the lease, or None if we do not hold it."""
        observed = self._observed
        leading = self._phase is LeasePhase.LEADING
        if self._phase is not LeasePhase.LOST:
            self._end(LeasePhase.RELEASED)
        if not leading or observed is None:
            return None
        timestamp = micro_time(now.wall)
        spec = ElectionSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=timestamp,
            renew_time=timestamp,
            lease_transitions=observed.spec.lease_transitions,
        )
        return LeaseWrite(msgspec.structs.replace(observed, spec=spec), create=False, timeout_s=self._timings.retry_s)

    def _overdue_text(self, now: Instant) -> str:
        deadline_s = self._timings.renew_deadline_s
        late_s = now.mono - self._renew_by
        return f"not renewed for {deadline_s + late_s:.1f} s, which is {late_s:.1f} s beyond the deadline"

    def _mark_lost(self, reason: str) -> None:
        self._lost_reason = reason
        self._end(LeasePhase.LOST)

    def _end(self, phase: LeasePhase) -> None:
        self._expires = None
        self._phase = phase

    def _wait(self, now: Instant) -> LeaseWait:
        wake = min(self._not_before, self._renew_by) if self._phase is LeasePhase.LEADING else self._not_before
        return LeaseWait(max(0.0, wake - now.mono))

    def _retry_after(self, now: Instant) -> None:
        # Those who wait spread their attempts; the leader keeps its interval.
        jitter = self._rng.uniform(0.0, _RETRY_JITTER) if self._phase is LeasePhase.STANDBY else 0.0
        self._not_before = now.mono + self._timings.retry_s * (1.0 + jitter)

    def _timeout(self, now: Instant) -> float:
        half = self._timings.renew_deadline_s / 2
        return min(half, self._renew_by - now.mono) if self._phase is LeasePhase.LEADING else half

    def _held_by_other(self, now: Instant) -> bool:
        observed = self._observed
        if observed is None or observed.spec.holder_identity in ("", None, self._identity):
            return False
        lasts_s = max(self._timings.lease_s, float(min(observed.spec.lease_duration_seconds or 0, _MAX_LEASE_S)))
        return now.mono < self._observed_at + lasts_s

    def _next_lease(self, now: Instant) -> ElectionLease:
        observed = self._observed
        timestamp = micro_time(now.wall)
        is_ours = observed is not None and observed.spec.holder_identity == self._identity
        transitions = (observed.spec.lease_transitions or 0) if observed is not None else 0
        spec = ElectionSpec(
            holder_identity=self._identity,
            lease_duration_seconds=round(self._timings.lease_s),
            acquire_time=observed.spec.acquire_time if is_ours and observed is not None else timestamp,
            renew_time=timestamp,
            lease_transitions=transitions if is_ours or observed is None else transitions + 1,
        )
        if observed is not None and self._exists:
            return msgspec.structs.replace(observed, spec=spec)
        return ElectionLease.fresh(self._namespace, self._name, spec)


def micro_time(wall: float) -> str:
    """Return Unix seconds as Kubernetes' MicroTime."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
