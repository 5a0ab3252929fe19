"""Events of a process: to the cluster, or in a dry run to the log alone."""

from autoscaler.clock import Clock, ThreadExecutor
from autoscaler.config.tree import Config
from autoscaler.logs import Log
from autoscaler.loop.event_writer import status_object
from autoscaler.observe.correlator import Correlator
from autoscaler.observe.events import EventRecorder, EventStore
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.status import RecentEvent
from autoscaler.ports import EventSink, EventType, Executor, Subject

log = Log(__name__)


def recorder_of(
    config: Config, writes: EventStore, executor: Executor, clock: Clock, metrics: Metrics
) -> EventRecorder | None:
    """Make what sends events to the cluster; None in a dry run, which sends none."""
    if config.loop.dry_run:
        return None
    correlator = Correlator(status_object(config), duplicates=config.observe.record_duplicated_events)
    return EventRecorder(writes, executor, clock, correlator, metrics)


class DaemonEvents:
    """The daemon's events, sent from a thread of their own."""

    def __init__(self, config: Config, writes: EventStore, clock: Clock, metrics: Metrics) -> None:
        self._executor = ThreadExecutor(1)
        self._recorder = recorder_of(config, writes, self._executor, clock, metrics)
        self.sink: EventSink = self._recorder or _LoggedEvents()
        name = config.leader.leader_elect_resource_name
        self._lease = Subject("Lease", name, config.kube.namespace, api_version="coordination.k8s.io/v1")

    def tail(self) -> tuple[RecentEvent, ...]:
        """Return the latest events that were sent."""
        return () if self._recorder is None else self._recorder.tail()

    def identified(self, about: Subject) -> None:
        """Hear of an object which events that name it without its uid are about."""
        if self._recorder is not None:
            self._recorder.identified(about)

    def on_lease(self, message: str) -> None:
        """Tell of the lease who came to lead, or ceased to, as client-go's resourcelock does."""
        self.sink.event(self._lease, EventType.NORMAL, "LeaderElection", message)

    def stop(self) -> None:
        """Send what waits, as far as there is time, and no more."""
        if self._recorder is not None:
            self._recorder.stop()
        self._executor.stop()


class _LoggedEvents:
    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        name = f"{about.namespace}/{about.name}" if about.namespace else about.name
        log.detail("event.withheld", about=f"{about.kind} {name}", kind=kind, reason=reason, message=message)
