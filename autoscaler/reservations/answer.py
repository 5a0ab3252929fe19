"""The offline answer of reservations: results of operations, without a daemon."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from autoscaler.config.reservations import Reservations
from autoscaler.eta.lead_time import NO_LEAD, Lead
from autoscaler.reservations.plan import Operation, plan
from autoscaler.reservations.pods import count_real, demand
from autoscaler.reservations.state import TargetState, timestamp
from autoscaler.snapshot.cluster import ClusterView


class ReservationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One reservation."""

    id: str
    state: str
    effective: str
    expiration: str


class OperationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one operation."""

    result: str
    reason: str
    amount: int


class TargetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One target, with the same figures as in the daemon's answer."""

    target: str
    at: str
    slots: int | None
    active: int
    queued: int
    lead_seconds: float
    """Seconds before the start of an override at which its floor begins to count."""
    lead_basis: str
    early_floor: int
    """The higher floor of an override that begins soon and counts already; 0 if there is none."""
    early_from: str
    """When that override begins."""
    planned: int
    real: int
    virtual: int
    expired: int
    extended: int
    effects: tuple[OperationAnswer, ...] = ()
    entries: tuple[ReservationAnswer, ...] = ()


def answers(
    section: Reservations,
    states: Mapping[str, TargetState],
    operations: Sequence[Operation],
    view: ClusterView,
    leads: Mapping[str, Lead],
    wall: float,
) -> list[TargetAnswer]:
    """Return every target after the operations are applied at a time (Unix seconds)."""
    target_answers = []
    for target in section.targets:
        mine = [operation for operation in operations if operation.target == target.name]
        done = plan(states.get(target.name, TargetState()), mine, target, wall, section.replay_ttl_s)
        lead = leads.get(target.name, NO_LEAD)
        wanted = demand(target, done.state, count_real(target, view), wall, lead.seconds)
        target_answers.append(
            TargetAnswer(
                target=target.name,
                at=timestamp(wall),
                slots=wanted.slots,
                active=wanted.active,
                queued=wanted.queued,
                lead_seconds=lead.seconds,
                lead_basis=lead.basis,
                early_floor=0 if wanted.early_from is None else wanted.floor,
                early_from="" if wanted.early_from is None else timestamp(wanted.early_from),
                planned=wanted.planned,
                real=wanted.real,
                virtual=wanted.virtual,
                expired=done.expired,
                extended=done.extended,
                effects=tuple(
                    OperationAnswer(result=effect.verdict, reason=effect.reason or "", amount=effect.amount)
                    for effect in done.effects
                ),
                entries=tuple(_entries(done.state, wall)),
            )
        )
    return target_answers


def _entries(state: TargetState, wall: float) -> Iterable[ReservationAnswer]:
    for entry in state.entries:
        effective, expiration = map(timestamp, entry.shown(wall))
        name = "queued" if entry.activated is None else "active"
        yield ReservationAnswer(id=entry.id, state=name, effective=effective, expiration=expiration)
