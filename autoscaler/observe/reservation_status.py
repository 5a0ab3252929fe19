"""What people see of reservations: one value per target, for the API and the status page."""

from collections.abc import Callable, Mapping

import msgspec

from autoscaler.companions.reservation_pods import Demand
from autoscaler.companions.reservation_state import Entry, Source, State
from autoscaler.observe.endpoint import Described, Nothing, json_endpoint


class EntryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One reservation. Times end in `_at` and are Unix seconds; what is queued would begin now."""

    id: str
    state: str
    source: Source
    effective_at: float
    expires_at: float


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One target."""

    name: str
    degraded: str = ""
    """Why its stored state is left alone; empty where it is in order."""
    slots: int | None = None
    """How many reservations may be active; null: any number."""
    active: int = 0
    queued: int = 0
    planned: int = 0
    real: int = 0
    """Pods that use reservations up; as of the last pass of the leader, else 0."""
    virtual: int = 0
    unplaceable: Mapping[str, int] = {}
    """Pods stood for without room, by reason."""
    entries: tuple[EntryStatus, ...] = ()


def target_status(
    name: str, state: State, demand: Demand, unplaceable: Mapping[str, int], degraded: str, now: float
) -> TargetStatus:
    """Put together what is shown of a target."""
    return TargetStatus(
        name=name,
        degraded=degraded,
        slots=demand.slots,
        active=demand.active,
        queued=demand.queued,
        planned=demand.planned,
        real=demand.real,
        virtual=demand.virtual,
        unplaceable=dict(unplaceable),
        entries=tuple(_entry(one, now) for one in state.entries),
    )


def _entry(one: Entry, now: float) -> EntryStatus:
    effective, expires = one.shown(now)
    return EntryStatus(
        id=one.id,
        state="queued" if one.activated is None else "active",
        source=one.source,
        effective_at=effective,
        expires_at=expires,
    )


class ReservationStatus(msgspec.Struct, frozen=True):
    """All targets."""

    targets: tuple[TargetStatus, ...] = ()


def reservation_routes(targets: Callable[[], tuple[TargetStatus, ...]]) -> Described:
    """Return the read-only route of the main port."""
    endpoint = json_endpoint(
        summary="The targets of reservations: what is announced, planned and used.",
        asks=Nothing,
        answers=ReservationStatus,
        answer=lambda _: ReservationStatus(targets()),
        when="where reservations are configured",
    )
    return {"/api/v1/reservations": {"GET": endpoint}}
