"""Creates the configured companions and their HTTP routes."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from autoscaler.app.reload import FreshHeadroom
from autoscaler.clock import Clock, ThreadExecutor
from autoscaler.config.headroom import Headroom
from autoscaler.config.tree import Config
from autoscaler.eta.api import EtaPages
from autoscaler.eta.boot_times import ClusterBootTimes
from autoscaler.eta.estimate import LoopIntervals
from autoscaler.eta.keeper import EtaKeeper
from autoscaler.eta.lead_time import Lead
from autoscaler.eta.lead_times import Leads
from autoscaler.eta.metrics import ETA, EXPIRY, EtaMetrics, ExpiryMetrics
from autoscaler.eta.page import starts_page
from autoscaler.eta.page_section import starts_block
from autoscaler.expiry.cluster import ClusterPods
from autoscaler.expiry.keeper import ExpiredPods
from autoscaler.headroom.cluster import ClusterHeadroom
from autoscaler.headroom.keeper import HeadroomKeeper
from autoscaler.headroom.metrics import HEADROOM, HeadroomMetrics
from autoscaler.headroom.page import headroom_block
from autoscaler.headroom.status import headroom_routes
from autoscaler.headroom.writer import PoolWriter
from autoscaler.kube.client import Client
from autoscaler.kube.writes import ClusterWrites
from autoscaler.loop.companion import Companion, Companions
from autoscaler.loop.notice_keeper import NoticeKeeper
from autoscaler.observe.http.endpoint import EndpointRoutes
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.page.section import CompanionSection
from autoscaler.ports import EventSink, Executor
from autoscaler.recording.anonymizer import anonymize
from autoscaler.recording.directory import RecordingDirectory
from autoscaler.recording.flight_recorder import FlightRecorder
from autoscaler.recording.snapshotz import Snapshots
from autoscaler.reservations.metrics import RESERVATIONS, ReservationMetrics
from autoscaler.reservations.page import reservations_block
from autoscaler.reservations.service import ReservationService
from autoscaler.reservations.status import reservation_routes


class CompanionContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the daemon that companions may use."""

    client: Client
    """For reads. Writes go through `writes`, which require leadership and do nothing in a dry run."""
    writes: ClusterWrites
    events: EventSink
    metrics: Metrics
    clock: Clock
    wake: Callable[[], None] = lambda: None
    """Requests a pass soon."""
    executor: Executor | None = None
    """Runs the work of companions besides passes and ticks; None means that they create their own threads."""
    listens: bool = True
    """Whether ports may be opened."""
    fresh_headroom: FreshHeadroom = msgspec.field(default_factory=FreshHeadroom)
    """The newest headroom section of the configuration, for its keeper."""


class CompanionService(Protocol):
    """The work of a companion on every replica, leading or not."""

    def start(self) -> None:
        """Start the service; called once, before this replica leads."""
        ...

    def close(self) -> None:
        """Shut down in an orderly way, before ticks and passes end; a second call does nothing."""
        ...


class CompanionPart(msgspec.Struct, frozen=True, kw_only=True):
    """What one feature adds to a process."""

    companion: Companion
    routes: EndpointRoutes = {}
    """Read-only routes that every replica serves, leading or not."""
    section: CompanionSection | None = None
    """The section of the status page."""
    service: CompanionService | None = None
    lead_times: Callable[[], Mapping[str, Lead]] = dict
    """Returns how many seconds before a window its capacity is requested, by feature and name."""


class CompanionSet(msgspec.Struct, frozen=True, kw_only=True):
    """The companions of a process."""

    companions: Companions
    parts: tuple[CompanionPart, ...]
    sections: tuple[CompanionSection, ...]
    """The companions' sections of the status page, in page order."""
    estimates: EtaKeeper | None = None
    reservations: ReservationService | None = None
    notices: NoticeKeeper | None = None

    @property
    def routes(self) -> EndpointRoutes:
        """Read-only routes that every replica serves, leading or not."""
        return {path: endpoint for part in self.parts for path, endpoint in part.routes.items()}

    def start(self) -> None:
        """Start the services that run on every replica."""
        for part in self.parts:
            if part.service is not None:
                part.service.start()

    def close(self) -> None:
        """Stop the services that run on every replica."""
        for part in self.parts:
            if part.service is not None:
                part.service.close()

    def expected(self) -> Mapping[str, float]:
        """Return the seconds until pending pods are ready, by pod key, as of the last pass."""
        return {} if self.estimates is None else self.estimates.expected

    def lead_times(self) -> Mapping[str, Lead]:
        """Return how many seconds before a window its capacity is requested, by `headroom/POOL` and
        `reservations/TARGET`.
        """
        return {name: lead for part in self.parts for name, lead in part.lead_times().items()}


def make_companions(config: Config, context: CompanionContext, others: Sequence[Companion] = ()) -> CompanionSet:
    """Create the flight recorder and the configured companions, in addition to `others`."""
    recorder = _flight_recorder(config, context)
    snapshots = _snapshots(context) if config.observe.debugging_snapshot_enabled else None
    keeper = _eta_keeper(config, context) if config.eta.pod_start_estimates else None
    leads = _leads(config, keeper)
    estimates = None if keeper is None else _estimates(keeper, context)
    headroom = None if config.headroom is None else _headroom(config, config.headroom, context, leads)
    service = None if config.reservations is None else _reservation_service(config, context, leads)
    reservations = None if service is None else _reservations(service)
    notices = _notice_keeper(config, context)
    expired_pods = _expired_pods(config, context, keeper) if config.eta.expired_pod_cleanup else None
    own = (*others, notices) if notices is not None else others
    given = [CompanionPart(companion=companion) for companion in own]
    parts = [
        part
        for part in (recorder, *given, snapshots, estimates, headroom, reservations, expired_pods)
        if part is not None
    ]
    return CompanionSet(
        companions=Companions([part.companion for part in parts], context.metrics.companion_failed),
        parts=tuple(parts),
        sections=tuple(part.section for part in (headroom, reservations, estimates) if part and part.section),
        estimates=keeper,
        reservations=service,
        notices=notices,
    )


