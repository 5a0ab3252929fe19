"""Makes the companions that are configured, and the HTTP routes on which they show themselves."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

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
from autoscaler.observe.http.endpoint import Endpoint, EndpointRoutes
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.page.section import CompanionSection
from autoscaler.ports import EventSink, Executor
from autoscaler.recording.anonymizer import anonymize
from autoscaler.recording.directory import RecordingDirectory
from autoscaler.recording.flight_recorder import FlightRecorder
from autoscaler.recording.snapshotz import Snapshots
from autoscaler.reservations.metrics import RESERVATIONS, ReservationMetrics
from autoscaler.reservations.page import reservations_block
from autoscaler.reservations.plan import Operation
from autoscaler.reservations.service import ReservationService
from autoscaler.reservations.status import reservation_routes


class CompanionContext(msgspec.Struct, frozen=True, kw_only=True):
    """What companions may use of the daemon."""

    client: Client
    """For reading; writes go through `writes`, which ask for leadership and in a dry run write nothing."""
    writes: ClusterWrites
    events: EventSink
    metrics: Metrics
    clock: Clock
    wake: Callable[[], None] = lambda: None
    """Asks for a pass soon."""
    executor: Executor | None = None
    """For what companions do beside passes and ticks; None: threads of their own."""
    listens: bool = True
    """Whether ports may be opened."""
    fresh_headroom: FreshHeadroom = msgspec.field(default_factory=FreshHeadroom)
    """What the configuration has come to say of it."""


class CompanionService(Protocol):
    """What a companion does on every replica, leading or not."""

    def start(self) -> None:
        """Begin; called once, before this replica leads."""
        ...

    def close(self) -> None:
        """Come to an orderly end, before ticks and passes do; a second call does nothing."""
        ...


class CompanionSet(msgspec.Struct, frozen=True):
    """The companions of a process."""

    companions: Companions
    routes: EndpointRoutes = {}
    """Read-only routes that they add; of every replica, leading or not."""
    blocks: tuple[CompanionSection, ...] = ()
    """What they add to the status page."""
    services: tuple[CompanionService, ...] = ()
    expected: Callable[[], Mapping[str, float]] = dict
    """Returns the seconds until pending pods are ready, by pod key, as of the last pass."""
    announce: Callable[[Operation], object] | None = None
    """Takes announced work in, as the listener for it does; None: reservations are not configured."""
    leads: Callable[[], Mapping[str, Lead]] = dict
    """Returns how long before a window its capacity is asked for, by `headroom/POOL` and `reservations/TARGET`."""

    def start(self) -> None:
        """Begin what every replica does."""
        for service in self.services:
            service.start()

    def close(self) -> None:
        """End what every replica does."""
        for service in self.services:
            service.close()


def make_company(config: Config, around: CompanionContext, others: Sequence[Companion] = ()) -> CompanionSet:
    """Make the flight recorder and the companions that the configuration asks for, beside `others`."""
    shelf = _shelf(config, around)
    recorder = FlightRecorder(None if shelf is None else shelf.shelf, _publishing(config))
    members: list[Companion] = [recorder, *others]
    routes: dict[str, Mapping[str, Endpoint[Any]]] = dict(recorder.routes() if config.observe.serve_recordings else {})
    blocks: list[CompanionSection] = []
    services: list[CompanionService] = [] if shelf is None else [shelf]
    if config.observe.debugging_snapshot_enabled:
        snapshots = Snapshots(around.clock)
        members.append(snapshots)
        routes.update(snapshots.routes())
    expected: Callable[[], Mapping[str, float]] = dict
    announce: Callable[[Operation], object] | None = None
    keeper: EtaKeeper | None = None
    if config.eta.pod_start_estimates:
        keeper = starts = _starts(config, around)
        members.append(starts)
        routes.update(EtaPages(lambda: starts.status, lambda: around.clock.now().wall, starts_page).routes())
        expected = lambda: starts.expected  # noqa: E731  # a property of what was just made
    leads = _leads(config, keeper)
    leading: list[Callable[[], Mapping[str, Lead]]] = []
    if config.headroom is not None:
        pools = _headroom(config, config.headroom, around, leads)
        leading.append(lambda: {f"headroom/{one.name}": one.lead for one in pools.status.pools})
        members.append(pools)
        routes.update(headroom_routes(lambda: pools.status))
        blocks.append(headroom_block(lambda: pools.status))
    if config.reservations is not None:
        desk = _desk(config, around, leads)
        leading.append(lambda: {f"reservations/{name}": lead for name, lead in desk.keeper.leads().items()})
        members.append(desk.keeper)
        routes.update(reservation_routes(desk.keeper.statuses))
        blocks.append(reservations_block(desk.keeper.statuses))
        services.append(desk)
        announce = desk.commits.put
    if keeper is not None:
        blocks.append(starts_block(lambda: starts.status))
    if config.eta.expired_pod_cleanup:
        members.append(_expired_pods(config, around, keeper))
    companions = Companions(members, around.metrics.companion_failed)
    leads_of_all = lambda: {name: lead for each in leading for name, lead in each().items()}  # noqa: E731  # as above
    return CompanionSet(companions, routes, tuple(blocks), tuple(services), expected, announce, leads_of_all)


def _desk(config: Config, around: CompanionContext, leads: Leads) -> ReservationService:
    metrics = ReservationMetrics(around.metrics.companion(RESERVATIONS))
    desk = ReservationService(config, around.client, around.events, metrics, around.clock, around.executor, leads)
    desk.commits.added = around.wake
    if around.listens:
        desk.listen()
    return desk


def _starts(config: Config, around: CompanionContext) -> EtaKeeper:
    kept = config.eta.persist_boot_times and not config.loop.dry_run
    boot_times = ClusterBootTimes(around.client, around.writes, config.kube.namespace) if kept else None
    return EtaKeeper(config, EtaMetrics(around.metrics.companion(ETA)), around.events, boot_times)


def _leads(config: Config, keeper: EtaKeeper | None) -> Leads:
    """Return where lead times are asked for; without estimates nothing is learned of boots."""
    times = LoopIntervals(config.loop.scan_interval_s, config.health.max_node_provision_time_s)
    return Leads(times, config.pods, lambda: None if keeper is None else keeper.status)


def _expired_pods(config: Config, around: CompanionContext, keeper: EtaKeeper | None) -> ExpiredPods:
    pods = ClusterPods(around.client, around.writes)
    metrics = ExpiryMetrics(around.metrics.companion(EXPIRY))
    if keeper is None:
        return ExpiredPods(config.eta, pods, around.events, metrics)
    return ExpiredPods(config.eta, pods, around.events, metrics, keeper.deleting)


class _RecordingWriter:
    """A shelf, and the thread that fills it."""

    def __init__(self, config: Config, directory: str, around: CompanionContext) -> None:
        self._own = ThreadExecutor(1) if around.executor is None else None
        executor = around.executor or self._own
        assert executor is not None
        self.shelf = RecordingDirectory(Path(directory), config.observe.record_passes, executor, around.metrics)

    def start(self) -> None:
        """Recordings come with passes."""

    def close(self) -> None:
        """Let the one that is being written come to its end."""
        if self._own is not None:
            self._own.stop()


def _shelf(config: Config, around: CompanionContext) -> _RecordingWriter | None:
    directory = config.observe.record_dir
    return None if directory is None else _RecordingWriter(config, directory, around)


def _publishing(config: Config) -> Callable[[bytes], bytes]:
    """Return what is done to recordings before anybody sees them; nobody ever learns the key of the pseudonyms."""
    if not config.observe.anonymize:
        return lambda body: body
    key = secrets.token_bytes(32)
    return lambda body: anonymize(body, key)


def _headroom(config: Config, headroom: Headroom, around: CompanionContext, leads: Leads) -> HeadroomKeeper:
    cutoff = config.pods.expendable_pods_priority_cutoff
    return HeadroomKeeper(
        headroom,
        PoolWriter(ClusterHeadroom(around.client, around.writes), cutoff),
        around.events,
        HeadroomMetrics(around.metrics.companion(HEADROOM)),
        around.clock,
        changed=around.fresh_headroom.take,
        leads=leads,
    )
