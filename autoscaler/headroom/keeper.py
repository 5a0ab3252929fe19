"""The headroom companion: checks every pool at its interval and corrects it."""

from collections.abc import Callable, Iterable

from autoscaler.clock import Clock, Instant
from autoscaler.config.headroom import Headroom, OnShutdown, warnings
from autoscaler.errors import AutoscalerError, LeadershipLost, Refused
from autoscaler.eta.lead_times import Leads
from autoscaler.headroom.metrics import HeadroomMetrics
from autoscaler.headroom.objects import owner_labels, read_deployment
from autoscaler.headroom.plan import plan_orphans
from autoscaler.headroom.pool import ManagedPool
from autoscaler.headroom.status import HeadroomStatus
from autoscaler.headroom.writer import PoolWriter
from autoscaler.logs import Log
from autoscaler.loop.companion import Companion
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.meta import JsonObject
from autoscaler.ports import EventSink
from autoscaler.snapshot.cluster import ClusterView

log = Log(__name__)

_ORPHANS_S = 600.0
_LEAVE_S = 10.0
_IMPATIENT_S = 1.0
_FORBIDDEN = 403


class HeadroomKeeper(Companion):
    """Ticks run on one thread. Passes run on another thread and only store their view here.

    Passes need nothing from this companion, because decisions recognise pause pods by their labels.
    """

    name = "headroom"

    def __init__(
        self,
        headroom: Headroom,
        writer: PoolWriter,
        events: EventSink,
        metrics: HeadroomMetrics,
        clock: Clock,
        changed: Callable[[], Headroom | None] = lambda: None,
        leads: Leads | None = None,
    ) -> None:
        """With `leads` None, boot times stay unknown. `changed` returns a new configuration if there is one."""
        self._headroom = headroom
        self._objects = writer.objects
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._changed = changed
        self._leads = leads or Leads()
        self._view: ClusterView | None = None
        self._members: dict[str, ManagedPool] = {}
        self._removed: set[str] = set()
        self._namespaces: set[str] = set()
        self._orphans_at = float("-inf")
        self.status = HeadroomStatus()
        """The result of the last check of all pools; each check replaces it as a whole."""
        self._configure(headroom)

    @property
    def interval_s(self) -> float:
        """Seconds between two checks; short until the first pass has shown the number of active pods."""
        interval_s = self._headroom.reconcile_interval_s
        return interval_s if self._view is not None else min(_IMPATIENT_S, interval_s)

    def after_pass(self, ended: EndedPass) -> None:
        """Store the view for the next check."""
        if ended.report.view is not None:
            self._view = ended.report.view

    def tick(self, now: Instant) -> None:
        """Check every pool; a failing pool does not delay the others. Raises `LeadershipLost`."""
        self._reload()
        view = self._view
        if view is None:
            return  # the number of active pods is not known yet
        began = self._clock.now().mono
        for member in self._members.values():
            member.look(self._headroom, view, now)
        if now.mono - self._orphans_at >= _ORPHANS_S or self._removed:
            self._collect_orphans(now)
        self.status = HeadroomStatus(looked_at=now.wall, pools=tuple(pool.status for pool in self._members.values()))
        self._metrics.took(self._clock.now().mono - began)

    def leave(self) -> None:
        """Carry out the configured action for a stop of the leader; failures are logged as warnings."""
        if self._headroom.on_shutdown is OnShutdown.KEEP:
            return
        give_up = self._clock.now().mono + _LEAVE_S
        for pool in self._headroom.pools:
            now = self._clock.now()
            try:
                if now.mono < give_up:
                    self._writer.leave(pool, self._headroom, now.wall)
                else:
                    log.warning("headroom.not_left_in_order", pool=pool.name, error="out of time")
            except AutoscalerError as error:
                log.warning("headroom.not_left_in_order", pool=pool.name, error=error)

    def _reload(self) -> None:
        fresh = self._changed()
        if fresh is not None:
            log.info("headroom.reloaded", pools=len(fresh.pools))
            self._configure(fresh)

    def _configure(self, fresh: Headroom) -> None:
        for warning in warnings(fresh):
            log.warning("config.headroom", problem=warning)
        gone = self._members.keys() - fresh.pool_names
        self._removed = (self._removed | gone) - fresh.pool_names
        for name in gone:
            self._metrics.forget(name)
        before = self._members
        self._members = {}
        for pool in fresh.pools:
            member = before.get(pool.name) or ManagedPool(pool, self._writer, self._events, self._metrics, self._leads)
            member.changed(pool)
            self._members[pool.name] = member
        self._namespaces |= {pool.namespace for pool in fresh.pools}
        self._headroom = fresh

    def _collect_orphans(self, now: Instant) -> None:
        """Delete our Deployments that have no pool; the next check retries failures."""
        try:
            orphans = plan_orphans(map(read_deployment, self._owned()), self._headroom, self._removed, now)
            for orphan in orphans.delete:
                self._objects.delete_deployment(orphan.namespace, orphan.name, orphan.uid)
                self._metrics.orphan_deleted()
                log.info("headroom.orphan_deleted", namespace=orphan.namespace, name=orphan.name)
        except LeadershipLost:
            raise
        except AutoscalerError as error:
            log.warning("headroom.orphans_not_collected", error=error)
            return
        for orphan in orphans.unreadable:
            log.warning(
                "headroom.heartbeat_unreadable", namespace=orphan.namespace, name=orphan.name, value=orphan.heartbeat
            )
        self._removed.clear()
        self._orphans_at = now.mono

    def _owned(self) -> Iterable[JsonObject]:
        """Yield every Deployment of ours; only from the namespaces of pools if others may not be read."""
        labels = owner_labels(self._headroom)
        try:
            return self._objects.deployments("", labels)
        except Refused as error:
            if error.status != _FORBIDDEN:
                raise
        return [
            deployment
            for namespace in sorted(self._namespaces)
            for deployment in self._objects.deployments(namespace, labels)
        ]
