"""Sends events to the cluster, or in a dry run only to the log."""

from autoscaler.clock import Clock
from autoscaler.config.tree import Config
from autoscaler.logs import Log
from autoscaler.loop.event_writer import status_object
from autoscaler.observe.correlator import Correlator
from autoscaler.observe.events import EventRecorder, EventStore
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.status import RecentEvent
from autoscaler.ports import EventSink, EventType, Executor, Subject

log = Log(__name__)


class ProcessEvents:
    """The `ports.EventSink` of a process."""

    def __init__(
        self,
        config: Config,
        store: EventStore,
        executor: Executor,
        clock: Clock,
        metrics: Metrics,
        other: EventSink | None = None,
    ) -> None:
        """`executor` sends events in the background; `other` receives all events as well."""
        name = config.leader.leader_elect_resource_name
        self._lease = Subject("Lease", name, config.kube.namespace, api_version="coordination.k8s.io/v1")
        self._other = other
        self._recorder: EventRecorder | None = None
        if not config.loop.dry_run:
            correlator = Correlator(status_object(config), duplicates=config.observe.record_duplicated_events)
            self._recorder = EventRecorder(store, executor, clock, correlator, metrics)

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        """Record one event."""
        if self._other is not None:
            self._other.event(about, kind, reason, message)
        if self._recorder is not None:
            self._recorder.event(about, kind, reason, message)
            return
        name = f"{about.namespace}/{about.name}" if about.namespace else about.name
        log.detail("event.withheld", about=f"{about.kind} {name}", kind=kind, reason=reason, message=message)

    def tail(self) -> tuple[RecentEvent, ...]:
        """Return the latest events that were sent."""
        return () if self._recorder is None else self._recorder.tail()

    def identified(self, about: Subject) -> None:
        """Record the uid of an object, for events that name the object without its uid."""
        if self._recorder is not None:
            self._recorder.identified(about)

    def on_lease(self, message: str) -> None:
        """Report that the holder of the lease changed, as client-go's resourcelock does."""
        self.event(self._lease, EventType.NORMAL, "LeaderElection", message)

    def stop(self) -> None:
        """Send the queued events while time remains, and accept no more."""
        if self._recorder is not None:
            self._recorder.stop()
