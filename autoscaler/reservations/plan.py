"""Applies operations to a target's reservations: a pure function of the state, the operations and the time.

Each target has a number of slots. Entries get slots in order of arrival; entries without a slot wait, and their clocks
stand still. Every plan extends waiting entries, drops expired ones, applies the operations in order, and gives free
slots to the next entries.
"""

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.config.reservations import RemovalOrder, ReservationTarget
from autoscaler.reasons import NoReservation
from autoscaler.reservations.state import (
    LEDGER_ROWS,
    AnnouncementSource,
    Reservation,
    TargetState,
    entries_that_fit,
    known,
    newest,
)

_EARLY_S = 600.0
"""Seconds for which the end of an unannounced job is remembered."""


class OperationVerdict(StrEnum):
    """The outcome of an operation."""

    ADDED = "added"
    REMOVED = "removed"
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    REFUSED = "refused"


class JobAttempt(msgspec.Struct, frozen=True):
    """Ledger keys of one attempt of one job."""

    queued: str
    completed: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One change that a client requests for a target."""

    target: str
    amount: int = 0
    """Reservations to add, or, if negative, to remove; 0 without `entry` only brings the state up to date."""
    length_s: float = 0.0
    delivery: str = ""
    """Ledger key that identifies a repeated delivery; if empty, repeats are not recognised."""
    seed: str = ""
    """Random text from which the ids of the new entries are derived."""
    job: JobAttempt | None = None
    entry: str = ""
    """Id of the one entry to remove."""
    source: AnnouncementSource = AnnouncementSource("api")
    accepted: Instant = Instant(0.0, 0.0)


class OperationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one operation."""

    verdict: OperationVerdict
    reason: NoReservation | None = None
    amount: int = 0
    """Number of entries added or, if negative, removed."""


class ReservationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The new state, and the changes that led to it."""

    state: TargetState
    changed: bool
    """Whether the state has to be stored."""
    effects: tuple[OperationResult, ...] = ()
    """One result per operation, in the order of the operations."""
    expired: int = 0
    too_old: int = 0
    """Number of entries that waited longer than the maximum."""
    extended: int = 0
    """Number of entries that got a slot after a wait."""
    waits_s: tuple[float, ...] = ()
    """Seconds between acceptance and slot, for entries that got a slot now."""


def plan(
    state: TargetState, operations: Sequence[Operation], target: ReservationTarget, wall: float, replay_ttl_s: float
) -> ReservationPlan:
    """Apply operations at a time (Unix seconds); without operations, only bring the state up to date."""
    return _Planning(state, target, round(wall, 3), replay_ttl_s).run(operations)


def active(state: TargetState) -> int:
    """Return the number of entries with slots."""
    return sum(entry.activated is not None for entry in state.entries)


class _Planning:
    """Computes one plan."""

    def __init__(self, state: TargetState, target: ReservationTarget, now: float, replay_ttl_s: float) -> None:
        self._before = state
        self._target = target
        self._now = now
        self._ttl_s = replay_ttl_s
        self._slots = target.slots_at(now)
        self._entries: list[Reservation] = list(state.entries)
        self._waited: set[str] = set()
        self._deliveries, self._jobs = dict(state.deliveries), dict(state.jobs)
        self._recorded = False
        self._expired = self._too_old = 0

    def run(self, operations: Sequence[Operation]) -> ReservationPlan:
        self._stop_clocks()
        self._expire()
        adding = [self._apply(item) for item in operations]
        refused = self._trim({id_ for ids, _ in adding for id_ in ids})
        effects = tuple(
            self._after_trim(operation, ids, effect, refused)
            for operation, (ids, effect) in zip(operations, adding, strict=True)
        )
        started = self._promote()
        entries = tuple(self._entries)
        changed = self._recorded or entries != self._before.entries
        return ReservationPlan(
            state=TargetState(entries=entries, deliveries=self._rows(self._deliveries), jobs=self._rows(self._jobs))
            if changed
            else self._before,
            changed=changed,
            effects=effects,
            expired=self._expired,
            too_old=self._too_old,
            extended=sum(entry.id in self._waited for entry in started),
            waits_s=tuple(max(0.0, self._now - entry.accepted) for entry in started),
        )

    def _stop_clocks(self) -> None:
        """Extend entries without a slot: their clocks restart when they get one."""
        if self._slots is not None:
            self._entries[self._slots :] = [replace(entry, activated=None) for entry in self._entries[self._slots :]]
        self._waited = {entry.id for entry in self._entries if entry.activated is None}

    def _expire(self) -> None:
        oldest = self._now - self._target.max_duration_s
        running = [entry for entry in self._entries if entry.expires is None or entry.expires > self._now]
        self._expired = len(self._entries) - len(running)
        self._entries = [entry for entry in running if entry.activated is not None or entry.accepted >= oldest]
        self._too_old = len(running) - len(self._entries)

    def _apply(self, operation: Operation) -> tuple[tuple[str, ...], OperationResult]:
        """Return the ids of the entries that an operation adds, and its result before any of them are refused."""
        if operation.delivery:
            if known(self._deliveries, operation.delivery, self._now):
                return (), OperationResult(verdict=OperationVerdict.DUPLICATE, reason=NoReservation.DUPLICATE)
            self._deliveries[operation.delivery] = self._until(self._ttl_s)
            self._recorded = True
        job = operation.job
        matched = job is not None and self._target.removal is RemovalOrder.MATCHED
        if operation.entry:
            gone = self._remove(entry for entry in self._entries if entry.id == operation.entry)
            return (), _removed(gone)
        if operation.amount > 0:
            if matched and job is not None and (why := self._queued(job)) is not None:
                return (), why
            return self._add(operation)
        if matched and job is not None:
            return (), self._completed(job)
        return (), _removed(self._remove(self._entries[: -operation.amount]))

    def _queued(self, job: JobAttempt) -> OperationResult | None:
        """Record that a job waits; return why it gets no entry."""
        if known(self._jobs, job.completed, self._now):
            return OperationResult(verdict=OperationVerdict.IGNORED, reason=NoReservation.JOB_COMPLETED)
        if known(self._jobs, job.queued, self._now):
            return OperationResult(verdict=OperationVerdict.DUPLICATE, reason=NoReservation.DUPLICATE)
        self._jobs[job.queued] = self._until(self._ttl_s)
        self._recorded = True
        return None

    def _completed(self, job: JobAttempt) -> OperationResult:
        if known(self._jobs, job.completed, self._now):
            return OperationResult(verdict=OperationVerdict.DUPLICATE, reason=NoReservation.DUPLICATE)
        announced = known(self._jobs, job.queued, self._now)
        self._jobs[job.completed] = self._until(self._ttl_s if announced else _EARLY_S)
        self._recorded = True
        gone = self._remove(entry for entry in self._entries if entry.job == job.queued)
        if not gone and not announced:
            return OperationResult(verdict=OperationVerdict.IGNORED, reason=NoReservation.UNKNOWN_JOB)
        return _removed(gone)

    def _add(self, operation: Operation) -> tuple[tuple[str, ...], OperationResult]:
        made = [
            Reservation(
                id=hashlib.sha256(f"{operation.seed}/{number}".encode()).hexdigest()[:32],
                accepted=self._now,
                length_s=operation.length_s,
                job="" if operation.job is None else operation.job.queued,
                source=operation.source,
            )
            for number in range(operation.amount)
        ]
        self._entries += made
        return tuple(entry.id for entry in made), OperationResult(
            verdict=OperationVerdict.ADDED, amount=operation.amount
        )

    def _remove(self, gone: Iterable[Reservation]) -> int:
        ids = {entry.id for entry in gone}
        self._entries = [entry for entry in self._entries if entry.id not in ids]
        return len(ids)

    def _trim(self, added: set[str]) -> set[str]:
        """Refuse the newest of the added entries if too many wait, or if the state would be too large to store."""
        if not added:
            return set()
        most = len(self._entries) if self._slots is None else self._slots + self._target.max_queued
        most = min(most, entries_that_fit(tuple(self._entries)))
        refused = {entry.id for entry in self._entries[most:]} & added
        self._entries = [entry for entry in self._entries if entry.id not in refused]
        return refused

    def _after_trim(
        self, operation: Operation, ids: tuple[str, ...], effect: OperationResult, refused: set[str]
    ) -> OperationResult:
        left = sum(group_id not in refused for group_id in ids)
        if left == len(ids):
            return effect
        if left:
            return replace(effect, amount=left)
        # The client may try again, so the ledger must not recognise it.
        self._deliveries.pop(operation.delivery, None)
        if operation.job is not None:
            self._jobs.pop(operation.job.queued, None)
        return OperationResult(verdict=OperationVerdict.REFUSED, reason=NoReservation.QUEUE_LIMIT)

    def _promote(self) -> list[Reservation]:
        started = []
        for position, entry in enumerate(self._entries[: self._slots]):
            if entry.activated is None:
                self._entries[position] = replace(entry, activated=self._now)
                started.append(entry)
        return started

    def _rows(self, ledger: dict[str, int]) -> dict[str, int]:
        return newest({key: until for key, until in ledger.items() if until > self._now}, LEDGER_ROWS)

    def _until(self, seconds: float) -> int:
        return int(self._now + seconds) + 1


def _removed(count: int) -> OperationResult:
    if not count:
        return OperationResult(verdict=OperationVerdict.IGNORED, reason=NoReservation.NOTHING_RESERVED)
    return OperationResult(verdict=OperationVerdict.REMOVED, amount=-count)