def _notice_keeper(config: Config, context: CompanionContext) -> NoticeKeeper | None:
    """Return the reader of the cloud's notices; a dry run leaves them to others."""
    if config.provider.aws_notice_queue_url is None or config.loop.dry_run:
        return None
    return NoticeKeeper(config.notices, context.writes.annotate_node, context.wake)


def _flight_recorder(config: Config, context: CompanionContext) -> CompanionPart:
    path = config.observe.record_dir
    writer = None if path is None else _RecordingWriter(config, path, context)
    recorder = FlightRecorder(None if writer is None else writer.directory, _publishing(config))
    routes = recorder.routes() if config.observe.serve_recordings else {}
    return CompanionPart(companion=recorder, routes=routes, service=writer)


def _snapshots(context: CompanionContext) -> CompanionPart:
    snapshots = Snapshots(context.clock)
    return CompanionPart(companion=snapshots, routes=snapshots.routes())


def _eta_keeper(config: Config, context: CompanionContext) -> EtaKeeper:
    persisted = config.eta.persist_boot_times and not config.loop.dry_run  # a dry run may not read ConfigMaps
    boot_times = ClusterBootTimes(context.client, context.writes, config.kube.namespace) if persisted else None
    return EtaKeeper(config, EtaMetrics(context.metrics.companion(ETA)), context.events, boot_times)


def _estimates(keeper: EtaKeeper, context: CompanionContext) -> CompanionPart:
    pages = EtaPages(lambda: keeper.status, lambda: context.clock.now().wall, starts_page)
    return CompanionPart(companion=keeper, routes=pages.routes(), section=starts_block(lambda: keeper.status))


def _leads(config: Config, keeper: EtaKeeper | None) -> Leads:
    """Return where to ask for lead times; without estimates, nothing is learned about boots."""
    times = LoopIntervals(config.loop.scan_interval_s, config.health.max_node_provision_time_s)
    return Leads(times, config.pods, lambda: None if keeper is None else keeper.status)


def _headroom(config: Config, headroom: Headroom, context: CompanionContext, leads: Leads) -> CompanionPart:
    keeper = HeadroomKeeper(
        headroom,
        PoolWriter(ClusterHeadroom(context.client, context.writes), config.pods.expendable_pods_priority_cutoff),
        context.events,
        HeadroomMetrics(context.metrics.companion(HEADROOM)),
        context.clock,
        changed=context.fresh_headroom.take,
        leads=leads,
    )
    return CompanionPart(
        companion=keeper,
        routes=headroom_routes(lambda: keeper.status),
        section=headroom_block(lambda: keeper.status),
        lead_times=lambda: {f"headroom/{pool.name}": pool.lead for pool in keeper.status.pools},
    )


def _reservation_service(config: Config, context: CompanionContext, leads: Leads) -> ReservationService:
    metrics = ReservationMetrics(context.metrics.companion(RESERVATIONS))
    service = ReservationService(
        config, context.client, context.events, metrics, context.clock, context.executor, leads
    )
    service.commits.added = context.wake
    if context.listens:
        service.listen()
    return service


def _reservations(service: ReservationService) -> CompanionPart:
    keeper = service.keeper
    return CompanionPart(
        companion=keeper,
        routes=reservation_routes(keeper.statuses),
        section=reservations_block(keeper.statuses),
        service=service,
        lead_times=lambda: {f"reservations/{name}": lead for name, lead in keeper.leads().items()},
    )


def _expired_pods(config: Config, context: CompanionContext, keeper: EtaKeeper | None) -> CompanionPart:
    pods = ClusterPods(context.client, context.writes)
    metrics = ExpiryMetrics(context.metrics.companion(EXPIRY))
    if keeper is None:
        return CompanionPart(companion=ExpiredPods(config.eta, pods, context.events, metrics))
    return CompanionPart(companion=ExpiredPods(config.eta, pods, context.events, metrics, keeper.deleting))


class _RecordingWriter:
    """A directory of recordings, and the thread that fills it."""

    def __init__(self, config: Config, path: str, context: CompanionContext) -> None:
        self._own = ThreadExecutor(1) if context.executor is None else None
        executor = context.executor or self._own
        assert executor is not None
        self.directory = RecordingDirectory(Path(path), config.observe.record_passes, executor, context.metrics)

    def start(self) -> None:
        """Do nothing: recordings are written after passes."""

    def close(self) -> None:
        """Wait until the current recording has been written."""
        if self._own is not None:
            self._own.stop()


def _publishing(config: Config) -> Callable[[bytes], bytes]:
    """Return the function that anonymizes recordings before they are published.

    The key of the pseudonyms is never disclosed.
    """
    if not config.observe.anonymize:
        return lambda body: body
    key = secrets.token_bytes(32)
    return lambda body: anonymize(body, key)
