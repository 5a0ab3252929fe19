"""The published state of reservations, one value per target, for the API and the status page."""

from collections.abc import Callable, Mapping

import msgspec

from autoscaler.config.reservations import ReservationTarget
from autoscaler.eta.lead_time import NO_LEAD, Lead
from autoscaler.observe.http.endpoint import EndpointRoutes, Nothing, json_endpoint
from autoscaler.reservations.pods import TargetDemand
from autoscaler.reservations.state import AnnouncementSource, Reservation, TargetState


class EntryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One reservation. Times end in `_at` and are Unix seconds; for a queued one, they count from now."""

    id: str
    state: str
    source: AnnouncementSource
    effective_at: float
    expires_at: float


class OverrideStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduled override that is in force. Times are Unix seconds."""

    began_at: float
    ends_at: float


class EarlyFloor(msgspec.Struct, frozen=True, kw_only=True):
    """A floor that counts before its override begins at `starts_at` (Unix seconds)."""

    floor: int
    starts_at: float


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One target."""

    name: str
    degraded: str = ""
    """Why the stored state is unreadable and stays unchanged; empty if it is readable."""
    loaded: bool = True
    """Whether this process has read the stored state."""
    slots: int | None = None
    """Maximum number of active reservations; null means any number."""
    active: int = 0
    queued: int = 0
    lead_seconds: float = 0.0
    """Seconds before the start of an override at which its floor begins to count."""
    lead: Lead = NO_LEAD
    """The parts of that time."""
    early: EarlyFloor | None = None
    """The higher floor of an override that begins soon and counts already; null if there is none."""
    planned: int = 0
    real: int = 0
    """Number of existing pods that use reservations, as of the leader's last pass; 0 on other replicas."""
    virtual: int = 0
    unplaceable: Mapping[str, int] = {}
    """Number of fake pods without room, by reason."""
    next_expiry_at: float | None = None
    """When the first active reservation expires unless it is released earlier; null if none is active."""
    backlog: int = 0
    """Operations that this replica has accepted and not stored yet."""
    floor: int = 0
    """Number of pods that are planned for at present without reservations."""
    override: OverrideStatus | None = None
    """The scheduled override that sets the floor; null if none is in force."""
    entries: tuple[EntryStatus, ...] = ()


class InboxStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a target in the inbox of a replica."""

    loaded: bool
    """Whether the stored state has been read."""
    unreadable: str
    """Why the stored state is unreadable; empty if it is readable."""
    waiting: int
    """Operations that are not stored yet."""


def target_status(
    target: ReservationTarget,
    state: TargetState,
    demand: TargetDemand,
    lead: Lead,
    unplaceable: Mapping[str, int],
    standing: InboxStatus,
    now: float,
) -> TargetStatus:
    """Return the status of a target; `state` must be up to date."""
    override = target.override_at(now)
    window = None if override is None else override.window(now)
    return TargetStatus(
        name=target.name,
        degraded=standing.unreadable,
        loaded=standing.loaded,
        slots=demand.slots,
        active=demand.active,
        queued=demand.queued,
        lead_seconds=lead.seconds,
        lead=lead,
        early=None if demand.early_from is None else EarlyFloor(floor=demand.floor, starts_at=demand.early_from),
        planned=demand.planned,
        real=demand.real,
        virtual=demand.virtual,
        unplaceable=dict(unplaceable),
        next_expiry_at=min(
            (entry.shown(now)[1] for entry in state.entries if entry.activated is not None), default=None
        ),
        backlog=standing.waiting,
        floor=target.floor_at(now),
        override=None if window is None else OverrideStatus(began_at=window[0], ends_at=window[1]),
        entries=tuple(_entry(entry, now) for entry in state.entries),
    )


def _entry(entry: Reservation, now: float) -> EntryStatus:
    effective, expires = entry.shown(now)
    return EntryStatus(
        id=entry.id,
        state="queued" if entry.activated is None else "active",
        source=entry.source,
        effective_at=effective,
        expires_at=expires,
    )


class ReservationStatus(msgspec.Struct, frozen=True):
    """The status of all targets."""

    targets: tuple[TargetStatus, ...] = ()


def reservation_routes(targets: Callable[[], tuple[TargetStatus, ...]]) -> EndpointRoutes:
    """Return the read-only route of the main port."""
    endpoint = json_endpoint(
        exposes="names of targets; repositories and ids of announced jobs",
        summary="The targets of reservations: what is announced, planned and used.",
        query=Nothing,
        answers=ReservationStatus,
        answer=lambda _: ReservationStatus(targets()),
        when="where reservations are configured",
    )
    return {"/api/v1/reservations": {"GET": endpoint}}
